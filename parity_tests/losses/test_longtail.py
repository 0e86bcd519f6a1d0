"""Losses of rare classes against the programs they come from, at their corners, and what they refuse."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import BY_ID


def mmdet_seesaw(x: Any, labels: Any, cumulative: Any, p: float, q: float, eps: float = 1e-2) -> Any:
    """Seesaw loss as MMDetection writes it down."""
    import torch

    hot = torch.nn.functional.one_hot(labels, x.shape[1])
    counts = cumulative.clamp(min=1)
    ratios = counts[None, :] / counts[:, None]
    mitigation = torch.where(ratios < 1, ratios**p, torch.ones_like(ratios))[labels]
    scores = x.detach().softmax(1)
    relative = scores / scores[torch.arange(len(x)), labels][:, None].clamp(min=eps)
    compensation = torch.where(relative > 1, relative**q, torch.ones_like(relative))
    return torch.nn.functional.cross_entropy(
        x + (mitigation * compensation).log() * (1 - hot), labels, reduction="none"
    )


def mmdet_ghmc(x: Any, target: Any, valid: Any, acc_sum: Any, momentum: float) -> Any:
    """The loss of MMDetection's GHMC, which moves ``acc_sum`` in place."""
    import torch

    bins = len(acc_sum)
    edges = torch.arange(bins + 1, dtype=x.dtype) / bins
    edges[-1] += 1e-6
    size = (x.sigmoid().detach() - target).abs()
    weights, total, n = torch.zeros_like(x), valid.sum().item(), 0
    for i in range(bins):
        inside = (size >= edges[i]) & (size < edges[i + 1]) & valid
        if inside.sum() > 0:
            acc_sum[i] = momentum * acc_sum[i] + (1 - momentum) * inside.sum()
            weights[inside] = total / acc_sum[i]
            n += 1
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    return entropy(x, target, weights / n, reduction="sum") / total


