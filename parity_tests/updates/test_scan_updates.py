"""Many steps in one compiled loop: the numbers of a Python loop, traced once."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update, scan_updates
from parity_tests.updates._small_program import PLAYERS, losses, params
from parity_tests.updates._two_model import distance, run


@pytest.mark.parametrize("order", ["simultaneous", "alternating"])
def test_scan_is_the_loop(order):
    """State and metrics differ by what XLA rounds otherwise in a loop, an eps or two a step."""
    update = multi_update(losses, PLAYERS, order=order)
    batches = np.random.default_rng(1).normal(size=(20, 2, 4))
    state, metrics = scan_updates(update, update.init(params()), batches)
    looped_state, looped_metrics = run(update, params(), (batches,))
    assert distance(state, looped_state) < 1e-13
    assert distance(metrics, looped_metrics) < 1e-13
    assert state.step == 20
    assert set(metrics) == {"l1", "l2", "grad_norm/first", "grad_norm/second"}
    assert {value.shape for value in metrics.values()} == {(20,)}


def test_several_arguments_a_step():
    def losses(params, x, y, offsets):
        return {"l": jnp.sum((params["w"] * x - y - offsets["b"]) ** 2)}

    update = multi_update(losses, {"p": Player(optax.sgd(0.1), loss="l", wrt="w")})
    x, y, b = np.random.default_rng(2).normal(size=(3, 5, 4))
    state, metrics = scan_updates(update, update.init({"w": jnp.array(1.0)}), x, y, {"b": b})
    w, history = 1.0, []
    for x_t, y_t, b_t in zip(x, y, b, strict=True):
        history.append(np.sum((w * x_t - y_t - b_t) ** 2))
        w -= 0.1 * np.sum(2 * (w * x_t - y_t - b_t) * x_t)
    np.testing.assert_allclose(state.params["w"], w, rtol=1e-13)
    np.testing.assert_allclose(metrics["l"], history, rtol=1e-13)


def counting_update(traces):
    def losses(params, x, options):
        traces.append(x.shape)
        return {"l": jnp.sum((params["w"] - x) ** 2) * options["scale"]}, {"twice": 2 * x}

    return multi_update(losses, {"p": Player(optax.adam(0.1), loss="l", wrt="w")}, has_aux=True)


def test_second_call_of_the_same_shapes_traces_nothing():
    traces = []
    update = counting_update(traces)
    state = update.init({"w": jnp.zeros(2)})
    state, _ = scan_updates(update, state, jnp.ones((3, 2)), {"scale": jnp.ones(3)})
    first = len(traces)
    scan_updates(update, state, jnp.zeros((3, 2)), {"scale": jnp.zeros(3)})
    assert first > 0
    assert len(traces) == first


def test_traces_do_not_grow_with_the_steps():
    counts = []
    for steps in (1, 50):
        traces = []
        update = counting_update(traces)
        scan_updates(update, update.init({"w": jnp.zeros(2)}), jnp.ones((steps, 2)), {"scale": jnp.ones(steps)})
        counts.append(len(traces))
    assert counts[0] == counts[1]


def test_batches_are_pytrees_and_aux_is_stacked():
    update = counting_update([])
    x = jnp.arange(6.0).reshape(3, 2)
    options = {"scale": jnp.array([1.0, 0.0, 2.0])}
    state, metrics = scan_updates(update, update.init({"w": jnp.zeros(2)}), x, options)
    np.testing.assert_array_equal(metrics["aux"]["twice"], 2 * x)
    assert metrics["l"].shape == metrics["grad_norm/p"].shape == (3,)
    np.testing.assert_array_equal(metrics["l"][:2], [1.0, 0.0])
    assert state.step == 3


def test_runs_follow_on_each_other():
    update = multi_update(
        lambda params, x: {"l": (params["w"] - x) ** 2}, {"p": Player(optax.adam(0.1), loss="l", wrt="w")}
    )
    x = jnp.arange(6.0)
    at_once, metrics = scan_updates(update, update.init({"w": jnp.array(0.5)}), x)
    halfway, first = scan_updates(update, update.init({"w": jnp.array(0.5)}), x[:3])
    in_two, second = scan_updates(update, halfway, x[3:])
    assert distance(in_two, at_once) < 1e-15
    assert distance(jax.tree.map(lambda *parts: jnp.concatenate(parts), first, second), metrics) < 1e-15


def test_under_jit_and_vmap():
    update = multi_update(
        lambda params, x: {"l": (params["w"] - x) ** 2}, {"p": Player(optax.sgd(0.25), loss="l", wrt="w")}
    )

    def final(w, x):
        return scan_updates(update, update.init({"w": w}), x)[0].params["w"]

    w, x = jnp.array([0.0, 8.0]), jnp.array([4.0, 2.0])
    np.testing.assert_array_equal(jax.jit(jax.vmap(final, in_axes=(0, None)))(w, x), [2.0, 4.0])


def test_no_steps_change_nothing():
    update = multi_update(
        lambda params, x: {"l": (params["w"] - x) ** 2}, {"p": Player(optax.adam(0.1), loss="l", wrt="w")}
    )
    start = update.init({"w": jnp.array(0.5)})
    state, metrics = scan_updates(update, start, jnp.zeros(0))
    jax.tree.map(np.testing.assert_array_equal, state, start)
    assert metrics["l"].shape == (0,)


def test_numpy_and_python_parameters():
    update = multi_update(
        lambda params, x: {"l": (params["w"] - x) ** 2}, {"p": Player(optax.sgd(0.25), loss="l", wrt="w")}
    )
    for w in (0.0, np.float64(0.0), np.zeros(())):
        state, _ = scan_updates(update, update.init({"w": w}), np.array([4.0, 2.0]))
        np.testing.assert_array_equal(state.params["w"], 2.0)


@pytest.mark.parametrize("batches", [(), (None,), ({}, ())], ids=["none", "None", "empty-containers"])
def test_without_batches(batches):
    update = counting_update([])
    with pytest.raises(ValueError, match=r"(?m)^scan_updates needs at least one array of batches, got none$"):
        scan_updates(update, update.init({"w": jnp.zeros(2)}), *batches)


@pytest.mark.parametrize(
    ("batches", "shapes"),
    [
        ((np.zeros((3, 2)), np.zeros(4)), "batches[0] of shape (3, 2), batches[1] of shape (4,)"),
        ((np.zeros((3, 2)), 1.0), "batches[0] of shape (3, 2), batches[1] of shape ()"),
        ((np.float64(1.0),), "batches[0] of shape ()"),
        (
            ({"x": np.zeros((2, 5)), "y": np.zeros((5, 2))},),
            "batches[0]['x'] of shape (2, 5), batches[0]['y'] of shape (5, 2)",
        ),
    ],
    ids=["unequal", "scalar-beside-array", "scalar", "unequal-in-one-pytree"],
)
def test_leading_axes_that_differ(batches, shapes):
    update = counting_update([])
    expected = rf"(?m)^batches must share one leading axis of steps, got {re.escape(shapes)}$"
    with pytest.raises(ValueError, match=expected):
        scan_updates(update, update.init({"w": jnp.zeros(2)}), *batches)
