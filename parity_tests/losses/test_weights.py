"""Class weights and logit offsets: their formulas, classes without examples, digits in float32, transformations."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp

import jaxfocal as jf

COUNTS = {  # of one length, so that each function compiles once
    "long tail": [5000, 1200, 300, 70, 30, 16, 4, 2, 1],
    "classes without examples": [0, 310, 2489, 0, 17, 725, 0, 1, 1],
    "one class": [0, 0, 12, 0, 0, 0, 0, 0, 0],
    "equal": [7, 7, 7, 7, 7, 7, 7, 7, 7],
    "from 1 to 1e7": [1, 3, 10, 100, 1000, 10_000, 123_456, 1_000_000, 10_000_000],
    "fractions": [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125, 0.0, 0.0, 0.0],
}
OPTIONS = {
    "inverse_frequency_weights": [{}],
    "effective_number_weights": [{"beta": beta} for beta in (0.0, 0.5, 0.9, 0.999, 0.9999, 0.999999)],
    "logit_adjustment": [{"tau": tau} for tau in (1.0, 0.0, -2.5)],
}
EVERY = [(name, options) for name, rows in OPTIONS.items() for options in rows]
every = pytest.mark.parametrize(("name", "options"), EVERY, ids=[f"{n}-{next(iter(o.values()), '')}" for n, o in EVERY])
each_function = pytest.mark.parametrize("name", OPTIONS)


JITTED = {name: jax.jit(getattr(jf, name)) for name in OPTIONS}
WEIGHTS_OF_BETA = jax.jit(lambda counts, beta: jf.effective_number_weights(counts, beta=beta))


def exact(name, counts, beta=0.999, tau=1.0):
    """The papers' formulas at 60 digits."""
    with mp.workdps(60):
        n = [mp.mpf(count) for count in counts]
        if name == "logit_adjustment":
            fewest = min(1, *(m for m in n if m > 0))
            return np.array([float(tau * mp.log((m or fewest) / sum(n))) for m in n])
        inverse = {
            "inverse_frequency_weights": lambda m: 1 / m,
            "effective_number_weights": lambda m: (1 - mp.mpf(beta)) / (1 - mp.mpf(beta) ** m),
        }[name]
        weights = [inverse(m) if m > 0 else mp.mpf(0) for m in n]
        return np.array([float(w * sum(m > 0 for m in n) / sum(weights)) for w in weights])


@every
def test_float64_is_exact(name, options):
    for counts in COUNTS.values():
        got = getattr(jf, name)(np.array(counts, np.float64), **options)
        assert got.dtype == jnp.float64
        np.testing.assert_allclose(got, exact(name, counts, **options), rtol=2e-15, atol=1e-15)


@every
def test_float32_keeps_its_digits(name, options):
    """beta is a Python number, counts are traced. 8 eps: a few roundings, in the weight and in the scale."""
    function = jax.jit(lambda n: getattr(jf, name)(n, **options))
    for counts in COUNTS.values():
        got = function(np.array(counts, np.float32))
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, exact(name, counts, **options), rtol=2**-20, atol=2**-22)


@each_function
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16])
def test_other_dtypes_are_float32(name, dtype):
    counts = np.array([100, 10, 0, 1])
    got = JITTED[name](counts.astype(dtype))
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, JITTED[name](counts.astype(np.float32)), rtol=2**-21)


@pytest.mark.parametrize("beta", [1e-3, 0.3, 0.5, 0.9, 0.9999, 1 - 2**-20])
def test_float32_beta_that_is_traced(beta):
    """The right weights of the float32 number that beta is."""
    counts, beta = np.array(COUNTS["from 1 to 1e7"]), np.float32(beta)
    got = WEIGHTS_OF_BETA(counts, beta)
    np.testing.assert_allclose(got, exact("effective_number_weights", counts.tolist(), beta=float(beta)), rtol=2**-20)


