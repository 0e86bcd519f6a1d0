"""What a loss accepts: shapes, dtypes, label ranges and hyperparameters, checked when the loss is traced.

Values are looked at only where they lie in host memory. A traced or device-held label that is out of range shows as NaN
in the loss and its gradient instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Float

from .._host import host_values
from ._rules import Known, Number


class Accepted(NamedTuple):
    """The values that a hyperparameter may take."""

    accepts: Callable[[np.ndarray], np.ndarray]
    expected: str


Logits = Array | jax.ShapeDtypeStruct  # of which only shape and dtype are looked at

BINARY = Accepted(lambda v: (v == 0) | (v == 1), "0 or 1")
FINITE = Accepted(np.isfinite, "finite")
NON_NEGATIVE = Accepted(lambda v: (v >= 0) & (v < np.inf), ">= 0 and finite")
POSITIVE = Accepted(lambda v: (v > 0) & (v < np.inf), "> 0 and finite")
PROBABILITY = Accepted(lambda v: (v >= 0) & (v <= 1), "in [0, 1]")
BELOW_ONE = Accepted(lambda v: (v >= 0) & (v < 1), "in [0, 1)")


def check_logits(logits: ArrayLike) -> Array:
    """Floating-point logits, in the dtype that the loss is computed in: float64 for float64, else float32."""
    array = jnp.asarray(logits)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"logits must be floating point, got dtype {array.dtype}")
    return array if array.dtype == jnp.float64 else array.astype(jnp.float32)


def as_array(x: ArrayLike) -> Array:
    """``x`` as a JAX array; integers that JAX would wrap are clipped instead, so that they stay out of range."""
    known = host_values(x)
    if known is None or known.dtype.kind not in "iu" or known.dtype.itemsize <= jnp.result_type(int).itemsize:
        return jnp.asarray(x)
    return jnp.asarray(np.clip(known, -(2**31), 2**31 - 1).astype(np.int32))


def check_binary_labels(labels: ArrayLike, logits: Array, where: ArrayLike | None, *, soft: bool = True) -> Array:
    """Labels of the logits' shape: bool or integer in {0, 1}, or float in [0, 1] (cast to the logits' dtype)."""
    array = as_array(labels)
    if array.shape != logits.shape:
        raise ValueError(f"labels must have the shape of logits, {logits.shape}, got labels of shape {array.shape}")
    if is_hard(array):
        check_values("labels", labels, BINARY, where)
        return array.astype(jnp.int8) if array.dtype == jnp.bool_ else array
    if not soft:
        raise ValueError(f"labels must be bool or integer, got dtype {array.dtype}; cast 0. and 1. with astype(int)")
    check_values("labels", labels, PROBABILITY, where)
    return array.astype(logits.dtype)


def check_class_labels(
    labels: ArrayLike,
    logits: Logits,
    axis: int,
    ignore_index: int | None,
    where: ArrayLike | None,
    *,
    soft: bool = True,
) -> Array:
    """Integer classes of the logits' shape without ``axis``, in [0, c), or float distributions of the logits' shape."""
    _check_ignore_index(ignore_index)
    array = as_array(labels)
    num_classes = logits.shape[axis]
    rows = logits.shape[:axis] + logits.shape[axis + 1 :]
    if array.dtype == jnp.bool_:
        raise ValueError("labels must be integer classes or float distributions, got dtype bool")
    if is_hard(array):
        if array.shape != rows:
            raise ValueError(
                f"integer labels must have the shape of logits {logits.shape} without the class axis {axis}, {rows}, "
                f"got labels of shape {array.shape}"
            )

        def in_range(y: np.ndarray) -> np.ndarray:
            known = (y >= 0) & (y < num_classes)
            return known if ignore_index is None else known | (y == ignore_index)

        classes = f"a class in [0, {num_classes}) (ignore_index is {ignore_index})"
        check_values("labels", labels, Accepted(in_range, classes), where)
        return array.astype(jnp.int64 if array.dtype.itemsize == 8 else jnp.int32)  # wide enough to compare with c
    if not soft:
        raise ValueError(f"labels must be integer classes, got dtype {array.dtype}")
    if array.shape != logits.shape:
        raise ValueError(
            f"float labels are distributions and must have the shape of logits, {logits.shape}, "
            f"got labels of shape {array.shape}; class indices must be integers"
        )
    if ignore_index is not None:
        raise ValueError("ignore_index applies to integer labels only; drop soft-labelled rows with where")
    check_values("labels", labels, PROBABILITY, _where_rows(where, rows, axis))
    return array.astype(logits.dtype)


def _check_ignore_index(ignore_index: Any) -> None:
    if ignore_index is None:
        return
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int | np.integer):
        raise ValueError(f"ignore_index must be a Python integer, got {ignore_index!r}")
    if not -(2**31) <= ignore_index < 2**31:
        raise ValueError(f"ignore_index must fit in 32 bits, got {ignore_index}")


def _where_rows(where: ArrayLike | None, rows: tuple[int, ...], axis: int) -> Any:
    """A row mask with the class axis put back, so that it broadcasts against the logits; as it came where not known."""
    known = None if where is None else host_values(where)
    return where if known is None else np.expand_dims(np.broadcast_to(known, rows), axis)


def check_axis(axis: int, shape: tuple[int, ...]) -> int:
    """The class axis counted from the front."""
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise ValueError(f"axis must be an integer, got {axis!r}")
    ndim = len(shape)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis must name one of the {ndim} dimensions of logits, got axis={axis} for shape {shape}")
    if shape[axis] == 0:
        raise ValueError(f"logits must have at least one class along axis {axis}, got shape {shape}")
    return axis % ndim


def check_option(name: str, value: ArrayLike, logits: Logits, accepted: Accepted) -> Array:
    """A hyperparameter in the logits' dtype that broadcasts against them, with as many dimensions (or none)."""
    check_values(name, value, accepted)
    array = jnp.asarray(value, logits.dtype)
    if not broadcasts_to(array.shape, logits.shape):
        raise ValueError(f"{name} must broadcast to the shape of logits, {logits.shape}, got shape {array.shape}")
    if array.ndim == 0:
        return array
    return array.reshape((1,) * (logits.ndim - array.ndim) + array.shape)


