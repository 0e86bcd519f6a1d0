"""Running statistics go in and come out: the same as in PyTorch, over devices, under every transformation."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import BY_ID

STATEFUL = [BY_ID[name] for name in ("seesaw", "equalized_focal", "ghm")]
INITS = {"seesaw": lambda: jf.seesaw_init(5), "equalized_focal": lambda: jf.equalized_focal_init(5), "ghm": jf.ghm_init}
by_case = pytest.mark.parametrize("case", STATEFUL, ids=lambda case: case.id)


def full_loss(case):
    return getattr(jf, case.name)


def assert_equal_trees(got, expected, rtol=1e-13):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol), got, expected)


def steps(case, number=5):
    return [case.example(seed) for seed in range(number)]


@by_case
def test_states_and_losses_over_steps_equal_torchref(case):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), INITS[case.id]())
    their_state = getattr(torchref, type(state).__name__)(*(torch.zeros(leaf.shape).double() for leaf in state))
    for step, (logits, labels) in enumerate(steps(case)):
        where = np.random.default_rng(step).uniform(size=case.shape) < 0.8
        options = {"where": where, "reduction": "mean"}
        loss, state = full_loss(case)(logits, labels, state, **options)
        options["where"] = torch.tensor(where)
        their_loss, their_state = getattr(torchref, case.name)(
            torch.tensor(logits), torch.tensor(labels), their_state, **options
        )
        np.testing.assert_allclose(loss, their_loss.numpy(), rtol=1e-12)
        for ours, theirs in zip(state, their_state, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-13)
    assert all(np.any(leaf) for leaf in state)


@by_case
def test_init_is_float32_as_in_torchref(case):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    init = case.name.replace("_loss", "_init")
    arguments = () if case.id == "ghm" else (5,)
    ours, theirs = getattr(jf, init)(*arguments), getattr(torchref, init)(*arguments)
    assert ours._fields == theirs._fields
    for our_leaf, their_leaf in zip(ours, theirs, strict=True):
        assert our_leaf.dtype == jnp.float32
        assert their_leaf.dtype == torch.float32
        np.testing.assert_array_equal(our_leaf, their_leaf.numpy())


@by_case
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("logits_dtype", [jnp.bfloat16, jnp.float32, jnp.float64])
def test_the_state_keeps_its_dtype(case, dtype, logits_dtype):
    logits, labels = case.example()
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), case.state)
    loss, new = full_loss(case)(jnp.asarray(logits, logits_dtype), labels, state)
    assert {leaf.dtype for leaf in new} == {jnp.dtype(dtype)}
    assert loss.dtype == (jnp.float64 if logits_dtype == jnp.float64 else jnp.float32)
    assert jax.tree.structure(new) == jax.tree.structure(state)


@by_case
def test_nothing_is_changed_in_place(case):
    logits, labels = case.example()
    state = type(case.state)(*(leaf.copy() for leaf in case.state))
    copies = logits.copy(), labels.copy(), [leaf.copy() for leaf in state]
    _, new = full_loss(case)(logits, labels, state)
    np.testing.assert_array_equal(logits, copies[0])
    np.testing.assert_array_equal(labels, copies[1])
    for leaf, copy, after in zip(state, copies[2], new, strict=True):
        np.testing.assert_array_equal(leaf, copy)
        assert not np.array_equal(after, copy)


@by_case
def test_scan_over_steps_with_the_state_as_carry(case):
    """And with the gradient taken inside, as a training step does."""
    examples = steps(case)
    loss = full_loss(case)

    def step(state, example):
        def mean(x):
            return loss(x, example[1], state, reduction="mean")

        (value, state), gradient = jax.value_and_grad(mean, has_aux=True)(example[0])
        return state, (value, gradient)

    stacked = tuple(jnp.asarray(np.stack(arrays)) for arrays in zip(*examples, strict=True))
    scanned, outputs = jax.jit(lambda s: jax.lax.scan(step, s, stacked))(INITS[case.id]())
    state, looped = INITS[case.id](), []
    for example in examples:
        state, output = step(state, example)
        looped.append(output)
    assert_equal_trees(scanned, state, rtol=1e-6)
    for got, expected in zip(outputs, zip(*looped, strict=True), strict=True):
        np.testing.assert_allclose(got, np.stack(expected), rtol=1e-6, atol=1e-9)


@by_case
@pytest.mark.parametrize("masked", [False, True], ids=["all", "where"])
def test_a_mapped_axis_counts_as_one_batch(case, masked):
    logits, labels = case.example()
    where = np.random.default_rng(0).uniform(size=case.shape) < (0.6 if masked else 2)
    expected = full_loss(case)(logits, labels, case.state, where=where)

    def of_half(x, y, kept):
        return full_loss(case)(x, y, case.state, where=kept, axis_name="batch")

    halves = [a.reshape(2, len(a) // 2, *a.shape[1:]) for a in (logits, labels, where)]
    losses, states = jax.vmap(of_half, axis_name="batch")(*halves)
    np.testing.assert_allclose(losses.reshape(expected[0].shape), expected[0], rtol=1e-14)
    for half in range(2):
        assert_equal_trees(jax.tree.map(lambda leaf, half=half: leaf[half], states), expected[1], rtol=1e-14)


ON_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
import jaxfocal as jf
from parity_tests.cases import BY_ID
jax.config.update("jax_enable_x64", True)
mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
rows, everywhere = jax.P("data"), jax.P()

def gradient(case, axis_name):
    def run(x, y, kept, state):
        def loss(x):
            values, new = getattr(jf, case.name)(x, y, state, where=kept, axis_name=axis_name)
            return values.sum(), (values, new)
        slope, (values, new) = jax.grad(loss, has_aux=True)(x)
        return (slope, values), new
    return run

for case in map(BY_ID.get, ("seesaw", "equalized_focal", "ghm")):
    examples = [case.example(seed) for seed in range(4)]
    logits, labels = (np.concatenate(arrays) for arrays in zip(*examples))  # two of the 16 rows on each device
    state = jax.tree.map(jnp.asarray, case.state)
    some = np.random.default_rng(0).uniform(size=labels.shape) < 0.6
    some[2:4] = False  # one device keeps nothing
    for kept in (np.full(labels.shape, True), some):
        specs = {"in_specs": (rows, rows, rows, everywhere), "out_specs": (rows, everywhere)}
        mapped = jax.jit(jax.shard_map(gradient(case, "data"), mesh=mesh, **specs))
        got, right = mapped(logits, labels, kept, state), jax.jit(gradient(case, None))(logits, labels, kept, state)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15), got, right)
        assert all(leaf.sharding.is_fully_replicated and len(leaf.sharding.device_set) == 8 for leaf in got[1])
        alone = gradient(case, None)(logits[:2], labels[:2], kept[:2], state)[1]
        assert not all(np.allclose(a, b) for a, b in zip(alone, right[1])), "one device sees all there is"
    print(case.id)
"""


