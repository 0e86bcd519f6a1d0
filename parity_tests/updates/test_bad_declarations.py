"""Players and updates that cannot be meant: an error where they are made, which says what was given and expected."""

import re

import jax.numpy as jnp
import optax
import pytest

from jaxfocal import Player, multi_update

SGD = optax.sgd(0.1)
PLAYER = Player(SGD, loss="l", wrt="w")


def losses(params):
    return {"l": params["w"] ** 2}


NO_OPTIMIZERS = {
    "None": None,
    "number": 0.1,
    "not-called": optax.sgd,
    "string": "adam",
    "class": optax.GradientTransformation,
    "numbers": optax.GradientTransformation(1, 2),
}


@pytest.mark.parametrize("optimizer", NO_OPTIMIZERS.values(), ids=NO_OPTIMIZERS)
def test_optimizer_that_is_none(optimizer):
    with pytest.raises(ValueError, match=r"(?m)^optimizer must be an optax gradient transformation, got ") as caught:
        Player(optimizer, loss="l", wrt="w")
    assert repr(optimizer) in str(caught.value)


@pytest.mark.parametrize("loss", [None, ("l1", "l2"), 0], ids=str)
def test_loss_that_is_no_name(loss):
    with pytest.raises(ValueError, match=rf"(?m)^loss must be the name of one loss, got {re.escape(repr(loss))}$"):
        Player(SGD, loss=loss, wrt="w")


@pytest.mark.parametrize("wrt", [None, (), ["w"], {"w"}, 0, ("w", 1), (("w",),)], ids=str)
def test_wrt_that_is_no_key_nor_keys(wrt):
    expected = rf"(?m)^wrt must be a key of params or a tuple of keys, got {re.escape(repr(wrt))}$"
    with pytest.raises(ValueError, match=expected):
        Player(SGD, loss="l", wrt=wrt)


def test_wrt_that_names_a_group_twice():
    with pytest.raises(ValueError, match=r"(?m)^wrt names a parameter group twice: \('w', 'v', 'w'\)$"):
        Player(SGD, loss="l", wrt=("w", "v", "w"))


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("every", 0, "every must be an integer in [1, 2**31), got 0"),
        ("every", 1.5, "every must be an integer in [1, 2**31), got 1.5"),
        ("every", True, "every must be an integer in [1, 2**31), got True"),
        ("every", 10**12, "every must be an integer in [1, 2**31), got 1000000000000"),
        ("n_steps", -1, "n_steps must be an integer in [1, 2**31), got -1"),
        ("n_steps", None, "n_steps must be an integer in [1, 2**31), got None"),
        ("ema", 1.0, "ema must be None or a decay in [0, 1), got 1.0"),
        ("ema", -0.1, "ema must be None or a decay in [0, 1), got -0.1"),
        ("ema", float("nan"), "ema must be None or a decay in [0, 1), got nan"),
        ("ema", True, "ema must be None or a decay in [0, 1), got True"),
        ("ema", "0.9", "ema must be None or a decay in [0, 1), got '0.9'"),
        ("skip_nonfinite", 1, "skip_nonfinite must be True or False, got 1"),
        ("updates_state", None, "updates_state must be True or False, got None"),
    ],
)
def test_options_that_cannot_be_meant(option, value, expected):
    with pytest.raises(ValueError, match=rf"^{re.escape(expected)}$"):
        Player(SGD, loss="l", wrt="w", **{option: value})


def test_loss_and_wrt_are_given_by_keyword():
    with pytest.raises(TypeError, match="positional argument"):
        Player(SGD, "l", "w")


@pytest.mark.parametrize("order", ["sequential", "Simultaneous", "", None], ids=str)
def test_unknown_order(order):
    expected = rf"(?m)^order must be one of simultaneous, alternating, got {re.escape(repr(order))}$"
    with pytest.raises(ValueError, match=expected):
        multi_update(losses, {"p": PLAYER}, order=order)


@pytest.mark.parametrize("players", [{}, [], iter(())], ids=["dict", "list", "iterator"])
def test_no_players(players):
    with pytest.raises(ValueError, match=r"(?m)^players must hold at least one player, got none$"):
        multi_update(losses, players)


@pytest.mark.parametrize("form", [dict, list], ids=["dict", "pairs"])
def test_value_that_is_no_player(form):
    players = form([("p", PLAYER), ("q", (SGD, "l", "w"))])
    with pytest.raises(ValueError, match=r"(?m)^players must map names to Player, got 'q': \(GradientTransformation"):
        multi_update(losses, players)


def test_two_players_of_one_name():
    with pytest.raises(ValueError, match=r"(?m)^two players have the name 'p'$"):
        multi_update(losses, [("p", PLAYER), ("p", Player(SGD, loss="m", wrt="v"))])


@pytest.mark.parametrize(
    ("params", "given"),
    [
        (None, "NoneType"),
        ([jnp.ones(2)], "list of length 1"),
        (jnp.ones(2), r"an array of shape \(2,\) and dtype float64"),
    ],
    ids=["None", "list", "array"],
)
def test_init_with_params_that_are_no_dict(params, given):
    with pytest.raises(ValueError, match=rf"(?m)^params must be a dict of parameter groups by name, got {given}$"):
        multi_update(losses, {"p": PLAYER}).init(params)


@pytest.mark.parametrize("wrt", ["w", ("v", "w")], ids=str)
def test_init_with_wrt_that_is_no_key(wrt):
    update = multi_update(losses, {"p": Player(SGD, loss="l", wrt=wrt)})
    with pytest.raises(ValueError, match=r"(?m)^player 'p' has wrt 'w', which is no key of params: \['u', 'v'\]$"):
        update.init({"v": jnp.ones(2), "u": jnp.ones(2)})
