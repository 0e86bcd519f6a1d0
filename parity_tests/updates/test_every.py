"""A player that moves at some steps only: on the others nothing of it moves, and its gradient is not computed."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update, scan_updates
from parity_tests.updates._two_model import distance

ADAM, SGD = optax.adam(0.1), optax.sgd(0.1)
EVERY = 3
ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])


def losses(params, model_state, x):
    critic = jnp.mean((params["critic"] * x - 1) ** 2)
    actor = jnp.mean((params["actor"] * params["critic"] - x) ** 2)
    return {"critic": critic, "actor": actor}, model_state + 1


def updates(order="alternating", **options):
    players = {
        "critic": Player(SGD, loss="critic", wrt="critic", updates_state=False),
        "actor": Player(ADAM, loss="actor", wrt="actor", every=EVERY, ema=0.5, skip_nonfinite=True, **options),
    }
    return multi_update(losses, players, order=order, has_model_state=True)


def start(update):
    return update.init({"critic": jnp.array(0.5), "actor": jnp.array(2.0)}, model_state=jnp.array(0))


@ORDERS
def test_nothing_of_it_moves_in_between(order):
    update = updates(order)
    state, step, x = start(update), jax.jit(update.update), jnp.array([1.0, 2.0])
    for number in range(2 * EVERY):
        after, metrics = step(state, x)
        parts = [(s.params["actor"], s.opt_states["actor"], s.ema, s.skipped, s.model_state) for s in (state, after)]
        moved = [bool(np.any(a != b)) for a, b in zip(*map(jax.tree.leaves, parts), strict=True)]
        if number % EVERY:
            assert not any(moved)
            assert metrics["grad_norm/actor"] == 0
        else:
            assert all(moved[:2])
            assert metrics["grad_norm/actor"] > 0
        assert after.params["critic"] != state.params["critic"]
        state = after
    assert state.opt_states["actor"][0].count == 2  # Adam's bias correction goes by the moves
    assert state.model_state == 2


@ORDERS
def test_the_moves_are_those_of_optax_by_hand(order):
    update = updates(order)
    x = jnp.array([1.0, 2.0])
    state, metrics = scan_updates(update, start(update), jnp.stack([x] * 7))
    critic, actor, ema, opt_state, history = 0.5, jnp.array(2.0), 2.0, ADAM.init(jnp.array(2.0)), []
    for number in range(7):
        moved = critic - 0.1 * np.mean(2 * (critic * x - 1) * x)
        seen = critic if order == "simultaneous" else moved
        # The critic's player reports the actor's loss where it took its own gradient.
        at = seen if number % EVERY == 0 else critic
        history.append(np.mean((actor * at - x) ** 2))
        if number % EVERY == 0:
            change, opt_state = ADAM.update(jnp.mean(2 * (actor * seen - x) * seen), opt_state)
            actor = actor + change
            ema = 0.5 * ema + 0.5 * actor
        critic = moved
    assert distance(state.params, {"critic": jnp.asarray(critic), "actor": actor}) < 1e-14
    np.testing.assert_allclose(state.ema["actor"], ema, rtol=1e-14)
    np.testing.assert_allclose(metrics["actor"], history, rtol=1e-14)


def test_adam_does_not_move_on_the_zero_gradient_of_an_off_step():
    """What a loss multiplied by 0 on the off-steps would do: Adam's momentum carries the parameters on."""
    update = updates()
    state, step, x = start(update), jax.jit(update.update), jnp.array([1.0, 2.0])
    state, _ = step(state, x)
    after, _ = step(state, x)
    np.testing.assert_array_equal(after.params["actor"], state.params["actor"])
    change, _ = ADAM.update(jnp.array(0.0), state.opt_states["actor"])
    assert abs(change) > 1e-2


def test_with_n_steps_the_parts_are_moved_over_at_its_steps():
    update = updates(n_steps=2)
    state, step, x = start(update), jax.jit(update.update), jnp.array([1.0, 2.0])
    counts = []
    for _ in range(4):
        state, _ = step(state, x)
        counts.append(int(state.opt_states["actor"][0].count))
    assert counts == [2, 2, 2, 4]
    assert state.model_state == 4


def test_where_all_players_pause_the_losses_are_still_reported():
    players = {"p": Player(SGD, loss="l", wrt="w", every=2)}
    update = multi_update(lambda params, x: ({"l": params["w"] * x, "m": -params["w"]}, x), players, has_aux=True)
    _, metrics = scan_updates(update, update.init({"w": 1.0}), jnp.array([1.0, 2.0, 3.0]))
    w = np.array([1.0, 0.9, 0.9])
    np.testing.assert_allclose(metrics["l"], w * [1, 2, 3], rtol=1e-15)
    np.testing.assert_allclose(metrics["m"], -w, rtol=1e-15)
    np.testing.assert_array_equal(metrics["grad_norm/p"], [1, 0, 3])
    np.testing.assert_array_equal(metrics["aux"], [1, 2, 3])


def test_an_off_step_runs_none_of_its_products():
    """In the compiled step the products of the actor's gradient are in one branch of the conditional only."""

    def losses(params, x):
        return {
            "critic": jnp.mean((x @ params["critic"]) ** 2),
            "actor": jnp.mean(jnp.tanh(x @ params["actor"]) @ params["critic"]),
        }

    rng = np.random.default_rng(0)
    players = {
        "critic": Player(SGD, loss="critic", wrt="critic"),
        "actor": Player(ADAM, loss="actor", wrt="actor", every=2),
    }
    update = multi_update(losses, players, order="alternating")
    state = update.init({"critic": jnp.asarray(rng.normal(size=(8, 3))), "actor": jnp.asarray(rng.normal(size=(8, 8)))})
    lowered = jax.jit(update.update).lower(state, jnp.asarray(rng.normal(size=(4, 8))))
    program = lowered.as_text(dialect="hlo")
    regions = {
        match[1]: match[2].count(" dot(")
        for match in re.finditer(r"(?m)^(?:ENTRY )?(\S+) .*?\{\n(.*?)^\}", program, re.S)
    }
    branches = re.search(r"conditional\(.*?branch_computations=\{(.*?)\}", program) or re.search(
        r"conditional\(.*?true_computation=(\S+), false_computation=(\S+)", program
    )
    names = [name.strip("%, ") for name in ",".join(branches.groups()).split(",")]
    assert sorted(regions[name] > 0 for name in names) == [False, True], (names, regions)


def test_vmap_over_states_at_different_steps():
    update = updates()
    step, x = jax.jit(update.update), jnp.array([1.0, 2.0])
    states = [start(update)]
    states.append(step(states[0], x)[0])
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    mapped, _ = jax.vmap(update.update, in_axes=(0, None))(stacked, x)
    for i, state in enumerate(states):
        assert distance(jax.tree.map(lambda leaf, i=i: leaf[i], mapped), step(state, x)[0]) < 1e-14
