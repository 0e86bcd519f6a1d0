"""Reverse mode saves one array as large as the logits: the slope."""

import jax
import numpy as np
import pytest

from parity_tests.cases import BY_ID, CASES, variants_of
from parity_tests.cases.softmax import CLASS_WEIGHTS


def large_residuals(loss, logits):
    """The float arrays, as large as the logits, that the backward pass needs."""
    pullback = jax.vjp(loss, logits)[1]
    return [r for r in jax.tree.leaves(pullback) if r.size >= logits.size and r.dtype.kind == "f"]


@pytest.mark.parametrize(("case", "options"), variants_of())
def test_one_array(case, options):
    logits, labels = case.example()
    gradient = jax.grad(lambda x: case.loss(x, labels, **options, reduction="sum"))(logits)
    for reduction in ("none", "sum", "mean"):
        (slope,) = large_residuals(lambda x, r=reduction: case.loss(x, labels, **options, reduction=r), logits)
        np.testing.assert_allclose(np.reshape(slope, gradient.shape), gradient, rtol=1e-14)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_array_beside_the_mask(case):
    logits, labels = case.example()
    where = np.ones(case.where_shape(logits.shape), bool)
    assert len(large_residuals(lambda x: case.loss(x, labels, where=where, reduction="mean"), logits)) == 1


def test_a_differentiated_gamma_costs_one_more():
    """What the constant gamma of the tests above does without."""
    case = BY_ID["sigmoid_focal"]
    logits, labels = case.example()
    pullback = jax.vjp(lambda x, gamma: case.loss(x, labels, gamma=gamma), logits, 2.0)[1]
    assert len([r for r in jax.tree.leaves(pullback) if r.size >= logits.size and r.dtype.kind == "f"]) == 2


def test_ignored_rows_cost_a_mask():
    case = BY_ID["softmax_focal"]
    logits, labels = case.example()
    labels[0] = -1
    options = {"ignore_index": -1, "class_weights": CLASS_WEIGHTS, "reduction": "mean"}
    assert len(large_residuals(lambda x: case.loss(x, labels, **options), logits)) == 1
