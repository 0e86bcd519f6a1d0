"""One parameter group in the wrt of two players: an optimizer state for each, and one update after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update

DECAY, RATE1, RATE2 = 0.5, 0.1, 0.2
W, HEAD, X = 2.0, 3.0, 1.5


def losses(params, x):
    return {"l1": (params["w"] * x) ** 2, "l2": params["w"] ** 3 * params["head"]}


def decayed_sgd(rate):
    return optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(rate))


def gradient1(w):
    return 2 * w * X**2


def gradient2(w, head):
    return 3 * w**2 * head


@pytest.mark.parametrize("order", ["simultaneous", "alternating"])
def test_weight_decay_sees_what_the_optimizer_before_left(order):
    first = W - RATE1 * (gradient1(W) + DECAY * W)
    at = W if order == "simultaneous" else first
    second = first - RATE2 * (gradient2(at, HEAD) + DECAY * first)
    head = HEAD - RATE2 * (at**3 + DECAY * HEAD)

    players = {
        "first": Player(decayed_sgd(RATE1), loss="l1", wrt="w"),
        "second": Player(decayed_sgd(RATE2), loss="l2", wrt=("w", "head")),
    }
    update = multi_update(losses, players, order=order)
    state, _ = jax.jit(update.update)(update.init({"w": jnp.array(W), "head": jnp.array(HEAD)}), X)
    np.testing.assert_allclose(state.params["w"], second, rtol=1e-15)
    np.testing.assert_allclose(state.params["head"], head, rtol=1e-15)


@pytest.mark.filterwarnings("ignore:no player moves 'head'")
def test_players_order_decides_which_optimizer_goes_first():
    plain = Player(optax.sgd(RATE1), loss="l1", wrt="w")
    decayed = Player(decayed_sgd(RATE2), loss="l1", wrt="w")
    by_plain, decay = RATE1 * gradient1(W), lambda w: RATE2 * (gradient1(W) + DECAY * w)
    ends = {
        ("plain", "decayed"): W - by_plain - decay(W - by_plain),
        ("decayed", "plain"): W - decay(W) - by_plain,
    }
    assert len(set(ends.values())) == 2
    for names, end in ends.items():
        update = multi_update(losses, [(name, {"plain": plain, "decayed": decayed}[name]) for name in names])
        state, _ = jax.jit(update.update)(update.init({"w": jnp.array(W), "head": jnp.array(HEAD)}), X)
        np.testing.assert_allclose(state.params["w"], end, rtol=1e-15)


def test_two_adamw_states_walk_apart():
    """Three steps of two optimizers written out in optax, each with a state of its own for the shared group."""
    adamw1, adamw2 = optax.adamw(0.1, b1=0.5, weight_decay=0.3), optax.adamw(0.05, weight_decay=0.2)
    players = {"first": Player(adamw1, loss="l1", wrt="w"), "second": Player(adamw2, loss="l2", wrt=("w", "head"))}
    update = multi_update(losses, players)
    params = {"w": jnp.array(W), "head": jnp.array(HEAD)}
    state, step = update.init(params), jax.jit(update.update)

    @jax.jit
    def by_hand(params, opt1, opt2):
        gradients1 = gradient1(params["w"])
        gradients2 = {"w": gradient2(params["w"], params["head"]), "head": params["w"] ** 3}
        updates, opt1 = adamw1.update(gradients1, opt1, params["w"])
        params = {**params, "w": params["w"] + updates}
        updates, opt2 = adamw2.update(gradients2, opt2, params)
        return optax.apply_updates(params, updates), opt1, opt2

    opt1, opt2 = adamw1.init(params["w"]), adamw2.init(params)
    for _ in range(3):
        state, _ = step(state, X)
        params, opt1, opt2 = by_hand(params, opt1, opt2)

    np.testing.assert_allclose(state.params["w"], params["w"], rtol=1e-14)
    np.testing.assert_allclose(state.params["head"], params["head"], rtol=1e-14)
    np.testing.assert_allclose(state.opt_states["first"][0].mu, opt1[0].mu, rtol=1e-14)
    np.testing.assert_allclose(state.opt_states["second"][0].mu["w"], opt2[0].mu["w"], rtol=1e-14)
    assert abs(opt1[0].mu - opt2[0].mu["w"]) > 1e-2


@pytest.mark.filterwarnings("ignore:no player moves 'head'")
def test_a_tuple_of_one_key_is_seen_as_a_dict():
    seen = []
    spy = optax.GradientTransformation(
        lambda params: seen.append(params) or optax.EmptyState(),
        lambda updates, state, params: seen.append(updates) or (updates, state),
    )
    for wrt, expected in (("w", 0.0), (("w",), {"w": 0.0})):
        seen.clear()
        update = multi_update(losses, {"p": Player(spy, loss="l1", wrt=wrt)})
        update.update(update.init({"w": W, "head": HEAD}), X)
        assert {jax.tree.structure(tree) for tree in seen} == {jax.tree.structure(expected)}
        assert len(seen) >= 2  # by init and by update
