"""Float64 values and gradients against the textbook formula in 50 digits, without PyTorch."""

import jax
import numpy as np
import pytest
from mpmath import mp

from parity_tests.cases import LossCase, variants_of

RTOL = 1e-13
PER_CLASS = ("class_weights", "counts")


def exact_elements(case: LossCase, logits, labels, options):
    """Value and gradient of every element, the options taken at its place."""
    spread = {
        name: np.broadcast_to(option, logits.shape) if np.ndim(option) and name not in PER_CLASS else option
        for name, option in options.items()
    }
    value, gradient = np.empty(case.shape), np.empty(logits.shape)
    for at in np.ndindex(case.shape):
        label = labels[at].tolist()
        here = {name: o[at].tolist() if np.shape(o) == logits.shape else o for name, o in spread.items()}

        def loss(*x, shape=logits[at].shape, label=label, here=here):
            return case.exact(np.reshape(x, shape).tolist(), label, **here)

        x = tuple(np.ravel(logits[at]).tolist())
        value[at] = float(loss(*x))
        steps = np.eye(len(x), dtype=int)
        gradient[at] = np.reshape(
            [float(mp.diff(loss, x, tuple(step.tolist()))) for step in steps], np.shape(gradient[at])
        )
    return value, gradient


@pytest.mark.parametrize(("case", "options"), variants_of())
def test_value_and_gradient(case, options):
    logits, labels = case.example()
    with mp.workdps(50):
        value, gradient = exact_elements(case, logits, labels, options)
    np.testing.assert_allclose(case.loss(logits, labels, **options), value, rtol=RTOL)
    got = jax.grad(lambda x: case.loss(x, labels, **options).sum())(logits)
    np.testing.assert_allclose(got, gradient, rtol=RTOL, atol=RTOL * np.abs(gradient).max())