@every
def test_equals_torchref(name, options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    for counts in COUNTS.values():
        fewest = min(count for count in counts if count > 0)
        cancelled = 2e-16 / (1 - options.get("beta", 0) ** fewest)  # what 1 - beta**n has lost there
        got = getattr(jf, name)(np.array(counts, np.float64), **options)
        theirs = getattr(torchref, name)(torch.tensor(counts, dtype=torch.float64), **options)
        np.testing.assert_allclose(got, theirs, rtol=1e-15 + 4 * cancelled, atol=1e-15)
    assert getattr(torchref, name)(torch.tensor([3, 0, 1]), **options).dtype == torch.float32


def test_public_report_of_a_class_without_examples():
    reports = json.loads((Path(__file__).parents[1] / "data" / "public_reports.json").read_text())["cases"]
    (case,) = (case for case in reports if case["id"] == "zero-class-count")
    got = getattr(jf, case["function"])(np.array(case["counts"]), **case["kwargs"])
    np.testing.assert_allclose(got, case["weights"], rtol=case["rtol"])
    assert got[case["counts"].index(0)] == 0


@pytest.mark.parametrize("name", ["inverse_frequency_weights", "effective_number_weights"])
def test_classes_with_examples_average_1_and_the_others_get_0(name):
    for counts in COUNTS.values():
        weights = np.asarray(JITTED[name](np.array(counts, np.float64)))
        present = np.array(counts) > 0
        assert weights[present].mean() == pytest.approx(1, rel=1e-15)
        assert np.all(weights[~present] == 0)
        ascending = np.argsort(counts, stable=True)[(~present).sum() :]
        assert np.all(np.diff(weights[ascending]) <= 0)


def test_proportional_to_what_scikit_learn_calls_balanced():
    class_weight = pytest.importorskip("sklearn.utils.class_weight", reason="compares with scikit-learn")
    counts = np.array(COUNTS["long tail"])
    labels = np.repeat(np.arange(len(counts)), counts)
    balanced = class_weight.compute_class_weight("balanced", classes=np.arange(len(counts)), y=labels)
    ours = jf.inverse_frequency_weights(counts.astype(float))
    np.testing.assert_allclose(ours, balanced / balanced.mean(), rtol=1e-14)
    np.testing.assert_allclose(balanced @ counts / counts.sum(), 1)


def test_the_ends_of_beta():
    counts = np.array(COUNTS["long tail"], float)
    np.testing.assert_array_equal(jf.effective_number_weights(counts, beta=0.0), np.ones(9))
    np.testing.assert_array_equal(WEIGHTS_OF_BETA(counts, 0.0), np.ones(9))
    nearly_one = jf.effective_number_weights(counts, beta=1 - 1e-12)
    np.testing.assert_allclose(nearly_one, jf.inverse_frequency_weights(counts), rtol=1e-8)


def test_logit_adjustment_leaves_the_others_alone():
    """A class without examples changes no other offset, and is at least as rare as they are."""
    adjustment = JITTED["logit_adjustment"]
    counts = np.array([900.0, 90, 9, 1, 0])
    got = adjustment(counts)
    np.testing.assert_allclose(got[:4], adjustment(counts[:4]), rtol=1e-15)
    assert got[4] == got[3]
    np.testing.assert_allclose(adjustment(counts / 1000), got, rtol=1e-15)
    np.testing.assert_allclose(adjustment(np.array([900.0, 90, 10, 0, 0]))[3:], np.log(1 / 1000), rtol=1e-15)


def test_logit_adjusted_cross_entropy():
    """Menon et al., equation 10: -log(exp(x_y + a_y) / sum_j exp(x_j + a_j)), a = tau log of the prior."""
    counts, tau = np.array([70.0, 25, 5]), 1.5
    logits, labels = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6) % 3
    prior = counts / counts.sum()
    odds = prior**tau * np.exp(logits)
    expected = -np.log(odds[np.arange(6), labels] / odds.sum(axis=-1))

    @jax.jit
    def loss(x):
        return jf.softmax_focal_loss(x + jf.logit_adjustment(counts, tau=tau)[None], labels, gamma=0.0)

    np.testing.assert_allclose(loss(logits), expected, rtol=1e-13)


def test_as_class_weights_of_a_loss():
    labels = np.array([0, 0, 0, 1, 1, 3])
    logits = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)

    @jax.jit
    @jax.value_and_grad
    def loss(x, y):
        weights = jf.effective_number_weights(jnp.bincount(y, length=4), beta=0.9)
        return jf.softmax_focal_loss(x, y, class_weights=weights, reduction="mean")

    value, gradient = loss(logits, labels)
    weights = exact("effective_number_weights", np.bincount(labels, minlength=4).tolist(), beta=0.9)
    plain = jax.jit(jf.softmax_focal_loss)(logits, labels)
    np.testing.assert_allclose(value, np.average(plain, weights=weights[labels]), rtol=1e-6)
    assert np.isfinite(gradient).all()


