"""The distribution focal loss: targets on a bin and between, the last bin, and what is refused."""

import re

import jax
import numpy as np
import pytest
from mpmath import mp

import jaxfocal as jf
from parity_tests.cases.dense import exact_distribution
from parity_tests.compiling import jit_as_usual
from parity_tests.losses.float32_error import softmax_grid
from parity_tests.losses.test_dense import derivatives

DISTRIBUTION = jf.distribution_focal_loss


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_targets_on_a_bin(dtype):
    """Bit for bit the cross-entropy of that class as users compile it, so that it keeps the focal loss's bound."""
    grid = softmax_grid()[0].astype(dtype)
    rows, classes = np.repeat(grid, 4, axis=0), np.tile(np.arange(4), len(grid))

    def compiled(loss, labels, **options):
        return jit_as_usual(lambda x: derivatives(loss, x, labels, options))(rows)

    theirs = compiled(jf.softmax_focal_loss, classes, gamma=0.0)
    for kind in ("uint8", dtype):
        value, slope, curvature = compiled(DISTRIBUTION, classes.astype(kind))
        np.testing.assert_array_equal(value, theirs[0])
        np.testing.assert_array_equal(slope, theirs[1])
        assert np.isfinite(curvature).all()


def test_the_last_bin_where_the_plain_formula_fails():
    """mmdet's formula looks up the bin past the end; its programs keep targets 0.1 below it for that."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rows, target = np.array([[0.3, -1.0, 2.0]]), np.array([2.0])
    with pytest.raises(IndexError, match="out of bounds"):
        torch.nn.functional.cross_entropy(torch.tensor(rows), torch.tensor(target).long() + 1, reduction="none")
    with mp.workdps(50):
        np.testing.assert_allclose(DISTRIBUTION(rows, target), [float(exact_distribution(rows[0], 2.0))], rtol=1e-14)


def test_loss_is_piecewise_linear_in_the_target():
    row = np.array([0.3, -1.0, 2.0, 0.1])
    cross_entropy_of = jax.jit(lambda label: jf.softmax_focal_loss(row, label, gamma=0.0))
    cross_entropy = np.array([cross_entropy_of(c) for c in range(4)])
    between = np.array([0.0, 0.25, 0.9, 1.0, 1.5, 2.0, 2.999, 3.0])
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(lambda y: DISTRIBUTION(row, y))))(between)
    np.testing.assert_allclose(value, np.interp(between, np.arange(4), cross_entropy), rtol=1e-14)
    left = np.minimum(between.astype(int), 2)  # at the last bin there is no slope but that from below
    np.testing.assert_allclose(slope, np.diff(cross_entropy)[left], rtol=1e-14)


def test_one_bin():
    value, slope, curvature = derivatives(DISTRIBUTION, np.array([[0.3], [5.0]]), np.zeros(2))
    assert not np.any(value)
    assert not np.any(slope)
    assert not np.any(curvature)


def test_axis_of_bins():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(4, 4, 4)), rng.uniform(0, 3, size=(4, 4))
    for axis in (0, 1, -3):
        last = np.moveaxis(logits, axis, -1)
        np.testing.assert_array_equal(DISTRIBUTION(logits, labels, axis=axis), DISTRIBUTION(last, labels))


def test_a_bin_without_weight_may_be_masked():
    row = np.array([0.5, -np.inf, 1.0])
    assert DISTRIBUTION(row, np.array(0.5)) == np.inf
    for on_bin in (0, 2):
        value, slope = derivatives(DISTRIBUTION, row, np.array(on_bin), order=1)
        np.testing.assert_allclose(value, jf.softmax_focal_loss(row[::2], np.array(on_bin // 2), gamma=0.0), rtol=1e-14)
        assert slope[1] == 0


def test_written_gradient():
    """p_j - (l + 1 - y) [j = l] - (y - l) [j = l + 1]."""
    rows = np.random.default_rng(0).normal(scale=2, size=(10, 4))
    targets = np.append(np.random.default_rng(1).uniform(0, 3, size=9), 3.0)
    left = np.minimum(targets.astype(int), 2)[:, None]
    softmax = np.exp(rows) / np.exp(rows).sum(-1, keepdims=True)
    share = targets[:, None] - left
    formula = softmax - (1 - share) * (np.arange(4) == left) - share * (np.arange(4) == left + 1)
    np.testing.assert_allclose(derivatives(DISTRIBUTION, rows, targets, order=1)[1], formula, rtol=1e-11, atol=1e-15)


BAD = {
    "past the last bin": (np.array([2.0, 2.1]), {}, "labels must be in [0, 2], got labels[1] = 2.1"),
    "bin 3 of 3": (np.array([3, 0]), {}, "labels must be in [0, 2], got labels[0] = 3"),
    "target -0.1": (np.array([-0.1, 0.0]), {}, "labels must be in [0, 2], got labels[0] = -0.1"),
    "target nan": (np.array([0.0, np.nan]), {}, "labels must be in [0, 2], got labels[1] = nan"),
    "targets shape": (np.zeros((2, 3)), {}, "(2, 3) without the axis of bins 1, (2,), got labels of shape (2, 3)"),
    "bool targets": (np.zeros(2, bool), {}, "labels must be integer or floating point, got dtype bool"),
    "complex targets": (np.zeros(2) * 1j, {}, "labels must be bool, integer or floating point, got dtype"),
    "axis of bins": (np.zeros(2), {"axis": 2}, "axis must name one of the 2 dimensions of logits, got axis=2"),
}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("labels", "options", "message"), BAD.values(), ids=BAD)
def test_message(labels, options, message, jit):
    """Labels and hyperparameters that are constants of a traced program are checked too."""

    def call(x):
        return DISTRIBUTION(x, labels, **options)

    with pytest.raises(ValueError, match=re.escape(message)):
        (jax.jit(call) if jit else call)(np.zeros((2, 3)))


@pytest.mark.parametrize("target", [-0.1, 2.1, np.nan, -1, 3, 200])
def test_traced_target_out_of_range_is_nan_in_its_row(target):
    labels = np.array([target, 2])
    values, slopes = derivatives(DISTRIBUTION, np.array([[0.3, -0.2, 1.0]] * 2), labels, order=1)
    np.testing.assert_array_equal(np.isnan(values), [True, False])
    np.testing.assert_array_equal(np.isnan(slopes), [[True] * 3, [False] * 3])