def test_over_devices_losses_and_state_are_those_of_one_batch():
    """On 8 devices of one host, under a shard_map, whose ``out_specs`` asks that all have the same state."""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", ON_DEVICES],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [case.id for case in STATEFUL]


@by_case
def test_no_gradient_flows_through_the_statistics(case):
    """Neither from the loss to the state that went in, nor from the state that came out to the logits."""
    logits, labels = case.example()
    state = jax.tree.map(jnp.asarray, case.state)
    by_state = jax.grad(lambda s: full_loss(case)(logits, labels, s)[0].sum())(state)
    by_logits = jax.grad(lambda x: sum(leaf.sum() for leaf in full_loss(case)(x, labels, state)[1]))(logits)
    assert not any(np.any(leaf) for leaf in (*by_state, by_logits))


@by_case
def test_weights_do_not_enter_the_statistics_and_dropped_elements_do_not(case):
    logits, labels = case.example()
    weights = np.random.default_rng(0).uniform(size=case.shape)
    plain, weighted = (full_loss(case)(logits, labels, case.state, weights=w)[1] for w in (None, weights))
    assert_equal_trees(weighted, plain, rtol=0)
    where = np.arange(4) != 1
    broadcast = where if case.over == "row" else where[:, None]
    dropped = full_loss(case)(logits, labels, case.state, where=broadcast)[1]
    assert_equal_trees(dropped, full_loss(case)(logits[where], labels[where], case.state)[1])


@by_case
@pytest.mark.parametrize("label", [-1, 5, 77])
def test_a_traced_label_out_of_range_is_nan_in_its_row_and_not_counted(case, label):
    logits, labels = case.example()
    at = (1,) if case.over == "row" else (1, 2)
    bad = labels.copy()
    bad[at] = label

    @jax.jit
    def run(x, y):
        def loss(x):
            values, new = full_loss(case)(x, y, case.state)
            return values.sum(), (values, new)

        gradient, (values, new) = jax.grad(loss, has_aux=True)(x)
        return gradient, values, new

    gradient, values, new = run(logits, bad)
    for result in (gradient, values):
        expected = np.zeros(result.shape, bool)
        expected[at] = True
        np.testing.assert_array_equal(np.isnan(result), expected)
    where = np.ones(case.shape, bool)
    where[at] = False
    assert_equal_trees(new, full_loss(case)(logits, labels, case.state, where=where)[1])