def check_scalar(name: str, value: ArrayLike, logits: Logits, accepted: Accepted) -> Array:
    """A hyperparameter that is one number, in the logits' dtype."""
    if np.ndim(value) != 0:
        raise ValueError(f"{name} must be a scalar, got shape {np.shape(value)}")
    check_values(name, value, accepted)
    return jnp.asarray(value, logits.dtype)


def check_exponent(name: str, value: ArrayLike, logits: Array) -> Number:
    """An exponent >= 0 as ``check_option``, or known where it is a number of Python or NumPy."""
    array = check_option(name, value, logits, NON_NEGATIVE)
    return Known(value) if isinstance(value, float | int | np.floating | np.integer) else array


def check_alpha(alpha: ArrayLike | None, logits: Array) -> Array | None:
    """The weight of the positives."""
    without = PROBABILITY._replace(expected="in [0, 1] (alpha=None switches it off)")
    return None if alpha is None else check_option("alpha", alpha, logits, without)


def check_class_weights(class_weights: ArrayLike | None, logits: Logits, axis: int) -> Array | None:
    """One weight >= 0 a class."""
    if class_weights is None:
        return None
    array = jnp.asarray(class_weights, logits.dtype)
    if array.shape != (logits.shape[axis],):
        raise ValueError(
            f"class_weights must have one weight a class, shape ({logits.shape[axis]},), got shape {array.shape}"
        )
    check_values("class_weights", class_weights, NON_NEGATIVE)
    return array


def check_counts(counts: ArrayLike, dtype: DTypeLike | None = None) -> Float[Array, " c"]:
    """How many examples each class has: one number >= 0 a class, not all 0, in a floating dtype.

    By default in float32, or in float64 where the counts are. They are converted on the host where they lie there:
    JAX may have no integer that is wide enough.
    """
    known = host_values(counts)
    array = jnp.asarray(counts) if known is None else known
    if not (jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)):
        raise ValueError(f"counts must be integer or floating point, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"counts must have one count a class, shape (c,), got shape {array.shape}")
    check_values("counts", counts, NON_NEGATIVE)
    if known is not None and not known.any():
        raise ValueError(f"counts must be positive for at least one class, got {known.tolist()}")
    if dtype is None:
        dtype = jnp.float64 if array.dtype == jnp.float64 == jnp.result_type(float) else jnp.float32
    return jnp.asarray(array.astype(dtype))


def check_label_smoothing(label_smoothing: ArrayLike, logits: Logits) -> Array | None:
    """The mass spread evenly over all classes, a scalar in [0, 1); None where it is known to be 0."""
    mass = check_scalar("label_smoothing", label_smoothing, logits, BELOW_ONE)
    known = host_values(label_smoothing)
    return None if known is not None and known == 0 else mass


def is_hard(labels: Array) -> bool:
    """Whether labels are bool or integer; otherwise they are floating point, or an error."""
    if labels.dtype == jnp.bool_ or jnp.issubdtype(labels.dtype, jnp.integer):
        return True
    if not jnp.issubdtype(labels.dtype, jnp.floating):
        raise ValueError(f"labels must be bool, integer or floating point, got dtype {labels.dtype}")
    return False


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of ``shape`` broadcasts against ``target`` without enlarging it."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def check_values(name: str, values: Any, accepted: Accepted, where: Any = None) -> None:
    """ValueError that shows the first value, where it counts, that is not accepted."""
    known = host_values(values)
    if known is not None and known.dtype.kind not in "biuf" and not jnp.issubdtype(known.dtype, jnp.floating):
        raise ValueError(f"{name} must be a number, got {values!r}")
    mask = host_values(True if where is None else where)
    if known is None or mask is None:
        return
    bad = np.logical_and(~accepted.accepts(known), mask)
    if bad.any():
        at = np.unravel_index(np.argmax(bad), bad.shape)
        place = f"{name}[{', '.join(map(str, at))}]" if at else name
        raise ValueError(f"{name} must be {accepted.expected}, got {place} = {np.broadcast_to(known, bad.shape)[at]}")
