"""Parameters that an update takes as they come, and those that it cannot move."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
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
