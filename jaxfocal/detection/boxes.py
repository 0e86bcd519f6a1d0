"""Boxes as corners ``(x1, y1, x2, y2)``: areas, overlaps, and the losses made of overlaps."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ._checks import check_floating

EPS = 1e-7  # torchvision's, in the denominators of the losses


def box_area(boxes: Float[Array, "*b 4"]) -> Float[Array, "*b"]:
    """Area of each box, ``(x2 - x1)(y2 - y1)``; 0 where a side is not positive.

    Args:
      boxes: floating point, corners ``(x1, y1, x2, y2)``.

    Returns:
      Of the shape of ``boxes`` without the last dimension.

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(box_area(jnp.array([[0.0, 0.0, 4.0, 3.0], [5.0, 5.0, 5.0, 9.0]])))
    [12.  0.]

    The source is ``torchvision.ops.box_area``, but for boxes whose corners are swapped.
    """
    check_boxes("boxes", boxes)
    return _product(boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1])


def box_iou(boxes1: Float[Array, "*b 4"], boxes2: Float[Array, "*b 4"]) -> Float[Array, "*b"]:
    """Intersection over union, box by box: ``inter / (area1 + area2 - inter)``, each operation rounded, in that order.

    Anchors that overlap a box equally are told apart, or not, by the last bit of this number, so every overlap in this
    package is computed here.

    Args:
      boxes1: corners ``(x1, y1, x2, y2)``.
      boxes2: of shapes that broadcast, with as many dimensions.

    Returns:
      In [0, 1]; 0 for two boxes without area.

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(box_iou(jnp.array([0.0, 0.0, 2.0, 2.0]), jnp.array([1.0, 0.0, 3.0, 2.0])))
    0.33333334
    """
    check_pair("boxes1", boxes1, "boxes2", boxes2)
    inter, union = _inter_union(boxes1, boxes2)
    return jnp.where(union == 0, 0, inter / jnp.where(union == 0, 1, union))


def pairwise_iou(boxes1: Float[Array, "n 4"], boxes2: Float[Array, "m 4"]) -> Float[Array, "n m"]:
    """Intersection over union of every box with every other.

    Args:
      boxes1: (n, 4), corners ``(x1, y1, x2, y2)``.
      boxes2: (m, 4).

    Returns:
      (n, m), bit for bit ``torchvision.ops.box_iou``; 0 for two boxes without area, where that has NaN.

    Raises:
      ValueError: for boxes of another shape.

    >>> import jax.numpy as jnp
    >>> boxes = jnp.array([[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0], [8.0, 8.0, 9.0, 9.0]])
    >>> with jnp.printoptions(precision=3):
    ...     print(pairwise_iou(boxes, boxes))
    [[1.    0.333 0.   ]
     [0.333 1.    0.   ]
     [0.    0.    1.   ]]
    """
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        check_boxes(name, boxes)
        if boxes.ndim != 2:
            raise ValueError(f"{name} must have shape (n, 4), got shape {boxes.shape}; use jax.vmap for a batch")
    return box_iou(boxes1[:, None], boxes2[None])


def giou_loss(boxes1: Float[Array, "*b 4"], boxes2: Float[Array, "*b 4"]) -> Float[Array, "*b"]:
    r"""Generalised IoU loss: one minus IoU, plus the part of the enclosing box that neither covers.

    .. math:: 1 - \frac{I}{U + \epsilon} + \frac{C - U}{C + \epsilon}, \qquad \epsilon = 10^{-7}

    with I, U and C the areas of intersection, union and enclosing box. The gradient is autograd's.

    Args:
      boxes1: corners ``(x1, y1, x2, y2)``.
      boxes2: of the same shape.

    Returns:
      Of the shape of the boxes without the last dimension, in [0, 2].

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(giou_loss(jnp.array([0.0, 0.0, 2.0, 2.0]), jnp.array([2.0, 0.0, 4.0, 2.0])))
    1.0

    References:
      Rezatofighi, Tsoi, Gwak, Sadeghian, Reid, Savarese, "Generalized Intersection over Union", 2019,
      https://arxiv.org/abs/1902.09630
    """
    check_pair("boxes1", boxes1, "boxes2", boxes2)
    inter, union = _inter_union(boxes1, boxes2)
    width, height = _enclosing(boxes1, boxes2)
    enclosing = width * height
    return 1 - inter / (union + EPS) + (enclosing - union) / (enclosing + EPS)


def diou_loss(boxes1: Float[Array, "*b 4"], boxes2: Float[Array, "*b 4"]) -> Float[Array, "*b"]:
    r"""Distance IoU loss: one minus IoU, plus how far the centres are apart.

    .. math:: 1 - \frac{I}{U + \epsilon} + \frac{\rho^2}{d^2 + \epsilon}, \qquad \epsilon = 10^{-7}

    with rho the distance of the centres and d the diagonal of the enclosing box. The gradient is autograd's.

    Args:
      boxes1: corners ``(x1, y1, x2, y2)``.
      boxes2: of the same shape.

    Returns:
      Of the shape of the boxes without the last dimension, in [0, 2].

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(diou_loss(jnp.array([0.0, 0.0, 2.0, 2.0]), jnp.array([0.0, 0.0, 2.0, 2.0])))
    0.0

    References:
      Zheng, Wang, Liu, Li, Ye, Ren, "Distance-IoU Loss", 2019, https://arxiv.org/abs/1911.08287
    """
    loss, _ = _diou(boxes1, boxes2)
    return loss


def ciou_loss(boxes1: Float[Array, "*b 4"], boxes2: Float[Array, "*b 4"]) -> Float[Array, "*b"]:
    r"""Complete IoU loss: the distance IoU loss, plus how much the aspect ratios differ.

    .. math::
        DIoU + \alpha v, \qquad v = \frac{4}{\pi^2} \left(\arctan\frac{w_2}{h_2} - \arctan\frac{w_1}{h_1}\right)^2,
        \qquad \alpha = \frac{v}{1 - \frac{I}{U + \epsilon} + v + \epsilon}

    alpha is a constant to the gradient, which else is autograd's.

    Args:
      boxes1: corners ``(x1, y1, x2, y2)``.
      boxes2: of the same shape.

    Returns:
      Of the shape of the boxes without the last dimension.

    Raises:
      ValueError: where the last dimension is not 4.

    >>> import jax.numpy as jnp
    >>> print(ciou_loss(jnp.array([0.0, 0.0, 2.0, 2.0]), jnp.array([0.0, 0.0, 2.0, 2.0])))
    0.0

    References:
      Zheng, Wang, Liu, Li, Ye, Ren, "Distance-IoU Loss", 2019, https://arxiv.org/abs/1911.08287
    """
    loss, iou = _diou(boxes1, boxes2)
    v = 4 / math.pi**2 * jnp.square(_angle(boxes2) - _angle(boxes1))
    alpha = jax.lax.stop_gradient(v / (1 - iou + v + EPS))
    return loss + alpha * v


def clip_boxes(boxes: Float[Array, "*b 4"], height: Array | float, width: Array | float) -> Float[Array, "*b 4"]:
    """Boxes cut off at the borders of an image.

    Args:
      boxes: corners ``(x1, y1, x2, y2)``.
      height: of the image, a scalar.
      width: of the image, a scalar.

    Returns:
      Boxes within ``(0, 0, width, height)``; one that lies outside has no area.

    Raises:
      ValueError: where the last dimension is not 4, or a height or width is no scalar.

    >>> import jax.numpy as jnp
    >>> print(clip_boxes(jnp.array([[-3.0, 2.0, 50.0, 9.0]]), 8, 20))
    [[ 0.  2. 20.  8.]]
    """
    check_boxes("boxes", boxes)
    for name, side in (("height", height), ("width", width)):
        if np.ndim(side) != 0:
            raise ValueError(f"{name} must be a scalar, got shape {np.shape(side)}")
    width, height = jnp.asarray(width, boxes.dtype), jnp.asarray(height, boxes.dtype)
    limits = jnp.stack([width, height, width, height])
    return jnp.clip(boxes, 0, limits.reshape((1,) * (boxes.ndim - 1) + (4,)))


def check_boxes(name: str, boxes: Array) -> None:
    """ValueError unless ``boxes`` are floating point and have four numbers each."""
    check_floating(name, boxes)
    if boxes.ndim < 1 or boxes.shape[-1] != 4:
        raise ValueError(f"{name} must hold x1, y1, x2, y2 along the last dimension, got shape {boxes.shape}")


def check_pair(name1: str, boxes1: Array, name2: str, boxes2: Array) -> None:
    """ValueError unless both are boxes, of shapes that broadcast."""
    check_boxes(name1, boxes1)
    check_boxes(name2, boxes2)
    sides = zip(reversed(boxes1.shape), reversed(boxes2.shape), strict=False)
    if any(a != b and 1 not in (a, b) for a, b in sides):
        raise ValueError(f"{name1} and {name2} must broadcast, got shapes {boxes1.shape} and {boxes2.shape}")


def well_formed(boxes: Any) -> Any:
    """Which boxes ``(*b, 4)`` are finite and have an area, in numpy for numpy arrays."""
    numpy = np if isinstance(boxes, np.ndarray) else jnp
    has_area = (boxes[..., 2] > boxes[..., 0]) & (boxes[..., 3] > boxes[..., 1])
    return has_area & numpy.all(numpy.isfinite(boxes), axis=-1)


def _product(width: Array, height: Array) -> Array:
    """``width * height``, or 0 where one of them is not positive.

    The choice also keeps the compiler from fusing the product into a later sum, which would round once where PyTorch
    rounds twice.
    """
    return jnp.where((width <= 0) | (height <= 0), 0, width * height)


def _inter_union(boxes1: Array, boxes2: Array) -> tuple[Array, Array]:
    width = jnp.minimum(boxes1[..., 2], boxes2[..., 2]) - jnp.maximum(boxes1[..., 0], boxes2[..., 0])
    height = jnp.minimum(boxes1[..., 3], boxes2[..., 3]) - jnp.maximum(boxes1[..., 1], boxes2[..., 1])
    inter = _product(width, height)
    return inter, box_area(boxes1) + box_area(boxes2) - inter


def _enclosing(boxes1: Array, boxes2: Array) -> tuple[Array, Array]:
    """Width and height of the smallest box around both."""
    width = jnp.maximum(boxes1[..., 2], boxes2[..., 2]) - jnp.minimum(boxes1[..., 0], boxes2[..., 0])
    height = jnp.maximum(boxes1[..., 3], boxes2[..., 3]) - jnp.minimum(boxes1[..., 1], boxes2[..., 1])
    return width, height


def _angle(boxes: Array) -> Array:
    """arctan(width / height); 0, and a gradient, for a box that has shrunk to a point."""
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    # the slope is divided by width**2 + height**2, which must not underflow
    shrunk = jnp.maximum(jnp.abs(width), jnp.abs(height)) ** 2 < jnp.finfo(boxes.dtype).tiny
    return jnp.arctan2(width, jnp.where(shrunk, 1, height))


def _diou(boxes1: Array, boxes2: Array) -> tuple[Array, Array]:
    check_pair("boxes1", boxes1, "boxes2", boxes2)
    inter, union = _inter_union(boxes1, boxes2)
    iou = inter / (union + EPS)
    width, height = _enclosing(boxes1, boxes2)
    apart_x = (boxes1[..., 2] + boxes1[..., 0] - boxes2[..., 0] - boxes2[..., 2]) / 2
    apart_y = (boxes1[..., 3] + boxes1[..., 1] - boxes2[..., 1] - boxes2[..., 3]) / 2
    distance = (apart_x**2 + apart_y**2) / (width**2 + height**2 + EPS)
    return 1 - iou + distance, iou
