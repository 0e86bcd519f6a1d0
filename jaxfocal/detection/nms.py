"""Non-maximum suppression with a fixed number of outputs, all of it in XLA."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from ._checks import check_array, check_number, check_whole
from .boxes import box_iou, check_boxes

BLOCK = 256
KINDS = {jnp.floating: "floating point", jnp.integer: "integer", jnp.bool_: "bool"}


class Kept(NamedTuple):
    """Boxes that survive, best first: ``indices (m,)`` into the candidates, ``valid (m,)`` says which rows hold one."""

    indices: Int[Array, " m"]
    valid: Bool[Array, " m"]


class _Progress(NamedTuple):
    start: Array  # of the next block
    num_kept: Array
    places: Int[Array, " m"]  # of those, in the order of scores; past the end where none is kept yet


def batched_nms(
    boxes: Float[Array, "n 4"],
    scores: Float[Array, " n"],
    classes: Int[Array, " n"],
    *,
    iou_threshold: float,
    max_outputs: int,
    valid: Bool[Array, " n"] | None = None,
) -> Kept:
    """Greedy non-maximum suppression within each class.

    From the highest score down (of equal scores the first), a box is kept unless its IoU with a kept box of the same
    class exceeds ``iou_threshold``. The outcome is that of the plain loop, exactly; the work is done in blocks of 256
    boxes, and ends as soon as ``max_outputs`` are kept. It works under jit, vmap and ``jax.export``.

    Args:
      boxes: (n, 4), corners ``(x1, y1, x2, y2)``.
      scores: (n,), floating point; NaN comes last.
      classes: (n,), integers.
      iou_threshold: a Python number in [0, 1].
      max_outputs: how many rows the result has, a Python integer >= 1.
      valid: bool (n,); rows where it is False are no candidates. None: all are.

    Returns:
      Indices int32 (max_outputs,) in the order of scores, and which of them count.

    Raises:
      ValueError: for shapes that do not match, or options out of range.

    >>> import jax.numpy as jnp
    >>> boxes = jnp.array([[0.0, 0.0, 10.0, 10.0], [1.0, 0.0, 11.0, 10.0], [1.0, 0.0, 11.0, 10.0]])
    >>> kept = batched_nms(boxes, jnp.array([0.8, 0.9, 0.7]), jnp.array([1, 1, 2]), iou_threshold=0.5, max_outputs=3)
    >>> kept.indices[kept.valid].tolist()
    [1, 2]

    The source is ``torchvision.ops.batched_nms``, its exact loop over the classes.
    """
    candidate = _check(boxes, scores, classes, iou_threshold, max_outputs, valid)
    boxes, scores, classes = map(jnp.asarray, (boxes, scores, classes))
    count = len(boxes)
    block = min(BLOCK, count)
    order = jnp.lexsort((-scores, ~candidate)).astype(jnp.int32)
    padding = -count % block
    order = jnp.pad(order, (0, padding))
    candidate = jnp.pad(candidate[order[:count]], (0, padding))
    boxes, classes = boxes[order], classes[order]
    num_candidates = jnp.sum(candidate, dtype=jnp.int32)
    past_end = len(order)

    def suppresses(above: Array, above_class: Array, box: Array, box_class: Array) -> Array:
        """(above, box): whether the one, if kept, removes the other."""
        too_close = box_iou(above[:, None], box[None]) > _at_most(iou_threshold, box.dtype)
        return too_close & (above_class[:, None] == box_class[None])

    def next_block(progress: _Progress) -> _Progress:
        start, num_kept, places = progress
        box = jax.lax.dynamic_slice_in_dim(boxes, start, block)
        box_class = jax.lax.dynamic_slice_in_dim(classes, start, block)
        alive = jax.lax.dynamic_slice_in_dim(candidate, start, block)
        taken = jnp.minimum(places, past_end - 1)
        by_kept = suppresses(boxes[taken], classes[taken], box, box_class) & (places < past_end)[:, None]
        alive &= ~jnp.any(by_kept, axis=0)
        within = jnp.triu(suppresses(box, box_class, box, box_class), 1)
        kept = _greedy(within, alive)
        slots = jnp.where(kept, num_kept + jnp.cumsum(kept, dtype=jnp.int32) - 1, max_outputs)
        places = places.at[slots].set(start + jnp.arange(block, dtype=jnp.int32), mode="drop")
        return _Progress(start + block, num_kept + jnp.sum(kept, dtype=jnp.int32), places)

    def unfinished(progress: _Progress) -> Array:
        return (progress.start < num_candidates) & (progress.num_kept < max_outputs)

    zero = jnp.zeros((), jnp.int32)
    start = _Progress(zero, zero, jnp.full(max_outputs, past_end, jnp.int32))
    places = jax.lax.while_loop(unfinished, next_block, start).places
    valid = places < past_end
    return Kept(jnp.where(valid, order[jnp.where(valid, places, 0)], 0), valid)


def _greedy(suppresses: Bool[Array, "b b"], alive: Bool[Array, " b"]) -> Bool[Array, " b"]:
    """Which of the boxes, best first, are kept: those that no kept box suppresses.

    Every pass settles all boxes whose suppressors are settled, so it takes as many as the longest chain of boxes, each
    suppressed by the one before; the result is the only one that does not change any more.
    """

    def settle(kept_pair: tuple[Array, Array]) -> tuple[Array, Array]:
        kept, _ = kept_pair
        return alive & ~jnp.any(suppresses & kept[:, None], axis=0), kept

    def changes(kept_pair: tuple[Array, Array]) -> Array:
        return jnp.any(kept_pair[0] != kept_pair[1])

    return jax.lax.while_loop(changes, settle, (alive, jnp.zeros_like(alive)))[0]


def _at_most(threshold: float, dtype: np.dtype) -> np.ndarray:
    """The largest number of ``dtype`` up to ``threshold``: to exceed it is to exceed the threshold itself."""
    rounded = np.asarray(threshold, dtype)
    return np.nextafter(rounded, np.asarray(-np.inf, dtype)) if float(rounded) > threshold else rounded


def _check(
    boxes: Array, scores: Array, classes: Array, iou_threshold: float, max_outputs: int, valid: Array | None
) -> Array:
    """The mask of candidates."""
    check_boxes("boxes", boxes)
    if boxes.ndim != 2 or len(boxes) == 0:
        raise ValueError(f"boxes must have shape (n, 4), n >= 1, got shape {boxes.shape}; use jax.vmap for a batch")
    candidate = jnp.ones(len(boxes), bool) if valid is None else valid
    kinds = (("scores", scores, jnp.floating), ("classes", classes, jnp.integer), ("valid", candidate, jnp.bool_))
    for name, array, kind in kinds:
        check_array(name, array)
        if not jnp.issubdtype(array.dtype, kind):
            raise ValueError(f"{name} must be of {KINDS[kind]} dtype, got dtype {array.dtype}")
        if array.shape != boxes.shape[:1]:
            raise ValueError(f"{name} must have shape {boxes.shape[:1]}, one a box, got shape {array.shape}")
    check_number("iou_threshold", iou_threshold)
    if not 0 <= iou_threshold <= 1:
        raise ValueError(f"iou_threshold must lie in [0, 1], got {iou_threshold}")
    check_whole("max_outputs", max_outputs)
    return jnp.asarray(candidate)
