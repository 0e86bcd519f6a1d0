"""State beside the parameters, as of BatchNorm: from player to player, and only where a player may move it."""

import re

import jax
import jax.numpy as jnp
import optax
import pytest

from jaxfocal import Player, gradient_routes, multi_update, scan_updates

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])
SGD = optax.sgd(0.1)


def losses(params, history, x):
    """The state tells who came by: 10 times itself, plus a mark made of the parameters."""
    return {"a": params["a"] * x + params["b"], "b": params["b"] * x}, 10 * history + params["a"]


def players(**options):
    return {
        "A": Player(optax.sgd(1.0), loss="a", wrt="a"),
        "B": Player(optax.sgd(1.0), loss="b", wrt="b", **options),
    }


@pytest.mark.parametrize(("order", "second"), [("simultaneous", 3.0), ("alternating", 2.0)])
def test_each_forward_pass_starts_from_what_the_one_before_left(order, second):
    update = multi_update(losses, players(), order=order, has_model_state=True)
    state, _ = update.update(update.init({"a": 3.0, "b": 0.0}, model_state=1.0), 1.0)
    assert state.model_state == 10 * (10 * 1 + 3) + second
    assert state.model_state.dtype == jnp.float64


@ORDERS
def test_a_player_that_does_not_move_it(order):
    update = multi_update(losses, players(updates_state=False), order=order, has_model_state=True)
    state, _ = update.update(update.init({"a": 3.0, "b": 0.0}, model_state=1.0), 1.0)
    assert state.model_state == 13


def test_every_move_over_a_part_moves_it():
    update = multi_update(
        lambda params, count, x: ({"l": params["w"] * jnp.sum(x)}, count + 1),
        {"p": Player(SGD, loss="l", wrt="w", n_steps=3)},
        has_model_state=True,
    )
    state, _ = scan_updates(update, update.init({"w": 1.0}, model_state=0), jnp.ones((2, 6)))
    assert state.model_state == 6


def test_with_aux_and_key_in_their_order():
    def losses(params, model_state, x, *, key):
        return {"l": params["w"] * x * jax.random.uniform(key)}, model_state + x, "aux of " + "l"

    options = {"has_aux": True, "has_model_state": True}
    update = multi_update(losses, {"p": Player(SGD, loss="l", wrt="w")}, has_key=True, **options)
    state, metrics = update.update(update.init({"w": 1.0}, model_state=0.0, key=jax.random.key(0)), 2.0)
    assert (state.model_state, metrics["aux"]) == (2, "aux of l")
    routes = gradient_routes(losses, {"w": 1.0}, 0.0, 2.0, key=jax.random.key(0), **options)
    assert routes == {"l": {"w": "all"}}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda state: {"mean": state["mean"]},
            "losses must return a model state of the structure it was given, PyTreeDef(",
        ),
        (
            lambda state: {"mean": state["mean"][None], "count": state["count"]},
            "losses must return a model state of the shapes and dtypes it was given, float64[2] at "
            "model_state['mean'], got float64[1, 2]",
        ),
        (
            lambda state: {"mean": state["mean"], "count": state["count"] * 1.0},
            "losses must return a model state of the shapes and dtypes it was given, int64[] at model_state['count'], "
            "got float64[]",
        ),
    ],
    ids=["structure", "shape", "dtype"],
)
def test_a_state_of_another_form(returned, message):
    update = multi_update(
        lambda params, state: ({"l": params["w"] ** 2}, returned(state)),
        {"p": Player(SGD, loss="l", wrt="w")},
        has_model_state=True,
    )
    state = update.init({"w": 1.0}, model_state={"mean": jnp.zeros(2), "count": 0})
    with pytest.raises(ValueError, match=re.escape(message)):
        jax.eval_shape(update.update, state)


@pytest.mark.parametrize(
    ("has_aux", "message"),
    [
        (False, "with has_model_state=True losses must return (dict of losses, model state), got dict of length 1"),
        (
            True,
            "with has_model_state=True and has_aux=True losses must return (dict of losses, model state, aux), got",
        ),
    ],
)
def test_losses_that_return_no_state(has_aux, message):
    update = multi_update(
        lambda params, state: {"l": params["w"] ** 2},
        {"p": Player(SGD, loss="l", wrt="w")},
        has_model_state=True,
        has_aux=has_aux,
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        update.update(update.init({"w": 1.0}, model_state=0.0))


@pytest.mark.parametrize("name", ["model_state", "key"])
def test_what_is_declared_must_be_given_and_the_reverse(name):
    given = {"model_state": 0.0, "key": jax.random.key(0)}[name]
    player = {"p": Player(SGD, loss="l", wrt="w")}
    declared = multi_update(losses, player, **{f"has_{name}": True})
    for call in (declared.init, declared.explain):
        with pytest.raises(ValueError, match=rf"^with has_{name}=True {name} must be given, got none$"):
            call({"w": 1.0})
    for call in (multi_update(losses, player).init, multi_update(losses, player).explain):
        with pytest.raises(ValueError, match=rf"^{name} is for an update with has_{name}=True, got .+ without it$"):
            call({"w": 1.0}, **{name: given})
