"""One program in plain arrays, linen and nnx: the same numbers, to the order in which a product is summed."""

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import jaxfocal as jf
from parity_tests.updates._framework_program import WEIGHTS, check_against_plain, plain_run


def linen_params():
    return {
        name: {"params": {"kernel": jnp.asarray(weight.T), "bias": jnp.asarray(bias)}}
        for name, (weight, bias) in WEIGHTS.items()
    }


def linen_apply(name, params, x):
    return linen.Dense(2, param_dtype=jnp.float64).apply(params, x)


def test_linen():
    params = check_against_plain(linen_apply, linen_params(), lambda params: params["params"]["kernel"].T)
    assert jax.tree.structure(params) == jax.tree.structure(linen_params())


def nnx_model(name):
    weight, bias = WEIGHTS[name]
    model = nnx.Linear(weight.shape[1], weight.shape[0], param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    model.kernel.set_value(jnp.asarray(weight.T))
    model.bias.set_value(jnp.asarray(bias))
    return model


def test_nnx():
    graphs, params = {}, {}
    for name in WEIGHTS:
        graphs[name], params[name] = nnx.split(nnx_model(name), nnx.Param)
    params = check_against_plain(
        lambda name, params, x: nnx.merge(graphs[name], params)(x),
        params,
        lambda params: params["kernel"].get_value().T,
    )
    model = nnx.merge(graphs["model1"], params["model1"])
    assert isinstance(model, nnx.Linear)
    assert not jnp.allclose(model.kernel.get_value(), WEIGHTS["model1"][0].T, atol=1e-4)


class NormAndDropout(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 2, rngs=rngs)
        self.norm = nnx.BatchNorm(2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.norm(self.linear(x)))


@pytest.mark.parametrize("jit", [jax.jit, lambda step: step], ids=["jitted", "eager"])
def test_nnx_state_beside_the_parameters(jit):
    """Statistics and random keys are the model state; what a model writes into them stays out of the caller's."""
    graph, params, rest = nnx.split(NormAndDropout(nnx.Rngs(0)), nnx.Param, ...)

    def losses(params, rest, x):
        model = nnx.merge(graph, params["net"], rest)
        return {"l": jnp.mean(model(x) ** 2)}, nnx.state(model, nnx.Not(nnx.Param))

    player = jf.Player(optax.sgd(0.1), loss="l", wrt="net")
    update = jf.multi_update(losses, {"net": player}, has_model_state=True)
    state = start = update.init({"net": params}, model_state=rest)
    x = jnp.arange(12, dtype=jnp.float32).reshape(4, 3)
    for _ in range(2):
        state, _ = jit(update.update)(state, x)
    model, untouched = (nnx.merge(graph, at.params["net"], at.model_state) for at in (state, start))
    assert [int(of.dropout.rngs.count.get_value()) for of in (model, untouched)] == [2, 0]
    expected = nnx.merge(graph, params, rest, copy=True)
    for _ in range(2):
        gradient = nnx.grad(lambda model: jnp.mean(model(x) ** 2))(expected)
        nnx.update(expected, jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(expected, nnx.Param), gradient))
    leaves = [jax.tree.leaves(nnx.state(of, nnx.Not(nnx.RngState))) for of in (model, expected)]
    for ours, theirs in zip(*leaves, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not jnp.allclose(model.norm.mean.get_value(), untouched.norm.mean.get_value())


def test_every_plain_weight_has_moved():
    """What the others are held to is not the start."""
    moved = jax.tree.map(lambda new, old: jnp.abs(new - old).min() > 1e-3, plain_run()[0], WEIGHTS)
    assert all(jax.tree.leaves(moved))
