"""Several moves of one player in one step, each on its own part of the batch."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update
from parity_tests.updates._two_model import distance

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])
N_STEPS = 3
RNG = np.random.default_rng(0)
BATCH = {"x": RNG.normal(size=(6, 2)), "y": RNG.normal(size=6), "scale": 0.5, "mode": "mean"}
CRITIC, GENERATOR = optax.adam(0.1), optax.sgd(0.1)


def losses(params, batch):
    assert batch["mode"] == "mean"  # what is no array goes to each part
    scores = batch["x"] @ params["critic"] * batch["scale"]
    return {
        "critic": jnp.mean((scores - batch["y"]) ** 2) * (1 + params["generator"] ** 2),
        "generator": jnp.mean((params["generator"] * scores - batch["y"]) ** 2),
    }, {"first": batch["x"][0]}


def start():
    return {"critic": jnp.array([0.5, -0.5]), "generator": jnp.array(2.0)}


def part(number):
    rows = slice(number, None, N_STEPS)
    return {**BATCH, "x": BATCH["x"][rows], "y": BATCH["y"][rows]}


@ORDERS
def test_the_moves_are_those_of_a_loop_over_the_parts(order):
    players = {
        "critic": Player(CRITIC, loss="critic", wrt="critic", n_steps=N_STEPS),
        "generator": Player(GENERATOR, loss="generator", wrt="generator"),
    }
    update = multi_update(losses, players, order=order, has_aux=True)
    state = update.init(start())
    state, metrics = jax.jit(lambda state, x, y: update.update(state, {**BATCH, "x": x, "y": y}))(
        state, BATCH["x"], BATCH["y"]
    )

    params, opt_state = start(), CRITIC.init(start()["critic"])
    for number in range(N_STEPS):
        loss = losses(params, part(number))[0]["critic"]
        gradient = jax.grad(lambda params, number=number: losses(params, part(number))[0]["critic"])(params)["critic"]
        change, opt_state = CRITIC.update(gradient, opt_state)
        params = {**params, "critic": params["critic"] + change}
    at = start() if order == "simultaneous" else params
    gradient_g = jax.grad(lambda params: losses(params, BATCH)[0]["generator"])(at)["generator"]

    assert distance(state.params, {**params, "generator": params["generator"] - 0.1 * gradient_g}) < 1e-14
    assert distance(state.opt_states["critic"], opt_state) < 1e-14
    np.testing.assert_allclose(metrics["critic"], loss, rtol=1e-14)  # of the last move
    np.testing.assert_allclose(metrics["grad_norm/critic"], jnp.linalg.norm(gradient), rtol=1e-13)
    np.testing.assert_array_equal(metrics["aux"]["first"], BATCH["x"][0])  # of the last player, on the whole batch


def test_each_move_has_rows_of_its_own():
    """Not the same batch n times: n_critic moves on one batch are another program."""

    def seen(params, x, key):
        return {"l": jnp.sum(params["w"] * x)}, (x, jax.random.uniform(key))

    observed = []
    player = Player(
        optax.stateless(
            lambda gradient, _: jax.debug.callback(lambda g: observed.append(float(g)), gradient) or gradient
        ),
        loss="l",
        wrt="w",
        n_steps=4,
    )
    update = multi_update(seen, {"p": player}, has_aux=True)
    jax.block_until_ready(update.update(update.init({"w": 0.0}), jnp.arange(8.0), jax.random.key(0)))
    jax.effects_barrier()
    assert observed == [0.0 + 4.0, 1.0 + 5.0, 2.0 + 6.0, 3.0 + 7.0]


def test_a_random_key_in_the_batch_differs_from_move_to_move():
    def noisy(params, x, key):
        return {"l": params["w"] * jax.random.uniform(key) + 0 * jnp.sum(x)}

    key = jax.random.key(3)
    update = multi_update(noisy, {"p": Player(optax.sgd(1.0), loss="l", wrt="w", n_steps=2)})
    state, _ = update.update(update.init({"w": 0.0}), jnp.zeros(2), key)
    draws = [float(jax.random.uniform(jax.random.fold_in(key, number))) for number in range(2)]
    assert len({*draws, float(jax.random.uniform(key))}) == 3
    np.testing.assert_allclose(state.params["w"], -sum(draws), rtol=1e-15)


def test_keys_one_a_row_are_cut_as_rows():
    def noisy(params, keys):
        return {"l": params["w"] * jnp.sum(jax.vmap(jax.random.uniform)(keys))}

    keys = jax.random.split(jax.random.key(0), 4)
    update = multi_update(noisy, {"p": Player(optax.sgd(1.0), loss="l", wrt="w", n_steps=2)})
    state, _ = update.update(update.init({"w": 0.0}), keys)
    np.testing.assert_allclose(state.params["w"], -jnp.sum(jax.vmap(jax.random.uniform)(keys)), rtol=1e-14)


def test_first_gradient_of_a_shared_group_is_at_the_old_parameters_and_the_second_at_its_own():
    """Simultaneous: another player moved the group before; this one's later moves follow from where the group is."""

    def losses(params, x):
        return {"first": params["w"] * 3.0, "second": params["w"] ** 2 * jnp.mean(x)}

    players = {
        "first": Player(optax.sgd(1.0), loss="first", wrt="w"),
        "second": Player(optax.sgd(0.1), loss="second", wrt="w", n_steps=2),
    }
    update = multi_update(losses, players)
    state, _ = update.update(update.init({"w": 5.0}), jnp.ones(2))
    once = (5.0 - 3.0) - 0.1 * 2 * 5.0
    np.testing.assert_allclose(state.params["w"], once - 0.1 * 2 * once, rtol=1e-15)


def test_compiled_once_whatever_the_number():
    traces = []

    def counted(params, x):
        traces.append(x.shape)
        return {"l": jnp.sum((params["w"] - x) ** 2)}

    counts = []
    for n_steps in (2, 8):
        traces.clear()
        update = multi_update(counted, {"p": Player(optax.sgd(0.1), loss="l", wrt="w", n_steps=n_steps)})
        jax.jit(update.update).lower(update.init({"w": 0.0}), jnp.ones(8))
        counts.append(len(traces))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (jnp.ones((7, 2)), "n_steps=2 needs arrays with a leading axis that it divides, got shape (7, 2) at args[0]"),
        ({"x": jnp.ones(4), "y": np.ones(3)}, "with a leading axis that it divides, got shape (3,) at args[0]['y']"),
        (jnp.ones((0, 2)), "a leading axis that it divides and that is not empty, got shape (0, 2) at args[0]"),
        (jnp.array([0, 3], jnp.uint32), "args[0], of shape (2,) and dtype uint32, may be an old-style random key"),
    ],
    ids=["odd", "second", "empty", "old-style-key"],
)
def test_batch_that_cannot_be_cut(batch, message):
    update = multi_update(
        lambda params, batch: {"l": params["w"] ** 2}, {"p": Player(optax.sgd(0.1), loss="l", wrt="w", n_steps=2)}
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        jax.eval_shape(update.update, update.init({"w": 0.0}), batch)
    with pytest.raises(ValueError, match=re.escape(message)):
        update.explain({"w": 0.0}, batch)
