"""What a losses function must return, and which routes its players need: errors when the step is traced."""

import re

import jax
import jax.numpy as jnp
import optax
import pytest

from jaxfocal import Player, gradient_routes, multi_update

PARAMS = {"v": jnp.array([1.0, 2.0]), "w": jnp.array([3.0, 4.0])}


def by_update(returned, has_aux):
    update = multi_update(returned, {"p": Player(optax.sgd(0.1), loss="l", wrt="w")}, has_aux=has_aux)
    return update.update(update.init(PARAMS))


def by_jitted_update(returned, has_aux):
    update = multi_update(returned, {"p": Player(optax.sgd(0.1), loss="l", wrt="w")}, has_aux=has_aux)
    return jax.jit(update.update)(update.init(PARAMS))


def by_routes(returned, has_aux):
    return gradient_routes(returned, PARAMS, has_aux=has_aux)


@pytest.fixture(params=[by_update, by_jitted_update, by_routes], ids=["update", "jitted-update", "routes"])
def call(request):
    return request.param


@pytest.mark.parametrize(
    ("returned", "given"),
    [
        (lambda params: jnp.sum(params["w"]), r"an array of shape \(\) and dtype float64"),
        (lambda params: None, "NoneType"),
        (lambda params: {}, "dict of length 0"),
        (lambda params: [jnp.sum(params["w"])], "list of length 1"),
        (
            lambda params: ({"l": jnp.sum(params["w"])}, 1),
            "tuple of length 2; declare what comes beside the dict by has_model_state=True or has_aux=True",
        ),
    ],
    ids=["array", "None", "empty-dict", "list", "tuple-without-has_aux"],
)
def test_no_dict(call, returned, given):
    with pytest.raises(ValueError, match=rf"(?m)^losses must return a dict of scalar losses, got {given}$"):
        call(returned, False)


@pytest.mark.parametrize(
    ("returned", "given"),
    [
        (lambda params: {"l": jnp.sum(params["w"])}, "dict of length 1"),
        (lambda params: ({"l": jnp.sum(params["w"])},), "tuple of length 1"),
        (lambda params: ({"l": jnp.sum(params["w"])}, 1, 2), "tuple of length 3"),
        (lambda params: [{"l": jnp.sum(params["w"])}, 1], "list of length 2"),
    ],
    ids=["dict", "one", "three", "list"],
)
def test_no_pair_with_has_aux(call, returned, given):
    expected = rf"(?m)^with has_aux=True losses must return \(dict of losses, aux\), got {given}$"
    with pytest.raises(ValueError, match=expected):
        call(returned, True)


def test_no_dict_beside_aux(call):
    expected = r"(?m)^losses must return a dict of scalar losses, got an array of shape \(\) and dtype float64$"
    with pytest.raises(ValueError, match=expected):
        call(lambda params: (jnp.sum(params["w"]), None), True)


BESIDE = "; what is no loss is returned beside the dict, with has_aux=True"


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (lambda w: w, "an array of shape (2,) and dtype float64; reduce it first"),
        (lambda w: jnp.sum(w)[None], "an array of shape (1,) and dtype float64; reduce it first"),
        (lambda w: jnp.sum(w).astype(jnp.int32), "an array of shape () and dtype int32" + BESIDE),
        (lambda w: jnp.all(w > 0), "an array of shape () and dtype bool" + BESIDE),
        (lambda w: jnp.sum(w) * 1j, "an array of shape () and dtype complex128" + BESIDE),
    ],
    ids=["vector", "one-element", "integer", "bool", "complex"],
)
def test_loss_that_is_no_floating_point_scalar(call, value, given):
    expected = rf"(?m)^loss 'm' must be a floating-point scalar, got {re.escape(given)}$"
    with pytest.raises(ValueError, match=expected):
        call(lambda params: {"l": jnp.sum(params["w"]), "m": value(params["w"])}, False)


@pytest.mark.parametrize("name", ["aux", "grad_norm/p", "skipped/", 0, None, ("l",)], ids=str)
def test_name_that_is_taken_or_no_string(call, name):
    expected = (
        r"(?m)^a loss must be named by a string other than 'aux', 'grad_norm/...' and 'skipped/...', "
        rf"got {re.escape(repr(name))}$"
    )
    with pytest.raises(ValueError, match=expected):
        call(lambda params: {name: jnp.sum(params["w"])}, False)


