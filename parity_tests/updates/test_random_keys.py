"""One key in the state, split by step, player and move: reproducible, and never the same twice."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update, scan_updates

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])


def losses(params, x, *, key):
    noise = jax.random.uniform(key, dtype=jnp.float64)
    return {"a": params["a"] * noise + jnp.sum(x), "b": params["b"] * noise}


def update_of(order="simultaneous", n_steps=2, every=1):
    players = {
        "A": Player(optax.sgd(1.0), loss="a", wrt="a"),
        "B": Player(optax.sgd(1.0), loss="b", wrt="b", n_steps=n_steps, every=every),
    }
    return multi_update(losses, players, order=order, has_key=True)


def run(update, seed=0, steps=3):
    state = update.init({"a": 0.0, "b": 0.0}, key=jax.random.key(seed))
    return scan_updates(update, state, jnp.ones((steps, 2)))


@ORDERS
def test_no_draw_comes_twice(order):
    """A gradient here is the draw itself: A's are the norms, B's the norm of the last move and what it moved before."""
    state, metrics = run(update_of(order), steps=1)
    draws = [metrics["grad_norm/A"][0], metrics["grad_norm/B"][0], -state.params["b"] - metrics["grad_norm/B"][0]]
    assert min(abs(a - b) for a, b in itertools.combinations(draws, 2)) > 1e-3
    later = run(update_of(order), steps=2)[1]
    assert all(abs(later[f"grad_norm/{name}"][0] - later[f"grad_norm/{name}"][1]) > 1e-3 for name in "AB")


def test_the_key_of_a_move_is_folded_from_step_player_and_number():
    key = jax.random.key(0)
    _, metrics = run(update_of(), steps=2)

    def draw(*numbers):
        folded = key
        for number in numbers:
            folded = jax.random.fold_in(folded, number)
        return float(jax.random.uniform(folded, dtype=jnp.float64))

    np.testing.assert_allclose(metrics["grad_norm/A"], [draw(0, 0), draw(1, 0)], rtol=1e-15)
    np.testing.assert_allclose(metrics["grad_norm/B"], [draw(0, 1, 1), draw(1, 1, 1)], rtol=1e-15)


def test_the_same_seed_is_the_same_run_and_another_is_another():
    update = update_of()
    first, again, other = (run(update, seed)[1] for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert first["grad_norm/A"][0] != other["grad_norm/A"][0]


def test_a_run_goes_on_from_a_state():
    update = update_of(every=2)
    whole, _ = run(update, steps=4)
    half, _ = run(update, steps=2)
    resumed, _ = scan_updates(update, half, jnp.ones((2, 2)))
    np.testing.assert_allclose(resumed.params["a"], whole.params["a"], rtol=1e-15)
    np.testing.assert_allclose(resumed.params["b"], whole.params["b"], rtol=1e-15)


def test_old_style_keys_and_donation():
    update = update_of()
    states = [update.init({"a": 0.0, "b": 0.0}, key=make(0)) for make in (jax.random.key, jax.random.PRNGKey)]
    step = jax.jit(update.update, donate_argnums=0)
    typed, old = (step(step(state, jnp.ones(2))[0], jnp.ones(2))[0].params for state in states)
    jax.tree.map(np.testing.assert_array_equal, typed, old)
