"""jit computes what eager computes, vmap what a loop computes, and the loss takes what jnp takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.cases import CASES, variants_of
from parity_tests.compiling import jit_as_usual

by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def value_and_gradient(case, logits, labels, options):
    def loss(x):
        values = case.loss(x, labels, **options)
        return values.sum(), values

    gradient, values = jax.grad(loss, has_aux=True)(logits)
    return values, gradient


@pytest.mark.parametrize(("case", "options"), variants_of())
def test_jit(case, options):
    logits, labels = case.example()
    eager = value_and_gradient(case, logits, labels, options)
    jitted = jit_as_usual(lambda x, y, o: value_and_gradient(case, x, y, o))(logits, labels, options)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15), jitted, eager)


@by_case
def test_vmap_over_examples(case):
    examples = [case.example(seed) for seed in range(3)]
    logits, labels = map(np.stack, zip(*examples, strict=True))

    def function(x, y):
        return value_and_gradient(case, x, y, {"reduction": "mean"})

    mapped = jax.jit(jax.vmap(function))(logits, labels)
    function = jax.jit(function) if "lovasz" in case.id else function  # its loop is compiled anew at each call
    looped = [function(x, y) for x, y in examples]
    for i, expected in enumerate(looped):
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-13, atol=1e-15), mapped, expected)


@pytest.mark.parametrize("case", [case for case in CASES if case.sweep], ids=lambda case: case.id)
def test_vmap_over_a_hyperparameter(case):
    logits, labels = case.example()
    name, values = case.sweep
    function = jax.jit(lambda value: case.loss(logits, labels, **{name: value}))
    mapped = jax.jit(jax.vmap(function))(np.array(values))
    np.testing.assert_allclose(mapped, [function(value) for value in values], rtol=1e-13)


@pytest.mark.parametrize("case", [case for case in CASES if case.local], ids=lambda case: case.id)
def test_remat_and_scan(case):
    logits, labels = case.example()

    def loss(x):
        return case.loss(x, labels, reduction="sum")

    def scanned(x):
        body = jax.checkpoint(lambda total, row: (total + case.loss(row[0][None], row[1][None], reduction="sum"), None))
        return jax.lax.scan(body, jnp.zeros(()), (x, jnp.asarray(labels)))[0]

    got, expected = jax.jit(lambda x: (jax.grad(scanned)(x), jax.grad(loss)(x)))(logits)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)


@by_case
def test_lists_and_numpy_arrays(case):
    logits, labels = case.example()
    expected = case.loss(jnp.asarray(logits), jnp.asarray(labels))
    np.testing.assert_array_equal(case.loss(logits, labels), expected)
    np.testing.assert_array_equal(case.loss(logits.tolist(), labels.tolist()), expected)
    shape = case.where_shape(logits.shape)
    mask = np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
    np.testing.assert_array_equal(case.loss(logits, labels, where=mask.tolist()), case.loss(logits, labels, where=mask))


@by_case
@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5)])
def test_no_examples(case, shape):
    logits = np.zeros(shape)
    labels = np.zeros(shape if case.example()[1].shape == case.logits_shape else shape[:-1], case.example()[1].dtype)
    assert jax.eval_shape(lambda x: case.loss(x, labels), logits).shape == case.loss_shape(shape)
    value, gradient = jax.jit(jax.value_and_grad(lambda x: case.loss(x, labels, reduction="mean")))(logits)
    assert value == 0
    assert gradient.shape == shape
