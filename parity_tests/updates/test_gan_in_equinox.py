"""The GAN of ``test_gan_in_frameworks`` in Equinox."""

import jax
import jax.numpy as jnp
import pytest

from parity_tests.updates._framework_gan import LAYERS, check_against_plain

eqx = pytest.importorskip("equinox", reason="runs an Equinox model")


def model_of(layers):
    (weight, _), (out, _) = layers
    mlp = eqx.nn.MLP(weight.shape[1], out.shape[0], 8, 1, activation=jnp.tanh, key=jax.random.key(0))
    arrays = [jnp.asarray(array) for layer in layers for array in layer]
    return eqx.tree_at(lambda mlp: [array for layer in layers_of(mlp) for array in layer], mlp, arrays)


def layers_of(params):
    return [(layer.weight, layer.bias) for layer in params.layers]


def test_equinox():
    params, static = {}, {}
    for name, layers in LAYERS.items():
        params[name], static[name] = eqx.partition(model_of(layers), eqx.is_inexact_array)
    check_against_plain(lambda name, params, x: jax.vmap(eqx.combine(params, static[name]))(x), params, layers_of)
