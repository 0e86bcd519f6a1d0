"""How far float32 losses and gradients are from the right value, in units of the bound they must keep.

The bound on the relative error is ``4 eps (1 + (1 + gamma) m)``, ``eps = 2**-23`` and ``m`` the distance of the logits
(``|z|`` for sigmoid, ``max_j |x_j - x_t|`` for softmax): to first order what rounding the logits alone can do, times a
small constant. It holds wherever the right value is a normal float32 number; below, the result must be below too.

``python -m parity_tests.losses.float32_error`` prints the largest errors found.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
from mpmath import mp, mpf

from parity_tests.cases import CASES, EPS, LossCase
from parity_tests.compiling import jit_as_usual

GAMMAS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
DIGITS = 90  # 1 - p_t is formed by subtraction in the textbook formula, and p_t may be 1 - 1e-38


@dataclass(frozen=True)
class Worst:
    """The largest error over a set of logits, in units of the bound."""

    case: str
    gamma: float
    value: float
    gradient: float


def sigmoid_grid() -> tuple[np.ndarray, np.ndarray]:
    """Logits from -1e4 to 1e4, dense around 0, each with both labels."""
    positive = np.unique(
        np.concatenate([np.geomspace(1e-6, 1e4, 40), np.linspace(0.25, 120, 60), np.linspace(0, 3, 200)[1:]])
    ).astype(np.float32)
    logits = np.concatenate([-positive, np.zeros(1, np.float32), positive])
    return np.tile(logits, 2), np.repeat([0, 1], logits.size)


def softmax_grid() -> tuple[np.ndarray, np.ndarray]:
    """Rows of 4 logits at every spread up to 1e4, around 0 and around 1e3, with ties, and two labels each."""
    rng = np.random.default_rng(0)
    rows = [rng.uniform(-s, s, size=(1, 4)) + offset for s in np.geomspace(1e-3, 5e3, 20) for offset in (0.0, 1e3)]
    rows += [np.array([[0.0, 0.0, 0.0, 0.0], [20.0, 20.0, -3.0, 1.0]])]
    logits = np.concatenate(rows).astype(np.float32)
    return np.repeat(logits, 2, axis=0), np.tile([0, 1], len(logits))


def worst_errors(case: LossCase) -> Iterator[Worst]:
    """The largest errors of a loss over its grid, one result a gamma."""
    logits, labels = sigmoid_grid() if case.over == "logit" else softmax_grid()
    labels = labels.astype(case.example()[1].dtype)
    if case.over == "row":
        m = np.abs(logits.astype(np.float64) - np.take_along_axis(logits, labels[:, None], 1)).max(-1)
    else:
        m = np.abs(logits.astype(np.float64))
    name, values = case.sweep

    def total(x, y, gamma):
        values = case.loss(x, y, **{name: gamma})
        return values.sum(), values

    gradient_and_value_of = jit_as_usual(jax.grad(total, has_aux=True))
    for gamma in np.float32(values):
        bound = 4 * EPS * (1 + (1 + float(gamma)) * m)
        gradient, value = map(np.asarray, gradient_and_value_of(logits, labels, gamma))
        eager_value = np.asarray(case.loss(logits, labels, **{name: gamma}))
        with mp.workdps(DIGITS):
            right, right_gradient = _right(case, logits, labels, {name: float(gamma)})
            yield Worst(
                case.id,
                float(gamma),
                max(_worst(v, right, bound, case.smallest) for v in (value, eager_value)),
                _worst(gradient, right_gradient, bound[:, None] if case.over == "row" else bound, case.smallest),
            )


def _right(case: LossCase, logits: np.ndarray, labels: np.ndarray, options: dict) -> tuple[np.ndarray, np.ndarray]:
    value = np.empty(len(logits), object)
    gradient = np.empty(logits.shape, object)
    for i, (x, y) in enumerate(zip(logits.astype(float), labels.tolist(), strict=True)):
        value[i] = case.exact(x, y, **options)
        if case.over == "row":
            for j in range(x.size):
                gradient[i, j] = mp.diff(
                    lambda t, x=x, y=y, j=j: case.exact([*x[:j], t, *x[j + 1 :]], y, **options), x[j]
                )
        else:
            gradient[i] = mp.diff(lambda t, y=y: case.exact(t, y, **options), x)
    return value, gradient


def _worst(got: np.ndarray, right: np.ndarray, bound: np.ndarray, smallest: float) -> float:
    """The largest relative error over the bound; infinite where a result is not finite or is too large to be right."""
    if not np.isfinite(got).all():
        return float("inf")
    normal = np.array([abs(r) >= smallest for r in right.ravel()]).reshape(right.shape)
    if (np.abs(got[~normal]) > smallest).any():
        return float("inf")
    bound = np.broadcast_to(bound, right.shape)[normal]
    errors = [abs(mpf(float(g)) - r) / abs(r) for g, r in zip(got[normal], right[normal], strict=True)]
    return float(np.max(np.array(errors, float) / bound))


if __name__ == "__main__":
    print(f"{'loss':20} {'value':>7} {'gradient':>8}   (largest error over the bound, over all hyperparameters)")
    for case in CASES:
        if case.any_size:
            worst = list(worst_errors(case))
            value, gradient = max(w.value for w in worst), max(w.gradient for w in worst)
            print(f"{case.id:20} {value:7.3f} {gradient:8.3f}")
