"""The focal loss of rows of logits, one row an example."""

from functools import partial

import jax
from jax import Array
from jaxtyping import Float

from ._checks import is_hard
from ._classes import at_class, class_index, label_distribution, label_margin
from ._expected import expected_curve, expected_curve_by_readings
from ._margin import poly_curve
from ._passes import on_cpu
from ._reduce import weigh


def focal_rows(
    logits: Float[Array, "*n c"],
    labels: Array,
    gamma: Float[Array, "..."],
    epsilon: Float[Array, "..."] | None,
    class_weights: Float[Array, " c"] | None,
    smoothing: Float[Array, ""] | None,
) -> Float[Array, "*n"]:
    """``w_t L(z_t)`` of the label ``t``, or its expectation over label distributions and smoothed labels.

    ``L`` is ``poly_curve``; ``gamma`` and ``epsilon`` are scalars or broadcast against the logits.
    """
    if is_hard(labels) and smoothing is None:
        return _of_label(logits, labels, gamma, epsilon, class_weights)
    return _expected(logits, labels, gamma, epsilon, class_weights, smoothing)


def _of_label(logits: Array, labels: Array, gamma: Array, epsilon: Array | None, class_weights: Array | None) -> Array:
    index = class_index(labels)
    at_label = partial(at_class, index=index, logits=logits)
    loss = poly_curve(label_margin(logits, labels), *jax.tree.map(at_label, (gamma, epsilon)))
    return loss if class_weights is None else weigh(class_weights[index], loss)


def _expected(
    logits: Array,
    labels: Array,
    gamma: Array,
    epsilon: Array | None,
    class_weights: Array | None,
    smoothing: Array | None,
) -> Array:
    """``sum_c y_c w_c L(z_c)`` of the label distribution ``y``; a masked class without mass counts 0."""
    y = label_distribution(labels, logits)
    if smoothing is not None:
        y = (1 - smoothing) * y + smoothing / logits.shape[-1]
    w = y if class_weights is None else y * class_weights.reshape((1,) * (y.ndim - 1) + (-1,))
    curve = expected_curve if on_cpu() else expected_curve_by_readings
    return curve(logits, w, gamma, epsilon)
