"""The program of ``test_frameworks`` in Equinox: the arrays of a module are the parameters, the rest is closed over."""

import jax
import jax.numpy as jnp
import pytest

from parity_tests.updates._framework_program import WEIGHTS, check_against_plain

eqx = pytest.importorskip("equinox", reason="runs an Equinox model")


def model_of(name):
    weight, bias = WEIGHTS[name]
    model = eqx.nn.Linear(weight.shape[1], weight.shape[0], key=jax.random.key(0))
    return eqx.tree_at(lambda m: (m.weight, m.bias), model, (jnp.asarray(weight), jnp.asarray(bias)))


def test_equinox():
    params, static = {}, {}
    for name in WEIGHTS:
        params[name], static[name] = eqx.partition(model_of(name), eqx.is_inexact_array)
    params = check_against_plain(
        lambda name, params, x: jax.vmap(eqx.combine(params, static[name]))(x), params, lambda params: params.weight
    )
    assert isinstance(eqx.combine(params["model1"], static["model1"]), eqx.nn.Linear)
