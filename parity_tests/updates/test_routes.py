"""Which parameters the gradient of a loss can reach: a property of the program, not of its values."""

import jax
import jax.numpy as jnp
import pytest

from jaxfocal import gradient_routes

stop = jax.lax.stop_gradient


def vector():
    return jnp.arange(1.0, 4.0)


def total(tree):
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))


def test_chain_with_and_without_stop_gradient():
    def losses(params, x):
        a = params["model1"] * x
        return {
            "own": jnp.sum(a),
            "through": jnp.sum(params["model2"] * a),
            "stopped": jnp.sum(params["model2"] * stop(a)),
            "both": jnp.sum(a) + jnp.sum(params["model2"] * stop(a)),
        }

    assert gradient_routes(losses, {"model1": vector(), "model2": vector()}, vector()) == {
        "own": {"model1": "all", "model2": "none"},
        "through": {"model1": "all", "model2": "all"},
        "stopped": {"model1": "none", "model2": "all"},
        "both": {"model1": "all", "model2": "all"},
    }


NESTED = {"layers": ({"kernel": vector(), "bias": vector()}, None, [vector(), (vector(),)]), "empty": {}, "none": None}


@pytest.mark.parametrize(
    ("loss_of", "extent"),
    [
        (lambda group: total(group), "all"),
        (lambda group: total(group["layers"][0]["kernel"]), "some"),
        (lambda group: total(group["layers"][2][1][0]), "some"),
        (lambda group: total(group) + total(stop(group)), "all"),
        (lambda group: total(stop(group["layers"][0])) + total(group["layers"][2]), "some"),
        (lambda group: total(stop(group)), "none"),
        (lambda group: jnp.array(1.0), "none"),
        (lambda group: 1.0, "none"),
    ],
    ids=["all", "dict-leaf", "tuple-leaf", "all-though-stopped-too", "stopped-part", "stopped", "constant", "number"],
)
def test_nested_group(loss_of, extent):
    routes = gradient_routes(lambda params: {"l": loss_of(params["group"])}, {"group": NESTED})
    assert routes == {"l": {"group": extent}}


@pytest.mark.parametrize("group", [{}, None, (), jnp.arange(3), jax.random.key(0)], ids=str)
def test_group_without_floating_point_leaves_is_not_reached(group):
    params = {"weights": vector(), "other": group}
    routes = gradient_routes(lambda params: {"l": total(params["weights"])}, params)
    assert routes == {"l": {"weights": "all", "other": "none"}}


def test_integers_keys_and_flags_in_a_group_do_not_count():
    group = {"w": vector(), "count": jnp.arange(3), "key": jax.random.key(0), "flag": jnp.array(True), "number": 2}

    def losses(params):
        group = params["group"]
        noise = jax.random.normal(group["key"], (3,))
        return {"l": jnp.sum(jnp.where(group["flag"], group["w"] * group["count"] + noise, group["number"]))}

    assert gradient_routes(losses, {"group": group}) == {"l": {"group": "all"}}


@pytest.mark.parametrize(
    "value",
    [
        lambda a: jnp.sum(0.0 * a),
        lambda a: jnp.sum(jnp.where(a > 1e9, a, 0.0)),
        lambda a: jnp.sum(jax.nn.relu(-a)),
        lambda a: jnp.sum(a - a),
    ],
    ids=["times-zero", "unselected", "dead-relu", "cancelled"],
)
def test_gradient_that_happens_to_be_zero_is_reached(value):
    assert gradient_routes(lambda params: {"l": value(params["a"])}, {"a": vector()}) == {"l": {"a": "all"}}


@pytest.mark.parametrize(
    "value",
    [
        lambda a: jnp.sum(a.astype(jnp.int64).astype(jnp.float64)),
        lambda a: jnp.sum(jnp.where(a > 0, 1.0, 2.0)),
        lambda a: jnp.argmax(a).astype(jnp.float64),
        lambda a: jnp.sum(jnp.round(a)),
        lambda a: jnp.sum(jnp.sign(a)),
        lambda a: jnp.sum(vector()[jnp.argsort(a)]),
    ],
    ids=["integer", "comparison", "argmax", "round", "sign", "indices"],
)
def test_what_has_no_derivative_is_not_reached(value):
    assert gradient_routes(lambda params: {"l": value(params["a"])}, {"a": vector()}) == {"l": {"a": "none"}}


def test_straight_through_estimator_is_reached():
    def losses(params):
        a = params["a"]
        return {"l": jnp.sum(a + stop(jnp.round(a) - a))}

    assert gradient_routes(losses, {"a": vector()}) == {"l": {"a": "all"}}


def test_auxiliary_value_is_no_loss():
    def losses(params):
        return {"l": jnp.sum(params["a"])}, {"anything": params["b"], "text": "not an array"}

    params = {"a": vector(), "b": vector()}
    assert gradient_routes(losses, params, has_aux=True) == {"l": {"a": "all", "b": "none"}}


def test_arguments_may_be_anything():
    def losses(params, mode, options):
        return {"l": jnp.sum(params["a"]) if mode == "a" else jnp.sum(params["b"]) * options["scale"]}

    params = {"a": vector(), "b": vector()}
    assert gradient_routes(losses, params, "b", {"scale": 2.0}) == {"l": {"a": "none", "b": "all"}}


def test_python_numbers_as_parameters():
    assert gradient_routes(lambda params: {"l": params["a"] * 2}, {"a": 1.0, "b": 1.0}) == {
        "l": {"a": "all", "b": "none"}
    }


def test_nothing_is_computed():
    """A petabyte of parameters would not fit."""
    params = {"a": jax.ShapeDtypeStruct((10**7, 10**7), jnp.float64)}
    assert gradient_routes(lambda params: {"l": jnp.sum(params["a"] @ params["a"])}, params) == {"l": {"a": "all"}}


def test_under_jit_as_in_eager_code():
    found = []

    @jax.jit
    def traced(params):
        found.append(gradient_routes(lambda params: {"l": jnp.sum(params["a"])}, params))
        return params

    traced({"a": vector(), "b": vector()})
    assert found == [{"l": {"a": "all", "b": "none"}}]
