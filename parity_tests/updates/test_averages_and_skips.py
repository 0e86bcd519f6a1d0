"""Averaged parameters, and gradients that are not finite."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update, scan_updates

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])


def squares(params, x):
    return {"l": jnp.sum((params["w"] - x) ** 2)}


@pytest.mark.parametrize("n_steps", [1, 2])
def test_average_follows_every_move(n_steps):
    decay = 0.75
    update = multi_update(squares, {"p": Player(optax.sgd(0.1), loss="l", wrt="w", ema=decay, n_steps=n_steps)})
    x = np.random.default_rng(0).normal(size=(5, 2))
    state, _ = scan_updates(update, update.init({"w": 1.0}), x)
    w = average = 1.0
    for batch in x:
        for rows in (batch[j::n_steps] for j in range(n_steps)):
            w -= 0.1 * np.sum(2 * (w - rows))
            average = decay * average + (1 - decay) * w
    np.testing.assert_allclose(state.ema["p"], average, rtol=1e-14)


def test_averages_are_as_the_optimizer_sees_the_parameters():
    def losses(params):
        return {"l": jnp.sum(params["v"] ** 2) + jnp.sum(params["w"][0] ** 2)}

    players = {"p": Player(optax.sgd(0.5), loss="l", wrt=("v", "w"), ema=0.0)}
    update = multi_update(losses, players)
    state = update.init({"v": jnp.ones(2), "w": (jnp.ones(3),)})
    assert jax.tree.structure(state.ema["p"]) == jax.tree.structure({"v": 0, "w": (0,)})
    state, _ = update.update(state)
    jax.tree.map(np.testing.assert_array_equal, state.ema["p"], state.params)


def test_averages_of_bfloat16_parameters_have_32_bits():
    """At decay 0.999 a bfloat16 average would stay where it began: the change is below its last place."""
    update = multi_update(
        lambda params: {"l": params["w"]}, {"p": Player(optax.sgd(0.125), loss="l", wrt="w", ema=0.999)}
    )
    state, _ = update.update(update.init({"w": jnp.ones((), jnp.bfloat16)}))
    assert state.params["w"].dtype == jnp.bfloat16
    assert state.ema["p"].dtype == jnp.float32
    np.testing.assert_allclose(state.ema["p"], 0.999 + 0.001 * 0.875, rtol=1e-6)


def test_a_state_with_averages_can_be_donated_from_the_first_step():
    """Nothing is in it twice: averages, optimizers that begin with the parameters, and tied arrays are copies."""
    keeps_params = optax.GradientTransformation(
        lambda params: params, lambda updates, state, params: (updates, jax.tree.map(jnp.add, state, updates))
    )
    tied = jnp.ones(2)
    players = {
        "p": Player(optax.chain(optax.sgd(0.25), keeps_params), loss="l", wrt="w", ema=0.5),
        "q": Player(optax.sgd(0.25), loss="l", wrt=("v", "w"), ema=0.5),
    }
    update = multi_update(lambda params: {"l": jnp.sum(params["w"] ** 2 + params["v"] ** 2)}, players)
    state = update.init({"w": tied, "v": tied})
    expected = jax.jit(update.update)(state)
    donated = jax.jit(update.update, donate_argnums=0)(state)
    jax.tree.map(np.testing.assert_array_equal, donated, expected)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    assert tied.is_deleted()  # what init was given is used up with the state
    jax.tree.map(np.testing.assert_array_equal, jax.jit(update.update, donate_argnums=0)(donated[0])[0].step, 2)


@ORDERS
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_moves_nothing_of_its_player(order, bad):
    def losses(params, model_state, x):
        return {"l": jnp.sum(params["w"] * x), "m": (params["v"] - 1) ** 2}, model_state + 1

    players = {
        "p": Player(optax.adam(0.1), loss="l", wrt="w", ema=0.5, skip_nonfinite=True),
        "q": Player(optax.sgd(0.25), loss="m", wrt="v", updates_state=False),
    }
    update = multi_update(losses, players, order=order, has_model_state=True)
    step = jax.jit(update.update)
    state, _ = step(update.init({"w": jnp.ones(2), "v": 3.0}, model_state=0), jnp.array([1.0, 2.0]))
    after, metrics = step(state, jnp.array([1.0, bad]))
    for part in ("opt_states", "ema"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after, part)["p"], getattr(state, part)["p"])
    np.testing.assert_array_equal(after.params["w"], state.params["w"])
    assert after.model_state == state.model_state == 1
    assert after.skipped == {"p": 1}
    assert metrics["skipped/p"] == 1
    assert not np.isfinite(metrics["grad_norm/p"])
    assert after.params["v"] == 1.5  # 3 -> 2 -> 1.5: the other goes on
    last, metrics = step(after, jnp.array([1.0, 2.0]))
    assert last.opt_states["p"][0].count == 2
    assert metrics["skipped/p"] == 1


def test_of_several_moves_only_the_bad_one_is_skipped():
    update = multi_update(
        lambda params, x: {"l": jnp.sum(params["w"] * x)},
        {"p": Player(optax.sgd(1.0), loss="l", wrt="w", n_steps=4, skip_nonfinite=True)},
    )
    state, metrics = update.update(update.init({"w": 0.0}), jnp.array([1.0, np.nan, 2.0, np.inf]))
    assert state.params["w"] == -3
    assert metrics["skipped/p"] == 2


def test_without_skip_nonfinite_the_player_goes_bad():
    update = multi_update(
        lambda params, x: {"l": jnp.sum(params["w"] * x)}, {"p": Player(optax.sgd(1.0), loss="l", wrt="w")}
    )
    state, metrics = update.update(update.init({"w": 0.0}), jnp.array([np.nan]))
    assert np.isnan(state.params["w"])
    assert "skipped/p" not in metrics
    assert state.skipped == {}
