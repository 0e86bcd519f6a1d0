"""Boxes as deltas from their anchors, which is what the network predicts."""

import math

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .boxes import check_pair

MAX_LOG_SCALE = math.log(1000 / 16)  # beyond it, exp of a wild prediction is held back


def encode_boxes(boxes: Float[Array, "*b 4"], anchors: Float[Array, "*b 4"]) -> Float[Array, "*b 4"]:
    r"""Deltas that lead from anchors to boxes.

    .. math::
        \left(\frac{x - x_a}{w_a}, \frac{y - y_a}{h_a}, \log\frac{w}{w_a}, \log\frac{h}{h_a}\right)

    with (x, y) the centre, w and h the sides of the box, and the same of the anchor with index a.

    Args:
      boxes: corners ``(x1, y1, x2, y2)``, with positive sides.
      anchors: of shapes that broadcast, with as many dimensions and positive sides.

    Returns:
      ``(dx, dy, dw, dh)``.

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> box, anchor = jnp.array([4.0, 0.0, 12.0, 8.0]), jnp.array([0.0, 0.0, 8.0, 8.0])
    >>> print(encode_boxes(box, anchor))
    [0.5 0.  0.  0. ]

    The source is ``torchvision.models.detection._utils.BoxCoder`` with weights (1, 1, 1, 1).
    """
    check_pair("boxes", boxes, "anchors", anchors)
    centre, size = _centre_and_size(boxes)
    anchor_centre, anchor_size = _centre_and_size(anchors)
    return jnp.concatenate([(centre - anchor_centre) / anchor_size, jnp.log(size / anchor_size)], axis=-1)


def decode_boxes(deltas: Float[Array, "*b 4"], anchors: Float[Array, "*b 4"]) -> Float[Array, "*b 4"]:
    r"""Boxes that deltas lead to: the inverse of ``encode_boxes``.

    .. math::
        (x, y, w, h) = \left(x_a + w_a dx,\; y_a + h_a dy,\; w_a e^{dw},\; h_a e^{dh}\right)

    with (x, y) the centre. dw and dh are held at log(1000 / 16) from above; dx and dy are free, and no box is clipped.

    Args:
      deltas: ``(dx, dy, dw, dh)``, floating point.
      anchors: corners, of shapes that broadcast, with as many dimensions.

    Returns:
      Corners ``(x1, y1, x2, y2)``.

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(decode_boxes(jnp.array([0.5, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 8.0, 8.0])))
    [ 4.  0. 12.  8.]

    The source is ``torchvision.models.detection._utils.BoxCoder`` with weights (1, 1, 1, 1).
    """
    check_pair("deltas", deltas, "anchors", anchors)
    anchor_centre, anchor_size = _centre_and_size(anchors.astype(deltas.dtype))
    centre = deltas[..., :2] * anchor_size + anchor_centre
    half = 0.5 * jnp.exp(jnp.minimum(deltas[..., 2:], MAX_LOG_SCALE)) * anchor_size
    return jnp.concatenate([centre - half, centre + half], axis=-1)


def _centre_and_size(boxes: Array) -> tuple[Array, Array]:
    """(x, y) and (width, height)."""
    size = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + 0.5 * size, size
