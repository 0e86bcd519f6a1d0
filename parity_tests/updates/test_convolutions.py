"""Convolutions in loops and branches: the same numbers, and on CPUs in the one order that XLA is fast at there."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

from jaxfocal import Player, multi_update, scan_updates
from jaxfocal.updates._convolutions import body
from parity_tests.updates._two_model import distance, run

PLAIN = {"b01f_01io->b01f", "b0f_0io->b0f", "b012f_012io->b012f"}


def convolve(images, kernel, **options):
    """NHWC and HWIO, as Flax has it."""
    spatial = "WDH"[: images.ndim - 2]
    order = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    return lax.conv_general_dilated(images, kernel, dimension_numbers=order, **options)


def losses(params, images):
    hidden = jnp.tanh(convolve(images, params["first"], window_strides=(1, 1), padding="SAME"))
    scores = jax.jit(convolve, static_argnames=("window_strides", "padding"))(
        hidden, params["second"], window_strides=(2, 2), padding="VALID"
    )
    return {"l1": jnp.mean(hidden**2), "l2": jnp.mean(jax.nn.softplus(scores))}


def params():
    rng = np.random.default_rng(0)
    return {
        "first": jnp.asarray(rng.normal(size=(3, 3, 2, 4)) / 4),
        "second": jnp.asarray(rng.normal(size=(2, 2, 4, 3))),
    }


def build(**options):
    return multi_update(
        losses,
        {
            "first": Player(optax.adam(0.05), loss="l2", wrt=("first", "second"), **options),
            "second": Player(optax.sgd(0.05), loss="l1", wrt="first"),
        },
    )


def orders(function, *args):
    """Of all convolutions in the program as it is compiled."""
    return set(re.findall(r"convolution\(.*dim_labels=([\w>-]+)", jax.jit(function).lower(*args).compile().as_text()))


IMAGES = np.random.default_rng(1).normal(size=(5, 4, 8, 6, 2))


@pytest.mark.parametrize("options", [{}, {"every": 2}, {"n_steps": 2}], ids=str)
def test_a_compiled_loop_has_the_numbers_of_a_python_loop_and_plain_convolutions(options):
    update = build(**options)
    state, metrics = scan_updates(update, update.init(params()), IMAGES)
    looped_state, looped_metrics = run(update, params(), (IMAGES,))
    assert distance(state, looped_state) < 1e-13
    assert distance(metrics, looped_metrics) < 1e-13
    found = orders(lambda state, images: scan_updates(update, state, images), update.init(params()), IMAGES)
    assert found
    assert found <= PLAIN


@pytest.mark.parametrize("options", [{"every": 2}, {"n_steps": 2}], ids=str)
def test_so_has_the_step_itself_inside_its_branches_and_loops(options):
    update = build(**options)
    assert orders(update.update, update.init(params()), IMAGES[0]) <= PLAIN


def test_a_loop_that_does_not_see_to_it_has_others():
    """Where this fails XLA has learnt it, and the rewriting can go."""
    update = build()

    def loop(state, images):
        return lax.scan(update.update, state, images)

    assert orders(loop, update.init(params()), IMAGES) - PLAIN


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((2, 9, 4), (3, 4, 5), {"window_strides": (2,), "padding": "SAME"}),
        ((2, 9, 4), (3, 2, 6), {"window_strides": (1,), "padding": "SAME", "feature_group_count": 2}),
        ((2, 6, 7, 3), (3, 2, 3, 4), {"window_strides": (2, 1), "padding": [(1, 0), (2, 2)], "rhs_dilation": (1, 2)}),
        ((2, 6, 7, 3), (3, 2, 3, 4), {"window_strides": (1, 1), "padding": [(1, 0), (2, 2)], "lhs_dilation": (2, 1)}),
        ((2, 4, 5, 3, 2), (2, 2, 2, 2, 3), {"window_strides": (1, 1, 2), "padding": "VALID"}),
    ],
)
def test_every_kind_of_convolution_and_both_of_its_gradients(shape, kernel, options):
    rng = np.random.default_rng(2)
    images, weights = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(size=kernel))

    def both(images, weights):
        value, pull = jax.vjp(lambda *args: convolve(*args, **options), images, weights)
        return value, pull(jnp.sin(jnp.arange(value.size, dtype=value.dtype)).reshape(value.shape))

    for found, expected in zip(
        jax.tree.leaves(body(both)(images, weights)), jax.tree.leaves(both(images, weights)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_what_does_not_convolve_stays_the_same_program():
    def function(x, key):
        return lax.cond(x[0] > 0, jnp.sin, jax.nn.relu, x) + jax.random.normal(key, x.shape, x.dtype), 1

    x, key = jnp.arange(3.0), jax.random.key(0)
    assert str(jax.make_jaxpr(body(function))(x, key)) == str(jax.make_jaxpr(function)(x, key))
