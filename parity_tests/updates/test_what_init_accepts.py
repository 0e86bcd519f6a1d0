"""Parameters that an update takes as they come, and those that it cannot move."""

import re
from collections import OrderedDict
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from jaxfocal import Player, gradient_routes, multi_update, scan_updates

SGD = optax.sgd(0.1)
PLAYER = Player(SGD, loss="l", wrt="w")


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
        (jnp.float32, "_ScalarMeta"),
        ("float32", "str"),
        (nn.Dense(3), "Dense"),
    ],
    ids=["integer", "complex", "function", "key", "flag", "dtype", "name-of-a-dtype", "module"],
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
    with pytest.raises(ValueError, match=r"^params must be a dict of parameter groups by name, got list of length 1"):
        gradient_routes(lambda params: {"l": params[0]}, [jnp.array(1.0)])


@pytest.mark.parametrize(
    "players",
    [PLAYER, None, [PLAYER], ["ab", "cd"], [("p", PLAYER, 1)]],
    ids=["one-player", "None", "players", "strings", "triples"],
)
def test_players_without_names(players):
    with pytest.raises(ValueError, match=r"^players must "):
        multi_update(losses, players)


def test_a_player_is_shown_by_what_it_was_told_and_an_update_by_its_players():
    """JAX puts both into messages of its own."""
    assert repr(PLAYER).startswith("Player(loss='l', wrt='w', every=1, ")
    assert repr(multi_update(losses, {"p": PLAYER, "q": PLAYER})) == "<multi_update of p, q, simultaneous>"


@pytest.mark.parametrize("option", ["has_aux", "has_model_state", "has_key"])
def test_an_option_that_is_no_flag(option):
    with pytest.raises(ValueError, match=rf"^{option} must be True or False, got 'yes'$"):
        multi_update(losses, {"p": PLAYER}, **{option: "yes"})


@pytest.mark.parametrize("empty", [{}, None, ()], ids=str)
def test_a_group_without_parameters(empty):
    message = rf"^player 'p' moves 'w', which holds no parameters, got {re.escape(repr(empty))}$"
    with pytest.raises(ValueError, match=message):
        multi_update(losses, {"p": PLAYER}).init({"w": empty})


def test_shapes_without_numbers():
    update, shape = multi_update(losses, {"p": PLAYER}), jax.ShapeDtypeStruct((2,), jnp.float32)
    with pytest.raises(ValueError, match=r"^init takes arrays, got ShapeDtypeStruct\(.*: for shapes write"):
        update.init({"w": shape})
    assert jax.eval_shape(update.init, {"w": shape}).params["w"] == shape


@pytest.mark.parametrize(
    ("key", "given"),
    [
        (0, "int"),
        (jnp.ones(2), "an array of shape (2,) and dtype float64"),
        (jax.random.split(jax.random.key(0), 3), "an array of shape (3,) and dtype key<fry>"),
        (np.zeros((3, 2), np.uint32), "an array of shape (3, 2) and dtype uint32"),
        (np.zeros(3, np.uint32), "an array of shape (3,) and dtype uint32"),
    ],
    ids=["number", "floats", "keys", "old-keys", "too-long"],
)
def test_a_key_that_is_not_one_key(key, given):
    message = f"key must be one random key, such as jax.random.key(0), got {given}"
    update = multi_update(lambda params, *, key: {"l": params["w"] ** 2}, {"p": PLAYER}, has_key=True)
    for call in (update.init, update.explain, partial(gradient_routes, update.losses)):
        with pytest.raises(ValueError, match=rf"^{re.escape(message)}$"):
            call({"w": 1.0}, key=key)


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_keys_of_both_kinds_and_one_a_seed(make):
    def noisy(params, *, key):
        return {"l": params["w"] * jax.random.uniform(key)}

    update = multi_update(noisy, {"p": PLAYER}, has_key=True)
    keys = jnp.stack([make(0), make(1)])
    states = jax.vmap(lambda key: update.update(update.init({"w": 1.0}, key=key))[0])(keys)
    assert states.params["w"][0] != states.params["w"][1]


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