@each_function
def test_vmap_is_a_loop(name):
    counts = np.random.default_rng(2).integers(0, 50, (5, 9))
    got = jax.jit(jax.vmap(getattr(jf, name)))(counts)
    np.testing.assert_allclose(got, [JITTED[name](row) for row in counts], rtol=1e-6)


def test_derivative_by_beta():
    counts = np.array([1.0, 5, 0, 40])
    forward = jax.jit(jax.jacfwd(lambda b: jf.effective_number_weights(counts, beta=b)))
    reverse = jax.jit(jax.jacrev(lambda b: jf.effective_number_weights(counts, beta=b)))
    for beta in (0.2, 0.9, 0.999):
        step = 1e-5 * (1 - beta)
        after, before = (exact("effective_number_weights", counts, beta=beta + sign * step) for sign in (1, -1))
        np.testing.assert_allclose(reverse(beta), (after - before) / (2 * step), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(forward(beta), reverse(beta), rtol=1e-10)


def test_derivative_by_beta_at_0():
    """1 / E is 1 for one example and 1 - beta + ... for several: the weights move by +-1/2."""
    counts = np.array([1.0, 5.0, 0.0])
    derivative = jax.jit(jax.jacobian(lambda b: jf.effective_number_weights(counts, beta=b)))(0.0)
    np.testing.assert_allclose(derivative, [0.5, -0.5, 0.0], atol=1e-15)


def test_derivative_by_tau():
    counts = np.array([3.0, 0, 5])
    jacobian = jax.jit(jax.jacfwd(lambda t: jf.logit_adjustment(counts, tau=t)))(0.7)
    np.testing.assert_allclose(jacobian, JITTED["logit_adjustment"](counts), rtol=1e-15)


@each_function
def test_derivatives_by_counts_are_finite(name):
    counts = np.array([3.0, 0.0, 5.0, 1.0])
    with jax.debug_nans(True):
        assert np.isfinite(jax.jit(jax.jacobian(getattr(jf, name)))(counts)).all()


@each_function
def test_bad_counts_that_are_traced_give_nan(name):
    for counts in ([3.0, -1.0], [3.0, np.nan], [3.0, np.inf], [0.0, 0.0]):
        assert np.isnan(JITTED[name](np.array(counts))).all()


BAD_COUNTS = {
    "negative": ([3, -1], "counts must be >= 0 and finite, got counts[1] = -1"),
    "nan": ([np.nan, 1.0], "counts must be >= 0 and finite, got counts[0] = nan"),
    "inf": ([1.0, np.inf], "counts must be >= 0 and finite, got counts[1] = inf"),
    "all 0": ([0, 0], "counts must be positive for at least one class, got [0, 0]"),
    "no class": (np.zeros(0), "counts must be positive for at least one class, got []"),
    "a scalar": (3, "counts must have one count a class, shape (c,), got shape ()"),
    "a matrix": (np.ones((2, 3)), "counts must have one count a class, shape (c,), got shape (2, 3)"),
    "bool": (np.array([True]), "counts must be integer or floating point, got dtype bool"),
}


@each_function
@pytest.mark.parametrize(("counts", "message"), BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_bad_counts(name, counts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(jf, name)(np.asarray(counts))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("effective_number_weights", {"beta": 1.0}, "beta must be in [0, 1), got beta = 1.0"),
        ("effective_number_weights", {"beta": -0.1}, "beta must be in [0, 1), got beta = -0.1"),
        ("effective_number_weights", {"beta": np.nan}, "beta must be in [0, 1), got beta = nan"),
        ("effective_number_weights", {"beta": [0.9, 0.9]}, "beta must be a scalar, got shape (2,)"),
        ("logit_adjustment", {"tau": np.inf}, "tau must be finite, got tau = inf"),
        ("logit_adjustment", {"tau": [1.0]}, "tau must be a scalar, got shape (1,)"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(jf, name)(np.array([1, 2]), **options)
