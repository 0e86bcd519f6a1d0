"""Which box each anchor is to find."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from ._checks import check_array, check_number
from .boxes import box_iou, check_boxes

_Best = tuple[Array, Array, Array]  # of each anchor: highest IoU, its box, whether the anchor is some box's nearest

BACKGROUND = -1
IGNORED = -2


def match_anchors(
    anchors: Float[Array, "a 4"],
    boxes: Float[Array, "g 4"],
    valid: Bool[Array, " g"],
    *,
    foreground_iou: float = 0.5,
    background_iou: float = 0.4,
) -> Int[Array, " a"]:
    """The box that each anchor is to find, or that it is background, or ignored.

    An anchor belongs to the box that it overlaps most (the first of equals) where that overlap, the IoU, reaches
    ``foreground_iou``; below ``background_iou`` it is background, between the two it is ignored. So that no box goes
    without, every anchor whose IoU with a box is exactly that box's maximum also gets the box that the anchor itself
    overlaps most, however little.

    A box that overlaps no anchor, and a row of padding, match nothing. (In torchvision a box outside the image turns
    all anchors that overlap nothing into positives.)

    Boxes are looked at one after the other, so memory is a few numbers an anchor, never the matrix of all IoUs. It has
    no gradient.

    Args:
      anchors: (a, 4), corners ``(x1, y1, x2, y2)``.
      boxes: (g, 4), padded to a fixed number of rows.
      valid: bool (g,), False for rows of padding; their values do not matter.
      foreground_iou: the least IoU of a match.
      background_iou: the IoU below which an anchor is background, at most ``foreground_iou``.

    Returns:
      int32 (a,): an index into ``boxes``, -1 for background, -2 for ignored.

    Raises:
      ValueError: for shapes that do not match, or thresholds in the wrong order.

    >>> import jax.numpy as jnp
    >>> anchors = jnp.array([[0.0, 0.0, 10.0, 10.0], [4.0, 0.0, 14.0, 10.0], [50.0, 50.0, 60.0, 60.0]])
    >>> boxes = jnp.array([[0.0, 0.0, 10.0, 10.0], [-1.0, -1.0, -1.0, -1.0]])
    >>> print(match_anchors(anchors, boxes, jnp.array([True, False])))
    [ 0 -2 -1]

    The source is ``torchvision.models.detection._utils.Matcher`` with low-quality matches.
    """
    _check(anchors, boxes, valid, foreground_iou, background_iou)
    anchors, boxes = jax.lax.stop_gradient((anchors, boxes.astype(anchors.dtype)))

    def look_at(best: _Best, box: tuple[Array, Array, Array]) -> tuple[_Best, None]:
        best_iou, best_index, is_nearest = best
        index, corners, is_box = box
        iou = jnp.where(is_box, box_iou(anchors, corners[None]), 0)
        highest = jnp.max(iou)
        better = iou > best_iou
        nearest = is_nearest | ((iou == highest) & (highest > 0))
        return (jnp.where(better, iou, best_iou), jnp.where(better, index, best_index), nearest), None

    count = len(anchors)
    # derived from the anchors, so that where they are sharded the loop carries them sharded
    start = (0 * anchors[:, 0], jnp.zeros(count, jnp.int32), jnp.zeros(count, bool))
    each = (jnp.arange(len(boxes), dtype=jnp.int32), boxes, valid)
    (best_iou, best_index, is_nearest), _ = jax.lax.scan(look_at, start, each)
    unmatched = jnp.where(best_iou < background_iou, BACKGROUND, IGNORED)
    return jnp.where((best_iou >= foreground_iou) | is_nearest, best_index, unmatched)


def _check(anchors: Array, boxes: Array, valid: Array, foreground_iou: float, background_iou: float) -> None:
    for name, array in (("anchors", anchors), ("boxes", boxes)):
        check_boxes(name, array)
        if array.ndim != 2:
            raise ValueError(f"{name} must have shape (n, 4), got shape {array.shape}; use jax.vmap for a batch")
    if len(anchors) == 0:
        raise ValueError(f"anchors must have at least one row, got shape {anchors.shape}")
    check_array("valid", valid)
    check_number("foreground_iou", foreground_iou)
    check_number("background_iou", background_iou)
    if valid.shape != boxes.shape[:1] or valid.dtype != jnp.bool_:
        raise ValueError(
            f"valid must be bool of shape {boxes.shape[:1]}, as boxes has rows, got {valid.dtype} {valid.shape}"
        )
    if not 0 < background_iou <= foreground_iou <= 1:
        raise ValueError(
            f"0 < background_iou <= foreground_iou <= 1 must hold, got {background_iou} and {foreground_iou}"
        )