def state_of(**players):
    return multi_update(losses, players).init({"w": jnp.ones(2)})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"w": jnp.ones(2)}, ", got dict of length 1"),
        (state_of(q=PLAYER), ": its opt_states must be those of ['p'], got ['q']"),
        (state_of(p=Player(SGD, loss="l", wrt="w", ema=0.5)), ": its ema must be those of [], got ['p']"),
        (
            state_of(p=Player(SGD, loss="l", wrt="w", skip_nonfinite=True)),
            ": its skipped must be those of [], got ['p']",
        ),
        (state_of(p=PLAYER)._replace(key=0), ": with has_key=False its key cannot be int"),
        (state_of(p=PLAYER)._replace(model_state=0), ": with has_model_state=False its model_state cannot be int"),
        (
            state_of(p=Player(optax.adam(0.1), loss="l", wrt="w")),
            ": the optimizer state of 'p' is not of its optimizer and its parameters",
        ),
        (state_of(p=PLAYER)._replace(opt_states=None), ": its opt_states must be those of ['p'], got NoneType"),
        (state_of(p=PLAYER)._replace(ema=None), ": its ema must be those of [], got NoneType"),
        (state_of(p=PLAYER)._replace(step=1.5), ": its step must be an integer scalar, got float"),
        (state_of(p=PLAYER)._replace(step=None), ": its step must be an integer scalar, got NoneType"),
    ],
    ids=[
        *("params", "player", "ema", "skipped", "key", "model-state", "optimizer"),
        *("no-optimizers", "no-ema", "half-a-step", "no-step"),
    ],
)
def test_a_state_from_elsewhere(state, expected):
    message = f"state must come from init or update of this multi_update{expected}"
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}$"):
        multi_update(losses, {"p": PLAYER}).update(state, 0.0)


@pytest.mark.parametrize("new", [jnp.ones(1), jnp.ones(3), {"k": jnp.ones(2)}], ids=["broadcast", "longer", "nested"])
@pytest.mark.parametrize(
    ("player", "expected"),
    [
        (Player(optax.adam(0.1), loss="l", wrt="w"), "the optimizer state of 'p' is not of its optimizer"),
        (Player(SGD, loss="l", wrt="w", ema=0.5), "the average of 'p' is not of the structure and shapes"),
    ],
    ids=["optimizer", "average"],
)
def test_parameters_that_are_not_those_of_init(player, expected, new):
    update = multi_update(lambda params: {"l": sum(map(jnp.sum, jax.tree.leaves(params)))}, {"p": player})
    state = update.init({"w": jnp.ones(2)})
    with pytest.raises(ValueError, match=rf"^state must come from init or update of this multi_update: {expected}"):
        update.update(state._replace(params={"w": new}))


def test_parameters_cast_between_two_steps():
    update = multi_update(losses, {"p": Player(optax.adam(0.1), loss="l", wrt="w", ema=0.5)})
    state, _ = update.update(update.init({"w": jnp.ones(2)}), 0.0)
    state = state._replace(params={"w": state.params["w"].astype(jnp.float32)})
    assert update.update(state, 0.0)[0].params["w"].dtype == jnp.float32


@pytest.mark.parametrize(("leaf", "given"), [("hello", "str"), (jnp.tanh, "PjitFunction"), (object(), "object")])
def test_a_model_state_of_something_else(leaf, given):
    update = multi_update(lambda params, state: ({"l": params["w"] ** 2}, state), {"p": PLAYER}, has_model_state=True)
    expected = rf"^model_state must hold arrays and numbers only, got {given} at model_state\['n'\]\[0\]: "
    with pytest.raises(ValueError, match=expected):
        update.init({"w": 1.0}, model_state={"m": jnp.ones(2), "n": [leaf]})


def test_a_key_of_the_state_that_is_none():
    update = multi_update(lambda params, *, key: {"l": params["w"] ** 2}, {"p": PLAYER}, has_key=True)
    state = update.init({"w": 1.0}, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"^key must be one random key, such as jax.random.key\(0\), got float$"):
        update.update(state._replace(key=1.0))


@pytest.mark.parametrize(
    ("optimizer", "reason"),
    [
        (optax.masked(SGD, {"other": True}), "pytree structure error"),
        (optax.multi_transform({"a": SGD}, "b"), "Some parameters have no corresponding transformation"),
    ],
    ids=["mask", "labels"],
)
def test_an_optimizer_that_does_not_take_the_parameters(optimizer, reason):
    update = multi_update(losses, {"p": Player(optimizer, loss="l", wrt="w")})
    with pytest.raises(ValueError, match=rf"^the optimizer of player 'p' does not take its parameters: {reason}"):
        update.init({"w": jnp.ones(2)})


def test_an_optimizer_that_wants_the_function():
    update = multi_update(losses, {"p": Player(optax.lbfgs(), loss="l", wrt="w")})
    expected = r"^the optimizer down loss 'l' must do with gradients, parameters and value=: .* 'grad' and 'value_fn'$"
    with pytest.raises(ValueError, match=expected):
        update.update(update.init({"w": jnp.ones(2)}), 0.0)


def test_scanning_something_else():
    update = multi_update(losses, {"p": PLAYER})
    with pytest.raises(ValueError, match=r"^update must be what multi_update returned, got method"):
        scan_updates(update.update, update.init({"w": jnp.ones(2)}), jnp.ones((3, 2)))
