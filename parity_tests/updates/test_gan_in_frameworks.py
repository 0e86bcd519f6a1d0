"""The same GAN in plain arrays, linen and nnx: the same parameters after 20 steps, to the order of a sum."""

import flax.linen as linen
import jax
import jax.numpy as jnp
from flax import nnx

from parity_tests.updates._framework_gan import LAYERS, check_against_plain, plain_run


class LinenMLP(linen.Module):
    out: int

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(8, param_dtype=jnp.float64, name="first")(x)
        return linen.Dense(self.out, param_dtype=jnp.float64, name="second")(jnp.tanh(x))


def linen_layers(params):
    return [(params["params"][layer]["kernel"].T, params["params"][layer]["bias"]) for layer in ("first", "second")]


def test_linen():
    models = {name: LinenMLP(out=len(layers[-1][1])) for name, layers in LAYERS.items()}
    params = {
        name: {
            "params": {
                layer: {"kernel": jnp.asarray(weight.T), "bias": jnp.asarray(bias)}
                for layer, (weight, bias) in zip(("first", "second"), layers, strict=True)
            }
        }
        for name, layers in LAYERS.items()
    }
    check_against_plain(lambda name, params, x: models[name].apply(params, x), params, linen_layers)


class NnxMLP(nnx.Module):
    def __init__(self, layers):
        self.first, self.second = map(nnx_linear, layers)

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def nnx_linear(layer):
    weight, bias = layer
    linear = nnx.Linear(weight.shape[1], weight.shape[0], param_dtype=jnp.float64, rngs=nnx.Rngs(0))
    linear.kernel.set_value(jnp.asarray(weight.T))
    linear.bias.set_value(jnp.asarray(bias))
    return linear


def nnx_layers(params):
    return [(params[layer]["kernel"].get_value().T, params[layer]["bias"].get_value()) for layer in ("first", "second")]


def test_nnx():
    graphs, params = {}, {}
    for name, layers in LAYERS.items():
        graphs[name], params[name] = nnx.split(NnxMLP(layers))
    check_against_plain(lambda name, params, x: nnx.merge(graphs[name], params)(x), params, nnx_layers)


def test_every_plain_weight_has_moved():
    """What the others are held to is not the start."""
    moved = jax.tree.map(lambda new, old: jnp.abs(new - old).min() > 1e-5, plain_run()[0], LAYERS)
    assert all(jax.tree.leaves(moved))