@pytest.mark.parametrize(("p", "q"), [(0.8, 2.0), (0.0, 2.0), (0.8, 0.0), (1.5, 0.5)])
def test_seesaw_equals_mmdetection_where_the_label_has_a_score(p, q):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(30, 6)), rng.integers(0, 4, 30)  # two classes are never seen
    scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert scores[np.arange(30), labels].min() > 1e-2
    before = np.array([5.0, 80.0, 0.0, 300.0, 0.0, 2.0])
    loss, state = jf.seesaw_loss(logits, labels, jf.SeesawState(before), p=p, q=q)
    gradient = jax.grad(lambda x: jf.seesaw_loss(x, labels, jf.SeesawState(before), p=p, q=q)[0].sum())(logits)

    cumulative = torch.tensor(before) + torch.bincount(torch.tensor(labels), minlength=6)
    x = torch.tensor(logits, requires_grad=True)
    theirs = mmdet_seesaw(x, torch.tensor(labels), cumulative, p, q)
    theirs.sum().backward()
    np.testing.assert_allclose(loss, theirs.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(state.counts, cumulative.numpy())


def test_seesaw_does_not_hold_the_score_away_from_zero():
    """``sigma = (1/(1+e^-9), ...)``: the label's score is 1e-4, and MMDetection takes it for 1e-2."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    logits, labels = np.array([[9.0, 0.0]]), np.array([1])
    loss, _ = jf.seesaw_loss(logits, labels, jf.seesaw_init(2), p=0.0)
    np.testing.assert_allclose(loss, [np.logaddexp(0, 9 + 2 * 9)], rtol=1e-12)
    theirs = mmdet_seesaw(torch.tensor(logits), torch.tensor(labels), torch.ones(2).double(), 0.0, 2.0)
    sigma = 1 / (1 + np.exp(-9.0))
    np.testing.assert_allclose(theirs.numpy(), [np.logaddexp(0, 9 + 2 * np.log(sigma / 1e-2))], rtol=1e-12)
    assert loss.item() > theirs.item() + 8


def test_seesaw_of_masked_classes():
    """A logit of -inf is as if the class were not there; as the label it costs infinity."""
    logits, labels = np.array([[0.3, -np.inf, 2.0], [1.0, 0.0, -np.inf]]), np.array([0, 2])
    state = jf.SeesawState(np.array([3.0, 1.0, 20.0]))
    for q in (0.0, 2.0):
        loss, new = jf.seesaw_loss(logits, labels, state, q=q)
        without = jf.SeesawState(np.delete(new.counts, 1) - [1, 0])
        expected, _ = jf.seesaw_loss(logits[:1, [0, 2]], np.array([0]), without, q=q)
        np.testing.assert_allclose(loss, [expected[0], np.inf], rtol=1e-14)


@pytest.mark.parametrize("momentum", [0.0, 0.75])
def test_ghm_mean_equals_mmdetection_over_steps(momentum):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    state, acc_sum = jf.ghm_init(10), torch.zeros(10, dtype=torch.float64)
    state = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), state)
    rng = np.random.default_rng(0)
    for _ in range(5):
        logits, labels, where = (
            rng.normal(scale=2, size=(40, 3)),
            rng.integers(0, 2, (40, 3)),
            rng.random((40, 3)) < 0.7,
        )
        options = {"momentum": momentum, "where": where, "reduction": "mean"}
        gradient = jax.grad(lambda x, s=state, y=labels, o=options: jf.ghm_loss(x, y, s, **o)[0])(logits)
        loss, state = jf.ghm_loss(logits, labels, state, **options)
        x = torch.tensor(logits, requires_grad=True)
        theirs = mmdet_ghmc(x, torch.tensor(labels).double(), torch.tensor(where), acc_sum, momentum)
        theirs.backward()
        np.testing.assert_allclose(loss, theirs.item(), rtol=1e-12)
        np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(state.counts, acc_sum.numpy(), rtol=1e-14)


def test_ghm_gives_every_occupied_bin_the_same_weight():
    """Without a moving average the weights sum to N, the same share for each bin; and the ends 0 and 1 are in a bin."""
    logits = np.array([-1e4, -9.0, 0.2, 0.1, 0.3, 2.0, 1e4])
    loss, state = jf.ghm_loss(logits, np.zeros(7, int), jf.ghm_init(4), momentum=0.0)
    np.testing.assert_array_equal(state.counts, [2, 0, 3, 2])
    weights = loss / np.logaddexp(0, logits)
    np.testing.assert_allclose(weights[1:], np.array([2, 3, 3, 3, 2, 2]) ** -1.0 * 7 / 3, rtol=1e-6)


def test_ghm_first_losses_are_larger():
    logits, labels = BY_ID["ghm"].example()
    loss = jax.jit(lambda state: jf.ghm_loss(logits, labels, state, momentum=0.75))
    first, state = loss(jf.ghm_init())
    for _ in range(60):
        settled, state = loss(state)
    np.testing.assert_allclose(first, 4 * settled, rtol=1e-6)


def test_a_nan_logit_is_in_no_bin():
    logits, labels = BY_ID["ghm"].example()
    poisoned, where = logits.copy(), np.ones(logits.shape, bool)
    poisoned[1, 2], where[1, 2] = np.nan, False
    loss, state = jf.ghm_loss(poisoned, labels, BY_ID["ghm"].state)
    expected, without = jf.ghm_loss(logits, labels, BY_ID["ghm"].state, where=where)
    np.testing.assert_array_equal(state.counts, without.counts)
    np.testing.assert_allclose(loss[where], expected[where] * logits.size / (logits.size - 1), rtol=1e-14)


@pytest.mark.parametrize("alpha", [None, 0.25])
def test_equalized_focal_as_the_paper_writes_it(alpha):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(scale=2, size=(30, 4)), (rng.random((30, 4)) < [0.5, 0.2, 0.02, 0.0]).astype(int)
    state = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), jf.equalized_focal_init(4))
    positive, negative = torch.zeros(2, 4, dtype=torch.float64)
    ratio = torch.ones(4, dtype=torch.float64)
    for _ in range(3):
        loss, state = jf.equalized_focal_loss(logits, labels, state, alpha=alpha)
        x, y = torch.tensor(logits, requires_grad=True), torch.tensor(labels).double()
        p = x.sigmoid()
        p_t = p * y + (1 - p) * (1 - y)
        gamma_j = 2 + 8 * (1 - ratio)
        theirs = gamma_j / 2 * (1 - p_t) ** gamma_j * -p_t.log()
        theirs = theirs if alpha is None else (alpha * y + (1 - alpha) * (1 - y)) * theirs
        np.testing.assert_allclose(loss, theirs.detach().numpy(), rtol=1e-11)
        (size,) = (g.abs() for g in torch.autograd.grad(theirs.sum(), x))
        positive, negative = positive + (size * y).sum(0), negative + (size * (1 - y)).sum(0)
        ratio = (positive / negative).clamp(0, 1)  # the authors add 1e-10 to the denominator, which is 0 before it
    np.testing.assert_allclose(state.positive_gradients, positive.numpy(), rtol=1e-12)
    np.testing.assert_allclose(state.negative_gradients, negative.numpy(), rtol=1e-12)


def test_equalized_focal_is_focal_loss_at_first():
    logits, labels = BY_ID["equalized_focal"].example()
    loss, _ = jf.equalized_focal_loss(logits, labels, jf.equalized_focal_init(5), gamma=1.5, alpha=0.25)
    np.testing.assert_allclose(loss, jf.sigmoid_focal_loss(logits, labels, gamma=1.5, alpha=0.25), rtol=1e-14)


@pytest.mark.parametrize(
    ("positive", "negative", "exponent"),
    [(0, 0, 2), (5, 0, 2), (0, 5, 10), (1, 2, 6), (3e38, 1e-38, 2), (0, 2e-38, 10)],
)
def test_equalized_focal_exponent(positive, negative, exponent):
    """``gamma_j`` where a sum is zero, and where their quotient is larger than any float32."""
    state = jf.EqualizedFocalState(np.array([positive], np.float32), np.array([negative], np.float32))
    loss, _ = jf.equalized_focal_loss(np.zeros((1, 1), np.float32), np.ones((1, 1), int), state)
    np.testing.assert_allclose(loss, [[exponent / 2 * 0.5**exponent * np.log(2)]], rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_ldam_equals_the_authors_program(reduction, weighted):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    logits, labels = rng.uniform(-1, 1, size=(30, 4)), rng.integers(0, 4, 30)
    counts, weights = np.array([5000, 300, 20, 2]), np.array([0.1, 0.5, 1.0, 4.0]) if weighted else None
    margins = 1 / np.sqrt(np.sqrt(counts))
    margins = torch.tensor(margins * (0.5 / margins.max()))
    x = torch.tensor(logits, requires_grad=True)
    index = torch.nn.functional.one_hot(torch.tensor(labels), 4).bool()
    shifted = torch.where(index, x - margins[labels][:, None], x)
    theirs = torch.nn.functional.cross_entropy(
        10 * shifted, torch.tensor(labels), weight=torch.tensor(weights) if weighted else None, reduction=reduction
    )
    theirs.sum().backward()

    def ours(x):
        return jf.ldam_loss(x, labels, counts=counts, scale=10.0, class_weights=weights, reduction=reduction)

    np.testing.assert_allclose(ours(logits), theirs.detach().numpy(), rtol=1e-11)
    np.testing.assert_allclose(jax.grad(lambda x: ours(x).sum())(logits), x.grad.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("counts", [[0, 16, 1], [0.0, 1.6, 0.1]])
def test_ldam_margin_of_a_class_that_does_not_occur(counts):
    """It is the largest."""
    logits, labels = np.zeros((3, 3)), np.arange(3)
    loss = jf.ldam_loss(logits, labels, counts=counts, max_margin=0.5, scale=1.0)
    margins = np.array([0.5, 0.25, 0.5])
    np.testing.assert_allclose(loss, np.log(1 + 2 * np.exp(margins)), rtol=1e-14)


def test_ldam_of_an_imbalance_of_millions_under_jit():
    counts = np.array([2**40, 1])
    loss = jax.jit(lambda x, n: jf.ldam_loss(x, np.array([0, 1]), counts=n, scale=1.0))(np.zeros((2, 2)), counts)
    np.testing.assert_allclose(loss, np.logaddexp(0, [0.5 / 1024, 0.5]), rtol=1e-14)


def test_seesaw_counts_along_any_axis_and_in_any_integer_dtype():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(2, 3, 4)), rng.integers(0, 3, (2, 4))
    expected, last = jf.seesaw_loss(logits.swapaxes(1, 2), labels, jf.seesaw_init(3))
    np.testing.assert_array_equal(last.counts, np.bincount(labels.ravel(), minlength=3))
    for dtype in ("int8", "uint64"):
        loss, state = jf.seesaw_loss(logits, labels.astype(dtype), jf.seesaw_init(3), axis=1)
        np.testing.assert_array_equal(loss, expected)
        np.testing.assert_array_equal(state.counts, last.counts)


def test_ignored_labels_are_not_counted():
    logits, labels = np.zeros((4, 3)), np.array([0, 255, 2, 255])
    loss, state = jf.seesaw_loss(logits, labels, jf.seesaw_init(3), ignore_index=255)
    np.testing.assert_array_equal(state.counts, [1, 0, 1])
    np.testing.assert_array_equal(loss[1::2], 0)


@pytest.mark.parametrize("label", [-1, 5])
def test_ldam_traced_label_out_of_range_is_nan_in_its_row(label):
    logits, labels = BY_ID["ldam"].example()
    labels[1] = label
    gradient = jax.jit(jax.grad(lambda x, y: BY_ID["ldam"].loss(x, y).sum()))(logits, labels)
    np.testing.assert_array_equal(np.isnan(gradient).all(-1), [False, True, False, False])
    assert np.isfinite(np.delete(gradient, 1, axis=0)).all()


X, CLASSES, BINARY = np.zeros((3, 4)), np.zeros(3, int), np.zeros((3, 4), int)
SEESAW, EQUALIZED, GHM = jf.seesaw_init(4), jf.equalized_focal_init(4), jf.ghm_init(5)
COUNTS = {"counts": [1, 2, 3, 4]}
BAD = {
    "ldam counts shape": (jf.ldam_loss, CLASSES, (), {"counts": [1, 2]}, "counts must have one number a class, shape (4,), got shape (2,)"),
    "ldam negative count": (jf.ldam_loss, CLASSES, (), {"counts": [1, 2, -3, 4]}, "counts must be >= 0 and finite, got counts[2] = -3"),
    "ldam no examples": (jf.ldam_loss, CLASSES, (), {"counts": [0, 0, 0, 0]}, "counts must be positive for at least one class, got [0, 0, 0, 0]"),
    "ldam counts of bools": (jf.ldam_loss, CLASSES, (), {"counts": [True] * 4}, "counts must be integer or floating point, got dtype bool"),
    "half-precision counts": (jf.seesaw_loss, CLASSES, (jf.SeesawState(jnp.zeros(4, jnp.bfloat16)),), {}, "state.counts must be float32 or float64, got dtype bfloat16"),
    "ldam max_margin": (jf.ldam_loss, CLASSES, (), {**COUNTS, "max_margin": -0.5}, "max_margin must be >= 0 and finite, got max_margin = -0.5"),
    "ldam scale": (jf.ldam_loss, CLASSES, (), {**COUNTS, "scale": 0.0}, "scale must be > 0 and finite, got scale = 0.0"),
    "ldam soft labels": (jf.ldam_loss, X, (), COUNTS, "labels must be integer classes, got dtype float64"),
    "ldam class weights": (jf.ldam_loss, CLASSES, (), {**COUNTS, "class_weights": [1.0]}, "class_weights must have one weight a class"),
    "seesaw soft labels": (jf.seesaw_loss, X, (SEESAW,), {}, "labels must be integer classes, got dtype float64"),
    "seesaw p": (jf.seesaw_loss, CLASSES, (SEESAW,), {"p": -1.0}, "p must be >= 0 and finite, got p = -1.0"),
    "seesaw q shape": (jf.seesaw_loss, CLASSES, (SEESAW,), {"q": [2.0]}, "q must be a scalar, got shape (1,)"),
    "seesaw state of other classes": (jf.seesaw_loss, CLASSES, (jf.seesaw_init(5),), {}, "state.counts must have one entry a class, shape (4,), got shape (5,)"),
    "another state": (jf.seesaw_loss, CLASSES, (GHM,), {}, "state must be a SeesawState, as its init or the call before returned it, got GHMState"),
    "no state": (jf.seesaw_loss, CLASSES, (np.zeros(4),), {}, "state must be a SeesawState, as its init or the call before returned it, got ndarray"),
    "negative count": (jf.seesaw_loss, CLASSES, (jf.SeesawState(np.array([0.0, -1, 0, 0])),), {}, "state.counts must be >= 0 and finite, got state.counts[1] = -1.0"),
    "integer counts": (jf.seesaw_loss, CLASSES, (jf.SeesawState(np.zeros(4, int)),), {}, "state.counts must be float32 or float64, got dtype int64"),
    "equalized float labels": (jf.equalized_focal_loss, X, (EQUALIZED,), {}, "labels must be bool or integer, got dtype float64"),
    "equalized gamma": (jf.equalized_focal_loss, BINARY, (EQUALIZED,), {"gamma": 0.0}, "gamma must be > 0 and finite, got gamma = 0.0"),
    "equalized scale": (jf.equalized_focal_loss, BINARY, (EQUALIZED,), {"scale": -1.0}, "scale must be >= 0 and finite, got scale = -1.0"),
    "equalized state": (jf.equalized_focal_loss, BINARY, (jf.equalized_focal_init(3),), {}, "state.positive_gradients must have one entry a class, shape (4,), got shape (3,)"),
    "ghm float labels": (jf.ghm_loss, X, (GHM,), {}, "labels must be bool or integer, got dtype float64"),
    "ghm momentum": (jf.ghm_loss, BINARY, (GHM,), {"momentum": 1.0}, "momentum must be in [0, 1), got momentum = 1.0"),
    "ghm state of rows": (jf.ghm_loss, BINARY, (jf.GHMState(np.zeros((2, 3))),), {}, "state.counts must be a vector, got shape (2, 3)"),
    "ghm without bins": (jf.ghm_loss, BINARY, (jf.GHMState(np.zeros(0)),), {}, "state.counts must be a vector, got shape (0,)"),
}  # fmt: skip


@pytest.mark.parametrize(("loss", "labels", "state", "options", "message"), BAD.values(), ids=BAD)
def test_message(loss, labels, state, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        loss(X, labels, *state, **options)


def test_a_logit_without_classes_has_no_state():
    with pytest.raises(ValueError, match="axis must name one of the 0 dimensions"):
        jf.equalized_focal_loss(np.zeros(()), np.zeros((), int), EQUALIZED)


@pytest.mark.parametrize("init", [jf.seesaw_init, jf.equalized_focal_init, jf.ghm_init])
@pytest.mark.parametrize("number", [0, -1, 2.5, True, None])
def test_init_wants_a_positive_integer(init, number):
    with pytest.raises(ValueError, match=re.escape(f"must be a positive integer, got {number!r}")):
        init(number)
