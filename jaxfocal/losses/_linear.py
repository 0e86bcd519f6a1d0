"""The softmax focal loss of a linear layer's output, chunk by chunk, so that the logits are never held whole."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Float, Int

from ._checks import (
    NON_NEGATIVE,
    check_class_labels,
    check_class_weights,
    check_label_smoothing,
    check_option,
)
from ._classes import class_index
from ._reduce import Reduction, keep
from ._rows import focal_rows

CHUNK_LOGITS = 2**24  # logits that a chunk may hold, 64 MiB in float32
LEAST_CHUNKS = 16
KERNEL_BLOCKS = 8  # the gradient of the kernel is added up in so many pieces
LEAST_ROWS = 128  # a chunk, where there are as many: fewer waste the matrix product


def linear_softmax_focal_loss(
    hidden: Float[ArrayLike, "*n d"],
    kernel: Float[ArrayLike, "d v"],
    labels: Int[ArrayLike, "*n"],
    *,
    bias: Float[ArrayLike, " v"] | None = None,
    gamma: ArrayLike = 2.0,
    class_weights: ArrayLike | None = None,
    label_smoothing: ArrayLike = 0.0,
    ignore_index: int | None = None,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
    chunk_size: int | None = None,
) -> Float[Array, "..."]:
    r"""``softmax_focal_loss(hidden @ kernel + bias, labels)`` without holding the logits of all rows at once.

    With ``W`` the kernel, ``h`` the hidden rows, ``b`` the bias and ``L`` the softmax focal loss:

    .. math::
        x_i = h_i W + b \qquad g_i = c_i \, \partial L(x_i, t_i) / \partial x_i \qquad
        \frac{\partial}{\partial h_i} = g_i W^\top \qquad
        \frac{\partial}{\partial W} = \sum_i h_i^\top g_i \qquad
        \frac{\partial}{\partial b} = \sum_i g_i

    where ``c_i`` is what the reduction makes of row ``i``. For "sum" and "mean" it is known beforehand, and one pass
    over chunks of rows computes value and gradients: three products, as without chunks. For "none" the backward pass
    computes the logits of each chunk again. Reverse mode only, any number of times; not ``jax.jvp``.

    For NVIDIA GPUs XLA may pad a kernel whose ``v`` is no multiple of 64, at every product. A vocabulary of 50304, with
    logits that no label names, then takes less memory than one of 50257.

    Args:
      hidden: floating point ``(*n, d)``. For float16 and bfloat16 the products accumulate, and the loss is computed, in
        float32.
      kernel: ``(d, v)``, of the dtype of ``hidden``. An embedding ``(v, d)`` that is tied to it goes in as ``.T``.
      labels: integers in [0, v), ``(*n)``.
      bias: ``(v,)``, floating point.
      gamma: the focusing exponent, >= 0: a scalar or one a class ``(v,)``. May be traced and differentiated.
      class_weights, label_smoothing, ignore_index: as in ``softmax_focal_loss``.
      where, weights, reduction, normalizer: as in ``softmax_focal_loss``.
      chunk_size: rows a chunk; by default at most ``2**24`` logits and a sixteenth of the rows, but no fewer than 128.

    Returns:
      The loss in float32 (float64 for float64 ``hidden``): ``(*n)`` for "none", else a scalar.

    Raises:
      ValueError: as ``softmax_focal_loss``; for shapes or dtypes that do not fit together; for a chunk_size below 1.

    >>> import jax, jax.numpy as jnp
    >>> hidden, kernel = jnp.array([[1.0, -0.5], [0.2, 0.4]]), jnp.array([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(linear_softmax_focal_loss(hidden, kernel, jnp.array([0, 1])))
    [0.0096 0.5093]

    References:
      Lin, Goyal, Girshick, He, Dollár, "Focal Loss for Dense Object Detection", 2017,
      https://arxiv.org/abs/1708.02002; Wijmans, Huval, Hertzberg, Koltun, Krähenbühl, "Cut Your Losses in
      Large-Vocabulary Language Models", 2025, https://arxiv.org/abs/2411.09009
    """
    layer, dtype = _check_layer(hidden, kernel, bias)
    (*shape, width), num_classes = layer.hidden.shape, layer.kernel.shape[1]
    logits = jax.ShapeDtypeStruct((*shape, num_classes), dtype)
    reduced = Reduction(tuple(shape), where, weights, reduction, normalizer)
    labels = check_class_labels(labels, logits, len(shape), ignore_index, where, soft=False)
    if ignore_index is not None:
        reduced = reduced.drop(labels == ignore_index)
    labels = keep(labels, reduced.mask)
    curve = _Curve(
        _check_gamma(gamma, logits),
        check_class_weights(class_weights, logits, len(shape)),
        check_label_smoothing(label_smoothing, logits),
    )

    chunks = _Chunks.of(labels.size, num_classes, chunk_size)
    layer = layer._replace(hidden=chunks.split(layer.hidden.reshape(labels.size, width)))
    mask = jnp.ones(labels.shape, jnp.bool_) if reduced.mask is None else reduced.mask
    rows = _Rows(chunks.split(labels.ravel()), chunks.split(mask.ravel()))
    if reduction == "none":
        return reduced(chunks.join(_losses(layer, rows, curve)).reshape(shape))
    w = reduced.kept_weights(dtype)
    of_label = None if curve.class_weights is None else curve.class_weights[class_index(labels)]
    # divided here and not at the end, so that no pass over the kernel's gradient is left to do
    factors = reduced.of_total(mask.astype(dtype) if w is None else w, of_label)
    return _total(layer, rows, curve, chunks.split(factors.ravel()))


class _Layer(NamedTuple):
    """``hidden (k, n, d)`` in chunks, ``kernel (d, v)`` and ``bias (v)``."""

    hidden: Array
    kernel: Array
    bias: Array | None

    def logits(self, hidden: Array) -> Array:
        """``(n, v)`` of one chunk."""
        product = _product(hidden, self.kernel, ((1,), (0,)))
        return product if self.bias is None else product + self.bias[None]


class _Rows(NamedTuple):
    """``labels (k, n)``, and which rows count."""

    labels: Array
    mask: Array


class _Curve(NamedTuple):
    """The hyperparameters that the loss of a row depends on."""

    gamma: Array
    class_weights: Array | None
    smoothing: Array | None


def _row_losses(logits: Array, curve: _Curve, rows: _Rows) -> Array:
    """``(n)`` of one chunk."""
    gamma = curve.gamma if curve.gamma.ndim == 0 else curve.gamma[None]
    kept = keep(logits, rows.mask)
    return keep(focal_rows(kept, rows.labels, gamma, None, curve.class_weights, curve.smoothing), rows.mask)


@jax.custom_vjp
def _losses(layer: _Layer, rows: _Rows, curve: _Curve) -> Array:
    """The loss of each row, ``(k, n)``."""

    def of_chunk(chunk: tuple[Array, _Rows]) -> Array:
        hidden, rows = chunk
        return _row_losses(layer.logits(hidden), curve, rows)

    return jax.lax.map(of_chunk, (layer.hidden, rows))


@jax.custom_vjp
def _total(layer: _Layer, rows: _Rows, curve: _Curve, w: Array) -> Array:
    """``sum(w * loss)``, ``w (k, n)``."""
    return jnp.sum(w * _losses(layer, rows, curve))


def _pull_back(layer: _Layer, rows: _Rows, curve: _Curve, cotangents: Array) -> tuple[Array, _Layer, _Curve]:
    """The losses ``(k, n)``, and what their cotangents ``(k, n)`` become for the layer (wide) and the hyperparameters.

    The cotangent of a row enters before its slope meets kernel and hidden rows: afterwards the rows are mixed.
    """

    def of_chunk(sums: Any, chunk: tuple[Array, _Rows, Array]) -> tuple[Any, tuple[Array, Array]]:
        (kernel_sum, *sums), (hidden, rows, cotangent) = sums, chunk
        loss, pullback = jax.vjp(lambda x, curve: _row_losses(x, curve, rows), layer.logits(hidden), curve)
        slope, curve_dot = pullback(cotangent)
        narrow = slope.astype(jnp.bfloat16) if hidden.dtype == jnp.bfloat16 else slope  # in float16 it would underflow
        terms = [None if layer.bias is None else jnp.sum(slope, axis=0), curve_dot]
        hidden_dot = _product(narrow, layer.kernel, ((1,), (1,)))
        kernel_sum = _add_product(kernel_sum, hidden, narrow)
        return (kernel_sum, *jax.tree.map(jnp.add, sums, terms)), (loss, hidden_dot)

    start = jax.tree.map(lambda x: jnp.zeros(x.shape, cotangents.dtype), (layer.kernel, layer.bias, curve))
    (kernel_dot, bias_dot, curve_dot), (losses, hidden_dot) = jax.lax.scan(
        of_chunk, start, (layer.hidden, rows, cotangents)
    )
    return losses, _Layer(hidden_dot, kernel_dot, bias_dot), curve_dot


def _add_product(total: Array, hidden: Array, slope: Array) -> Array:
    """``total (d, v) + hidden.T @ slope``, a block of ``d`` at a time: the product is as large as the kernel."""
    width, num_classes = total.shape
    blocks = max(b for b in range(1, KERNEL_BLOCKS + 1) if width % b == 0)
    columns = hidden.T.reshape(blocks, width // blocks, -1)

    def add_block(i: Array, total: Array) -> Array:
        return total.at[i].add(_product(columns[i], slope, ((1,), (0,))))

    total = total.reshape(blocks, width // blocks, num_classes)
    return jax.lax.fori_loop(0, blocks, add_block, total).reshape(width, num_classes)


def _losses_fwd(layer: _Layer, rows: _Rows, curve: _Curve) -> tuple[Array, Any]:
    return _losses(layer, rows, curve), (layer, rows, curve)


def _losses_bwd(saved: Any, cotangents: Array) -> tuple[_Layer, None, _Curve]:
    layer, rows, curve = saved
    _, layer_dot, curve_dot = _pull_back(layer, rows, curve, cotangents)
    return _narrowed(layer_dot, layer.hidden.dtype), None, curve_dot


def _total_fwd(layer: _Layer, rows: _Rows, curve: _Curve, w: Array) -> tuple[Array, Any]:
    losses, layer_dot, curve_dot = _pull_back(layer, rows, curve, w)
    return jnp.sum(w * losses), (layer_dot, curve_dot, losses, jnp.zeros((), layer.hidden.dtype))


def _total_bwd(saved: Any, cotangent: Array) -> tuple[_Layer, None, _Curve, Array]:
    *dots, narrow = saved
    layer_dot, curve_dot, losses = jax.tree.map(lambda x: cotangent * x, dots)
    return _narrowed(layer_dot, narrow.dtype), None, curve_dot, losses


def _narrowed(layer_dot: _Layer, dtype: DTypeLike) -> _Layer:
    """The gradients in the dtype of what they belong to, now that every factor is in."""
    return layer_dot._replace(hidden=layer_dot.hidden.astype(dtype), kernel=layer_dot.kernel.astype(dtype))


_losses.defvjp(_losses_fwd, _losses_bwd)
_total.defvjp(_total_fwd, _total_bwd)


def _product(a: Array, b: Array, contract: tuple[tuple[int, ...], tuple[int, ...]]) -> Array:
    """A matrix product that accumulates in float32, or in float64 for float64."""
    wide = jnp.float64 if a.dtype == jnp.float64 else jnp.float32
    a, b = (a, b) if a.dtype == b.dtype else (a.astype(wide), b.astype(wide))
    return jax.lax.dot_general(a, b, (contract, ((), ())), preferred_element_type=wide)


@dataclass(frozen=True)
class _Chunks:
    """``count`` chunks of ``size`` rows, of which the last may be padded with zeros."""

    rows: int
    size: int

    @staticmethod
    def of(rows: int, num_classes: int, size: int | None) -> "_Chunks":
        """Chunks of a given size, or of a size that bounds the logits held at a time."""
        if size is None:
            size = max(LEAST_ROWS, min(CHUNK_LOGITS // num_classes, -(-rows // LEAST_CHUNKS)))
            size = -(-rows // max(1, -(-rows // size)))  # as many chunks, evenly filled
        elif isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"chunk_size must be an integer >= 1, got {size!r}")
        return _Chunks(rows, max(1, min(int(size), rows)))

    def split(self, x: Array) -> Array:
        """``(rows, ...)`` to ``(count, size, ...)``."""
        count = -(-self.rows // self.size)
        pad = count * self.size - self.rows
        x = jnp.pad(x, ((0, pad),) + ((0, 0),) * (x.ndim - 1)) if pad else x
        return x.reshape(count, self.size, *x.shape[1:])

    def join(self, x: Array) -> Array:
        """Back to ``(rows)``."""
        return x.ravel()[: self.rows]


def _check_layer(hidden: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None) -> tuple[_Layer, Any]:
    hidden, kernel = jnp.asarray(hidden), jnp.asarray(kernel)
    if not jnp.issubdtype(hidden.dtype, jnp.floating):
        raise ValueError(f"hidden must be floating point, got dtype {hidden.dtype}")
    if hidden.ndim < 1 or kernel.ndim != 2 or kernel.shape[0] != hidden.shape[-1]:
        raise ValueError(
            f"hidden (..., d) and kernel (d, v) must share d, got hidden of shape {hidden.shape} "
            f"and kernel of shape {kernel.shape}"
        )
    if kernel.shape[1] == 0:
        raise ValueError(f"kernel must have at least one class, got shape {kernel.shape}")
    if kernel.dtype != hidden.dtype:
        raise ValueError(
            f"kernel must have the dtype of hidden, {hidden.dtype}, got dtype {kernel.dtype}: cast one with astype"
        )
    dtype = jnp.float64 if hidden.dtype == jnp.float64 else jnp.float32
    if bias is not None:
        if np.shape(bias) != kernel.shape[1:]:
            raise ValueError(f"bias must have one value a class, shape {kernel.shape[1:]}, got shape {np.shape(bias)}")
        bias = jnp.asarray(bias, dtype)
    return _Layer(hidden, kernel, bias), dtype


def _check_gamma(gamma: ArrayLike, logits: Any) -> Array:
    if np.ndim(gamma) > 1:
        raise ValueError(f"gamma must be a scalar or have one value a class, got shape {np.shape(gamma)}")
    return check_option("gamma", gamma, logits, NON_NEGATIVE).reshape(np.shape(gamma))
