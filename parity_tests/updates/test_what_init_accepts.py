"""Parameters that an update takes as they come, and those that it cannot move."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, gradient_routes, multi_update, scan_updates

PLAYER = Player(optax.sgd(0.1), loss="l", wrt="w")


def losses(params, x):
    return {"l": jnp.sum((params["w"] - x) ** 2)}


def test_a_dict_subclass_becomes_a_dict():
    update = multi_update(losses, {"p": PLAYER})
    state, _ = scan_updates(update, update.init(OrderedDict(w=jnp.ones(2))), jnp.ones((3, 2)))
    assert type(state.params) is dict


@pytest.mark.parametrize(
    ("leaf", "kind"),
    [
        (jnp.arange(2), "int64"),
        (jnp.array(1j), "complex128"),
        (jnp.tanh, "PjitFunction"),
        (jax.random.key(0), "key<fry>"),
        (True, "bool"),
    ],
    ids=["integer", "complex", "function", "key", "flag"],
)
def test_a_leaf_that_no_optimizer_can_move(leaf, kind):
    update = multi_update(losses, {"p": PLAYER})
    message = rf"^player 'p' moves 'w', but its leaf w\['n'\]\[1\] is {kind}, not floating point: "
    with pytest.raises(ValueError, match=message):
        update.init({"w": {"m": jnp.ones(2), "n": (jnp.ones(2), leaf)}})


def test_the_same_leaf_in_a_group_that_nobody_moves():
    def with_count(params, x):
        return {"l": jnp.sum((params["w"] - x) ** 2) * params["count"][0]}

    update = multi_update(with_count, {"p": PLAYER})
    state = update.init({"w": jnp.ones(2), "count": jnp.array([3])})
    assert jax.jit(update.update)(state, 0.0)[0].params["count"] == 3


def test_routes_of_params_that_are_no_dict():
    with pytest.raises(ValueError, match=r"^params must be a dict of parameter groups, got list"):
        gradient_routes(lambda params: {"l": params[0]}, [jnp.array(1.0)])


@pytest.mark.parametrize("players", [[PLAYER], ["ab", "cd"], [("p", PLAYER, 1)]], ids=["players", "strings", "triples"])
def test_players_without_names(players):
    with pytest.raises(ValueError, match=r"^players must "):
        multi_update(losses, players)


def test_an_optimizer_that_wants_the_loss():
    plateau = optax.chain(optax.sgd(0.25), optax.contrib.reduce_on_plateau(factor=0.5, patience=1))
    update = multi_update(losses, {"p": Player(plateau, loss="l", wrt="w")})
    state, _ = jax.jit(update.update)(update.init({"w": jnp.array(4.0)}), 0.0)
    assert state.params["w"] == 2


@pytest.mark.parametrize("number", [0.0, np.float32(0), jnp.zeros(()) * 1.0], ids=["python", "numpy", "weakly-typed"])
def test_a_number_is_a_parameter_and_compiles_once(number):
    traces = []

    def counted(params, x):
        traces.append(None)
        return losses(params, x)

    update = multi_update(counted, {"p": Player(optax.adam(0.1), loss="l", wrt="w")})
    step, state = jax.jit(update.update), update.init({"w": number})
    state, _ = step(state, 1.0)
    once = len(traces)
    for _ in range(2):
        state, _ = step(state, 1.0)
    assert len(traces) == once


@pytest.mark.parametrize("params", [{"w": jnp.ones(2), 3: jnp.ones(2)}, {1: jnp.ones(2)}], ids=["mixed", "numbers"])
def test_groups_that_are_not_named(params):
    for call in (multi_update(losses, {"p": PLAYER}).init, lambda params: gradient_routes(losses, params, 0.0)):
        with pytest.raises(ValueError, match=r"^the groups of params must be named by strings, got "):
            call(params)


def test_a_player_that_is_not_named():
    with pytest.raises(ValueError, match=r"^players must be named by strings, got 1"):
        multi_update(losses, {1: PLAYER})


def test_losses_that_cannot_be_called():
    with pytest.raises(ValueError, match=r"^losses must be a function of params, got \{'l': 1\}"):
        multi_update({"l": 1}, {"p": PLAYER})


@pytest.mark.parametrize("value", [None, "hey", 1, [1.0]], ids=str)
def test_a_loss_that_is_no_array(value):
    update = multi_update(lambda params: {"l": value}, {"p": PLAYER})
    with pytest.raises(ValueError, match=r"(?m)^loss 'l' must be a floating-point scalar, got "):
        update.update(update.init({"w": jnp.ones(2)}))


def test_a_state_from_elsewhere():
    update = multi_update(losses, {"p": PLAYER})
    averaged = Player(PLAYER.optimizer, loss="l", wrt="w", ema=0.5)
    others = [multi_update(losses, players).init({"w": jnp.ones(2)}) for players in ({"q": PLAYER}, {"p": averaged})]
    keyed = update.init({"w": jnp.ones(2)})._replace(key=jax.random.key(0))
    for state in ({"w": jnp.ones(2)}, *others, keyed):
        with pytest.raises(ValueError, match=r"^state must come from init or update of this multi_update"):
            update.update(state, 0.0)


def test_scanning_something_else():
    update = multi_update(losses, {"p": PLAYER})
    with pytest.raises(ValueError, match=r"^update must be what multi_update returned, got method"):
        scan_updates(update.update, update.init({"w": jnp.ones(2)}), jnp.ones((3, 2)))
