"""Simultaneous and alternating steps, worked out by hand on scalars."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update

RATE_A, RATE_B, RATE_C = 0.1, 0.2, 0.5
START = {"a": 3.0, "b": 2.0, "c": -1.0}


def losses(params):
    a, b, c = params["a"], params["b"], params["c"]
    return {"la": a**2 * b, "lb": a * b * c, "lc": b * c**2}


def gradient_a(a, b, c):
    return 2 * a * b


def gradient_b(a, b, c):
    return a * c


def gradient_c(a, b, c):
    return 2 * b * c


PLAYERS = {
    "a": Player(optax.sgd(RATE_A), loss="la", wrt="a"),
    "b": Player(optax.sgd(RATE_B), loss="lb", wrt="b"),
    "c": Player(optax.sgd(RATE_C), loss="lc", wrt="c"),
}


def step(players, order):
    params = jax.tree.map(jnp.asarray, START)
    update = multi_update(losses, players, order=order)
    return jax.jit(update.update)(update.init(params))[0].params


def assert_params(params, a, b, c):
    np.testing.assert_allclose([params["a"], params["b"], params["c"]], [a, b, c], rtol=1e-15)


@pytest.mark.parametrize("names", ["abc", "cba", "bca"])
def test_simultaneous_takes_every_gradient_at_the_old_parameters(names):
    a, b, c = START.values()
    params = step({name: PLAYERS[name] for name in names}, "simultaneous")
    assert_params(
        params,
        a - RATE_A * gradient_a(a, b, c),
        b - RATE_B * gradient_b(a, b, c),
        c - RATE_C * gradient_c(a, b, c),
    )


def by_hand(names):
    """One step of plain gradient descent after the other."""
    now = dict(START)
    rules = {"a": (RATE_A, gradient_a), "b": (RATE_B, gradient_b), "c": (RATE_C, gradient_c)}
    for name in names:
        rate, gradient = rules[name]
        now[name] -= rate * gradient(**now)
    return now


@pytest.mark.parametrize("names", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_alternating_takes_each_gradient_at_what_the_players_before_left(names):
    assert_params(step({name: PLAYERS[name] for name in names}, "alternating"), **by_hand(names))


@pytest.mark.parametrize("form", [list, iter], ids=["pairs", "iterator"])
def test_players_as_pairs_keep_their_order(form):
    pairs = [(name, PLAYERS[name]) for name in "cab"]
    assert_params(step(form(pairs), "alternating"), **by_hand("cab"))


def test_default_order_is_simultaneous():
    assert multi_update(losses, PLAYERS).order == "simultaneous"


def test_one_player_is_plain_optax():
    def loss(w, x):
        return jnp.sum((w - x) ** 4)

    adam = optax.adam(0.1)
    update = multi_update(lambda params, x: {"l": loss(params["w"], x)}, {"only": Player(adam, loss="l", wrt="w")})
    w, x = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.4])
    state, opt_state = update.init({"w": w}), adam.init(w)
    for _ in range(3):
        state, _ = jax.jit(update.update)(state, x)
        updates, opt_state = adam.update(jax.grad(loss)(w, x), opt_state, w)
        w = optax.apply_updates(w, updates)
    np.testing.assert_allclose(state.params["w"], w, rtol=1e-14)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14), state.opt_states["only"], opt_state)