def losses(params):
    v, w = params["v"], params["w"]
    return {"of_w": jnp.sum(w), "of_both": jnp.sum(v * w), "stopped": jnp.sum(jax.lax.stop_gradient(v) * w)}


def step(player, order="simultaneous"):
    update = multi_update(losses, {"p": player}, order=order)
    return jax.eval_shape(update.update, update.init(PARAMS))


@pytest.mark.parametrize("order", ["simultaneous", "alternating"])
def test_loss_that_is_not_returned(order):
    expected = r"(?m)^player 'p' minimises loss 'l', but losses returned \['of_both', 'of_w', 'stopped'\]$"
    with pytest.raises(ValueError, match=expected):
        step(Player(optax.sgd(0.1), loss="l", wrt="w"), order)


@pytest.mark.parametrize("order", ["simultaneous", "alternating"])
@pytest.mark.parametrize("loss", ["of_w", "stopped"])
@pytest.mark.parametrize("wrt", ["v", ("w", "v")], ids=str)
def test_loss_that_cannot_reach_a_group_of_its_player(loss, wrt, order):
    expected = (
        rf"(?m)^player 'p' moves 'v', but no gradient of its loss '{loss}' gets there: "
        r"the optimizer would step on zeros\. "
        r"Remove the stop_gradient between them, or take 'v' out of wrt\. "
        rf"The routes of '{loss}': {{'v': 'none', 'w': 'all'}}$"
    )
    with pytest.raises(ValueError, match=expected):
        step(Player(optax.sgd(0.1), loss=loss, wrt=wrt), order)


@pytest.mark.filterwarnings("ignore:no player moves 'v'")
@pytest.mark.parametrize("loss", ["of_both", "of_w", "stopped"])
def test_routes_that_no_player_needs_are_not_asked_for(loss):
    state, _ = step(Player(optax.sgd(0.1), loss=loss, wrt="w"))
    assert state.params["w"].shape == (2,)


def test_group_reached_in_part_is_no_error():
    update = multi_update(
        lambda params: {"l": params["net"][0] ** 2}, {"p": Player(optax.sgd(0.1), loss="l", wrt="net")}
    )
    state, _ = update.update(update.init({"net": (jnp.array(1.0), jnp.array(1.0))}))
    assert (float(state.params["net"][0]), float(state.params["net"][1])) == (0.8, 1.0)


@pytest.mark.parametrize(
    ("fn", "args", "options", "expected"),
    [
        (lambda params: {}, (1.0,), {}, "(params, *args of length 1): too many positional arguments"),
        (lambda params, x: {}, (), {}, "(params, *args of length 0): missing a required argument: 'x'"),
        (
            lambda params, x: {},
            (1.0,),
            {"key": jax.random.key(0)},
            "(params, *args of length 1, key=): got an unexpected keyword argument 'key'",
        ),
        (
            lambda params: {},
            (1.0,),
            {"has_model_state": True},
            "(params, model_state, *args of length 0): too many positional arguments",
        ),
    ],
    ids=["batch", "no-batch", "key", "model-state"],
)
def test_losses_that_do_not_take_what_is_given(fn, args, options, expected):
    with pytest.raises(ValueError, match=rf"(?m)^losses must take {re.escape(expected)}$"):
        gradient_routes(fn, PARAMS, *args, **options)


@pytest.mark.parametrize("fn", [lambda params: sum(3), lambda params: {"l": max(params["w"], key=1)}])
def test_a_type_error_inside_losses_stays_as_it_is(fn):
    with pytest.raises(TypeError, match="'int' object is not"):
        gradient_routes(fn, PARAMS)


@pytest.mark.parametrize(
    ("args", "options", "expected"),
    [
        (("losses", PARAMS), {}, "losses must be a function of params, got 'losses'"),
        ((losses, PARAMS), {"has_aux": 1}, "has_aux must be True or False, got 1"),
        ((losses, PARAMS), {"has_model_state": "yes"}, "has_model_state must be True or False, got 'yes'"),
        (
            (losses, PARAMS),
            {"has_model_state": True},
            "with has_model_state=True the model state must follow params, got nothing there",
        ),
    ],
    ids=["losses", "has_aux", "has_model_state", "no-model-state"],
)
def test_routes_of_what_cannot_be_meant(args, options, expected):
    with pytest.raises(ValueError, match=rf"^{re.escape(expected)}$"):
        gradient_routes(*args, **options)
