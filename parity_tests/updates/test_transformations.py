"""The step under jit, donation, vmap, a mapped axis and differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update
from parity_tests.updates._small_program import PLAYERS, X, losses, params
from parity_tests.updates._two_model import distance

# Compiled and uncompiled programs fuse, and so round, differently: a few eps of the largest entry.
TOLERANCE = 1e-14

UPDATE = multi_update(losses, PLAYERS, order="alternating")


@pytest.fixture(scope="module")
def step():
    return jax.jit(UPDATE.update)


def test_jit_is_eager(step):
    state = UPDATE.init(params())
    assert distance(step(state, X), UPDATE.update(state, X)) < TOLERANCE


def test_donated_state_is_used_up_and_the_numbers_stay(step):
    expected = step(UPDATE.init(params()), X)
    state = UPDATE.init(params())
    result = jax.jit(UPDATE.update, donate_argnums=0)(state, X)
    assert distance(result, expected) == 0
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))


def stacked(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def test_vmap_over_seeds(step):
    seeds = [params(seed) for seed in range(3)]
    states = jax.vmap(UPDATE.init)(stacked(seeds))
    mapped = jax.jit(jax.vmap(UPDATE.update, in_axes=(0, None)))(states, X)
    assert distance(mapped, stacked([step(UPDATE.init(seed), X) for seed in seeds])) < TOLERANCE


def test_gradients_averaged_over_a_mapped_axis_are_those_of_the_whole_batch(step):
    average = optax.stateless(lambda gradients, _: jax.lax.pmean(gradients, "shards"))
    players = {
        name: Player(optax.chain(average, player.optimizer), loss=player.loss, wrt=player.wrt)
        for name, player in PLAYERS.items()
    }
    sharded = multi_update(losses, players, order="alternating")
    over_shards = jax.jit(jax.vmap(sharded.update, in_axes=(None, 0), axis_name="shards"))
    shards = np.stack([X[:, :2], X[:, 2:]])
    by_shard = over_shards(sharded.init(params()), shards)[0].params
    whole = step(UPDATE.init(params()), X)[0].params
    assert distance(by_shard, stacked([whole, whole])) < TOLERANCE


def test_gradient_through_three_updates():
    """``w <- w - rate (w - x)`` brings ``w - x`` down by ``1 - rate`` a step."""
    rate, x, steps = 0.25, 2.0, 3
    player = Player(optax.sgd(rate), loss="l", wrt="w")
    update = multi_update(lambda params, x: {"l": (params["w"] - x) ** 2 / 2}, {"p": player})

    def outer(w, x):
        state = update.init({"w": w})
        for _ in range(steps):
            state, _ = update.update(state, x)
        return state.params["w"] ** 2

    w = 5.0
    kept = (1 - rate) ** steps
    end = x + (w - x) * kept
    by_w, by_x = jax.grad(outer, argnums=(0, 1))(w, x)
    np.testing.assert_allclose(by_w, 2 * end * kept, rtol=1e-14)
    np.testing.assert_allclose(by_x, 2 * end * (1 - kept), rtol=1e-14)


def test_gradient_by_the_learning_rate():
    def outer(rate):
        player = Player(optax.sgd(rate), loss="l", wrt="w")
        update = multi_update(lambda params: {"l": params["w"] ** 2}, {"p": player})
        return update.update(update.init({"w": 3.0}))[0].params["w"]

    np.testing.assert_allclose(jax.grad(outer)(0.1), -6.0, rtol=1e-15)
