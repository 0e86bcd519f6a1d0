"""The state: what init makes, what update keeps, and that it is a pytree."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import MultiState, Player, multi_update


def losses(params, x):
    return {"l1": jnp.sum((params["a"] * x) ** 2), "l2": jnp.sum((params["b"] * x - 1) ** 2)}


ADAM, SGD = optax.adam(0.1), optax.sgd(0.1, momentum=0.5)
UPDATE = multi_update(losses, {"A": Player(ADAM, loss="l1", wrt="a"), "B": Player(SGD, loss="l2", wrt="b")})
STEP = jax.jit(UPDATE.update)
X = jnp.array([1.0, 2.0])


def params(dtype="float64"):
    return {"a": jnp.array([1.0, 2.0], dtype), "b": jnp.array([3.0, 4.0], dtype)}


def test_init():
    state = UPDATE.init(params())
    assert isinstance(state, MultiState)
    assert state.step == 0
    assert state.step.dtype == jnp.int32
    jax.tree.map(np.testing.assert_array_equal, state.params, params())
    expected = {"A": ADAM.init(params()["a"]), "B": SGD.init(params()["b"])}
    jax.tree.map(np.testing.assert_array_equal, state.opt_states, expected)
    assert (state.model_state, state.key, state.ema, state.skipped) == (None, None, {}, {})


def test_step_counts_updates():
    state = UPDATE.init(params())
    counted = []
    for _ in range(3):
        state, _ = STEP(state, X)
        counted.append(int(state.step))
    assert counted == [1, 2, 3]
    assert state.step.dtype == jnp.int32


def test_update_leaves_its_argument_as_it_was():
    state = UPDATE.init(params())
    UPDATE.update(state, X)
    jax.tree.map(np.testing.assert_array_equal, state, UPDATE.init(params()))


def test_state_survives_flattening():
    state, _ = STEP(UPDATE.init(params()), X)
    leaves, treedef = jax.tree.flatten(state)
    restored = jax.tree.unflatten(treedef, [np.asarray(leaf) for leaf in leaves])
    assert isinstance(restored, MultiState)
    jax.tree.map(np.testing.assert_array_equal, STEP(restored, X), STEP(state, X))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_structure_shapes_and_dtypes_stay(dtype):
    state = UPDATE.init(params(dtype))
    after, _ = STEP(state, X.astype(dtype))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    before, after = (jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), s) for s in (state, after))
    assert before == after


def test_float32_parameters_stay_float32_under_a_float64_batch():
    state, _ = STEP(UPDATE.init(params("float32")), X.astype("float64"))
    assert {leaf.dtype for leaf in jax.tree.leaves(state.params)} == {jnp.dtype("float32")}


def test_numpy_parameters_and_python_numbers():
    from_numpy, _ = STEP(UPDATE.init(jax.tree.map(np.asarray, params())), X)
    jax.tree.map(np.testing.assert_array_equal, from_numpy, STEP(UPDATE.init(params()), X)[0])
    from_numbers, _ = STEP(UPDATE.init({"a": 1.0, "b": 3.0}), 1.0)
    from_arrays, _ = STEP(UPDATE.init({"a": jnp.array(1.0), "b": jnp.array(3.0)}), 1.0)
    jax.tree.map(np.testing.assert_array_equal, from_numbers, from_arrays)


def test_nested_groups_keep_their_form():
    def losses(params):
        layers, extra = params["net"]
        return {"l": sum(jnp.sum(layer["w"] ** 2) for layer in layers) + jnp.sum(extra[0])}

    net = ([{"w": jnp.ones((2, 3)), "b": None}, {"w": jnp.ones(())}], (jnp.ones(2), None, {}))
    update = multi_update(losses, {"p": Player(optax.adamw(0.1), loss="l", wrt="net")})
    state, _ = jax.jit(update.update)(update.init({"net": net}))
    assert jax.tree.structure(state.params["net"]) == jax.tree.structure(net)
    assert all(jnp.all(leaf < 1) for leaf in jax.tree.leaves(state.params))
