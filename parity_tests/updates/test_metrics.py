"""Names and values of the metrics, and the parameters they belong to."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update


def losses(params, x):
    a, b = params["a"], params["b"]
    return {"la": jnp.sum(a**2) * b[0], "lb": jnp.sum(a) * jnp.sum(b**2) * x, "watched": a[0] + b[0]}


def losses_with_aux(params, x):
    return losses(params, x), {"a": params["a"], "b": params["b"]}


SGD = optax.sgd(0.1)
PLAYERS = {"A": Player(SGD, loss="la", wrt="a"), "B": Player(optax.sgd(0.2), loss="lb", wrt="b")}
X = 0.5


def params():
    return {"a": jnp.array([3.0, 4.0]), "b": jnp.array([2.0, -1.0])}


@cache
def one_step(order, fn=losses, **options):
    update = multi_update(fn, PLAYERS, order=order, **options)
    return jax.jit(update.update)(update.init(params()), X)


def left_by(*names):
    """The parameters after the players ``names`` have moved, one after the other."""
    now = params()
    for name in names:
        loss, group, rate = {"A": ("la", "a", 0.1), "B": ("lb", "b", 0.2)}[name]
        gradient = jax.grad(lambda now, loss=loss: losses(now, X)[loss])(now)[group]
        now = {**now, group: now[group] - rate * gradient}
    return now


@pytest.mark.parametrize("order", ["simultaneous", "alternating"])
def test_names(order):
    _, metrics = one_step(order)
    assert set(metrics) == {"la", "lb", "watched", "grad_norm/A", "grad_norm/B"}
    assert all(value.shape == () and value.dtype == jnp.float64 for value in metrics.values())


def test_simultaneous_losses_are_those_before_the_update():
    _, metrics = one_step("simultaneous")
    for name, value in losses(params(), X).items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-15)


def test_alternating_losses_are_those_their_players_took_the_gradient_of():
    _, metrics = one_step("alternating")
    np.testing.assert_allclose(metrics["la"], losses(params(), X)["la"], rtol=1e-15)
    np.testing.assert_allclose(metrics["lb"], losses(left_by("A"), X)["lb"], rtol=1e-14)
    assert abs(metrics["lb"] - losses(params(), X)["lb"]) > 0.1


def test_loss_of_no_player_is_that_of_the_first_forward_pass():
    _, metrics = one_step("alternating")
    np.testing.assert_allclose(metrics["watched"], losses(params(), X)["watched"], rtol=1e-15)


@pytest.mark.parametrize(("order", "before_b"), [("simultaneous", ()), ("alternating", ("A",))])
def test_grad_norm_is_that_of_the_players_own_gradient(order, before_b):
    _, metrics = one_step(order)
    gradient_a = jax.grad(lambda params: losses(params, X)["la"])(params())["a"]
    gradient_b = jax.grad(lambda params: losses(params, X)["lb"])(left_by(*before_b))["b"]
    np.testing.assert_allclose(metrics["grad_norm/A"], jnp.sqrt(jnp.sum(gradient_a**2)), rtol=1e-14)
    np.testing.assert_allclose(metrics["grad_norm/B"], jnp.sqrt(jnp.sum(gradient_b**2)), rtol=1e-14)


def test_grad_norm_runs_over_all_groups_of_the_player():
    update = multi_update(losses, {"both": Player(optax.sgd(0.1), loss="lb", wrt=("a", "b"))})
    _, metrics = jax.jit(update.update)(update.init(params()), X)
    gradient = jax.grad(lambda params: losses(params, X)["lb"])(params())
    np.testing.assert_allclose(
        metrics["grad_norm/both"], jnp.hypot(*map(jnp.linalg.norm, gradient.values())), rtol=1e-14
    )


@pytest.mark.parametrize(("order", "before"), [("simultaneous", ()), ("alternating", ("A",))])
def test_aux_is_that_of_the_last_forward_pass(order, before):
    _, metrics = one_step(order, losses_with_aux, has_aux=True)
    for group, value in left_by(*before).items():
        np.testing.assert_allclose(metrics["aux"][group], value, rtol=1e-14)


def test_aux_changes_neither_the_state_nor_the_other_metrics():
    state, metrics = one_step("alternating")
    state_with_aux, metrics_with_aux = one_step("alternating", losses_with_aux, has_aux=True)
    metrics_with_aux = {name: metrics_with_aux[name] for name in metrics}
    jax.tree.map(np.testing.assert_array_equal, (state, metrics), (state_with_aux, metrics_with_aux))


def test_aux_may_be_none():
    _, metrics = one_step("simultaneous", lambda params, x: (losses(params, x), None), has_aux=True)
    assert metrics["aux"] is None


def test_two_players_of_one_loss_alternating_show_the_loss_of_the_last():
    players = {"A": Player(optax.sgd(0.1), loss="lb", wrt="a"), "B": Player(optax.sgd(0.2), loss="lb", wrt="b")}
    update = multi_update(losses, players, order="alternating")
    _, metrics = update.update(update.init(params()), X)
    gradient = jax.grad(lambda params: losses(params, X)["lb"])(params())["a"]
    at_b = {"a": params()["a"] - 0.1 * gradient, "b": params()["b"]}
    np.testing.assert_allclose(metrics["lb"], losses(at_b, X)["lb"], rtol=1e-14)


def test_the_norm_of_half_precision_gradients_is_taken_in_float32():
    """The square of 300 in float16 would be infinite."""
    update = multi_update(lambda params: {"l": 300 * jnp.sum(params["w"])}, {"p": Player(SGD, loss="l", wrt="w")})
    _, metrics = update.update(update.init({"w": jnp.ones(4, jnp.float16)}))
    assert metrics["grad_norm/p"].dtype == jnp.float32
    assert metrics["grad_norm/p"] == 600
