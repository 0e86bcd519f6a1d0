"""One program in plain arrays, linen and nnx: the same numbers, to the order in which a product is summed."""

import flax.linen as linen
import jax
import jax.numpy as jnp
import optax
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


def test_nnx_state_beside_the_parameters_goes_in_as_an_argument_and_out_as_aux():
    graph, params, rest = nnx.split(NormAndDropout(nnx.Rngs(0)), nnx.Param, ...)

    def losses(params, rest, x):
        model = nnx.merge(graph, params["net"], rest, copy=True)
        return {"l": jnp.mean(model(x) ** 2)}, nnx.split(model, nnx.Param, ...)[2]

    update = jf.multi_update(losses, {"net": jf.Player(optax.sgd(0.1), loss="l", wrt="net")}, has_aux=True)
    state, step = update.init({"net": params}), jax.jit(update.update)
    for _ in range(2):
        state, metrics = step(state, rest, jnp.arange(12, dtype=jnp.float32).reshape(4, 3))
        rest = metrics["aux"]
    model = nnx.merge(graph, state.params["net"], rest)
    assert int(model.dropout.rngs.count.get_value()) == 2
    assert not jnp.allclose(model.norm.mean.get_value(), 0)


def test_every_plain_weight_has_moved():
    """What the others are held to is not the start."""
    moved = jax.tree.map(lambda new, old: jnp.abs(new - old).min() > 1e-3, plain_run()[0], WEIGHTS)
    assert all(jax.tree.leaves(moved))
