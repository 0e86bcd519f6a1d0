"""What a RetinaNet is trained on."""

from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from .._host import host_values
from ..losses import sigmoid_focal_loss
from ._checks import check_array, check_floating
from .boxes import ciou_loss, diou_loss, giou_loss, well_formed
from .coder import decode_boxes, encode_boxes
from .matcher import IGNORED, match_anchors
from .retinanet import RetinaNetOutputs, check_box_loss

OVERLAP_LOSSES = {"giou": giou_loss, "diou": diou_loss, "ciou": ciou_loss}
Losses = dict[str, Float[Array, ""]]


class ClassificationLoss(Protocol):
    """Logits and labels of one image in, one number out."""

    def __call__(
        self, logits: Float[Array, "a k"], labels: Int[Array, "a k"], /, *, where: Bool[Array, "a 1"], normalizer: Array
    ) -> Float[Array, ""]:
        """``labels`` are 0 or 1, ``where`` is False at ignored anchors, ``normalizer`` counts the positive ones."""


retinanet_focal_loss = partial(sigmoid_focal_loss, gamma=2.0, alpha=0.25, reduction="sum")


def retinanet_loss(
    outputs: RetinaNetOutputs,
    anchors: Float[Array, "a 4"],
    boxes: Float[Array, "b g 4"],
    labels: Int[Array, "b g"],
    valid: Bool[Array, "b g"],
    *,
    classification_loss: ClassificationLoss = retinanet_focal_loss,
    box_loss: str = "l1",
) -> Losses:
    r"""The two losses of a RetinaNet: what is at the anchors, and where exactly.

    .. math::
        \frac{1}{B} \sum_{i=1}^{B} \frac{1}{\max(1, |P_i|)} \sum_{a \in K_i} FL(x_{ia}, y_{ia})
        \qquad\text{and}\qquad
        \frac{1}{B} \sum_{i=1}^{B} \frac{1}{\max(1, |P_i|)} \sum_{a \in P_i} L_{box}(d_{ia}, b_{ia})

    Anchors are matched to the boxes of their image (``match_anchors``): P are the positive ones, each with its box b,
    K those that are not ignored. x are logits, d deltas; y is 1 at the label of a positive anchor, else 0. Gradients
    are those of the parts; matches have none.

    Any loss of yes-or-no labels is a ``classification_loss`` once its options are set, as in
    ``partial(sigmoid_focal_loss, gamma=0.0, alpha=0.25, reduction="sum")`` (balanced cross-entropy). A loss of classes
    takes ``jnp.argmax(labels, -1)``, where channel 0 is the background; OHEM makes its own ``where``.

    Args:
      outputs: of the model.
      anchors: (a, 4), of the model for these images.
      boxes: (b, g, 4), corners in pixels of the padded images, padded to g rows.
      labels: (b, g), integers in [0, k).
      valid: bool (b, g), False for rows of padding.
      classification_loss: called once an image, under ``jax.vmap``, with logits (a, k), labels in {0, 1} (a, k),
        ``where`` (a, 1) and ``normalizer``; returns a scalar.
      box_loss: "l1", "smooth_l1" (beta 1), both of deltas, or "giou", "diou", "ciou", of boxes.

    Returns:
      ``{"classification": ..., "bbox_regression": ...}``, scalars in float32 (float64 for float64 outputs).

    Raises:
      ValueError: for shapes that do not match; boxes or anchors that are not finite or have x2 <= x1 or y2 <= y1, or
        labels out of range, where they lie in host memory. Boxes and labels that are traced, or held by an accelerator,
        make both losses and their gradients NaN instead.

    >>> import jax.numpy as jnp
    >>> anchors = jnp.array([[0.0, 0.0, 8.0, 8.0], [20.0, 20.0, 28.0, 28.0]])
    >>> outputs = RetinaNetOutputs(jnp.zeros((1, 2, 3)), jnp.zeros((1, 2, 4)))
    >>> boxes = jnp.array([[[0.0, 0.0, 8.0, 8.0]]])
    >>> losses = retinanet_loss(outputs, anchors, boxes, jnp.array([[2]]), jnp.array([[True]]))
    >>> {name: round(float(loss), 4) for name, loss in losses.items()}
    {'bbox_regression': 0.0, 'classification': 0.6931}

    The source is ``torchvision.models.detection.RetinaNet.compute_loss``.
    """
    _check(outputs, anchors, boxes, labels, valid, classification_loss, box_loss)
    one_image = partial(_image_loss, classification_loss, box_loss, jnp.asarray(anchors))
    losses = jax.vmap(one_image)(*map(jnp.asarray, (*outputs, boxes, labels, valid)))
    return {name: jnp.mean(loss) for name, loss in losses.items()}


def _image_loss(
    classification_loss: ClassificationLoss,
    box_loss: str,
    anchors: Float[Array, "a 4"],
    logits: Float[Array, "a k"],
    deltas: Float[Array, "a 4"],
    boxes: Float[Array, "g 4"],
    labels: Int[Array, " g"],
    valid: Bool[Array, " g"],
) -> Losses:
    dtype = jnp.promote_types(deltas.dtype, jnp.float32)
    deltas, anchors, boxes = deltas.astype(dtype), anchors.astype(dtype), boxes.astype(dtype)
    num_classes = logits.shape[-1]
    matches = match_anchors(anchors, boxes, valid)
    positive = matches >= 0
    count = jnp.sum(positive, dtype=jnp.int32)
    matched = jnp.maximum(matches, 0)
    if len(labels) == 0:  # an image without a row: nothing to look up
        boxes, labels, valid = jnp.zeros((1, 4), dtype), jnp.zeros(1, jnp.int32), jnp.zeros(1, bool)
    label = jnp.where(positive, labels.astype(jnp.int32)[matched], -1)
    one_hot = (label[:, None] == jnp.arange(num_classes, dtype=jnp.int32)[None]).astype(jnp.int8)
    kept = (matches != IGNORED)[:, None]
    classification = classification_loss(logits, one_hot, where=kept, normalizer=count)
    if not isinstance(classification, jax.Array) or classification.shape != ():
        got = getattr(classification, "shape", type(classification).__name__)
        raise ValueError(f"classification_loss must return one number an image, got {got}; set its reduction to 'sum'")
    target = jnp.where(positive[:, None], boxes[matched], anchors)  # deltas of 0 where there is none
    predicted = jnp.where(positive[:, None], deltas, 0)
    regression = jnp.sum(_box_loss(box_loss, predicted, target, anchors), where=positive)
    bad = jnp.any(valid & _is_bad(boxes, labels, num_classes))
    poison = jnp.where(bad, jnp.nan, 1).astype(dtype)
    return {
        "classification": classification * poison.astype(classification.dtype),
        "bbox_regression": regression / jnp.maximum(count, 1).astype(dtype) * poison,
    }


def _box_loss(name: str, deltas: Array, boxes: Array, anchors: Array) -> Float[Array, " a"]:
    if name in OVERLAP_LOSSES:
        return OVERLAP_LOSSES[name](decode_boxes(deltas, anchors), boxes)
    difference = jnp.abs(deltas - encode_boxes(boxes, anchors))
    if name == "smooth_l1":
        difference = jnp.where(difference < 1, 0.5 * difference**2, difference - 0.5)
    return jnp.sum(difference, axis=-1)


def _is_bad(boxes: Any, labels: Any, num_classes: int) -> Any:
    return ~well_formed(boxes) | (labels < 0) | (labels >= num_classes)


def check_losses(classification_loss: Any, box_loss: Any) -> None:
    """ValueError for a classification loss that is no function, or an unknown box loss."""
    check_box_loss(box_loss)
    if not callable(classification_loss):
        raise ValueError(f"classification_loss must be a function, got {classification_loss!r}")


def _check(
    outputs: RetinaNetOutputs,
    anchors: Array,
    boxes: Array,
    labels: Array,
    valid: Array,
    classification_loss: ClassificationLoss,
    box_loss: str,
) -> None:
    if not isinstance(outputs, tuple) or len(outputs) != 2:
        raise ValueError(f"outputs must be RetinaNetOutputs, got {type(outputs).__name__}")
    logits, deltas = outputs
    for name, array in (("cls_logits", logits), ("bbox_regression", deltas), ("anchors", anchors)):
        check_floating(name, array)
    for name, array in (("boxes", boxes), ("labels", labels), ("valid", valid)):
        check_array(name, array)
    if logits.ndim != 3 or 0 in logits.shape:
        raise ValueError(f"cls_logits must have shape (batch, anchors, classes), got {logits.shape}")
    batch, count, num_classes = logits.shape
    if deltas.shape != (batch, count, 4):
        raise ValueError(f"bbox_regression must have shape {(batch, count, 4)}, as cls_logits, got {deltas.shape}")
    if anchors.shape != (count, 4):
        raise ValueError(
            f"anchors must have shape {(count, 4)}, one for each row of the outputs, got {anchors.shape}; "
            "model.anchors(height, width) makes them from the size of the padded images"
        )
    if boxes.ndim != 3 or boxes.shape[0] != batch or boxes.shape[-1] != 4:
        raise ValueError(f"boxes must have shape ({batch}, rows, 4), as there are images, got {boxes.shape}")
    if not jnp.issubdtype(boxes.dtype, jnp.floating):
        raise ValueError(f"boxes must be floating point, got dtype {boxes.dtype}")
    if labels.shape != boxes.shape[:2] or not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(f"labels must be integers of shape {boxes.shape[:2]}, got {labels.dtype} {labels.shape}")
    if valid.shape != boxes.shape[:2] or valid.dtype != jnp.bool_:
        raise ValueError(f"valid must be bool of shape {boxes.shape[:2]}, got {valid.dtype} {valid.shape}")
    check_losses(classification_loss, box_loss)
    known_anchors = host_values(anchors)
    if known_anchors is not None and not (good := well_formed(known_anchors)).all():
        row = int(np.argmin(good))
        raise ValueError(
            f"anchors must be finite with x1 < x2 and y1 < y2, got {known_anchors[row].tolist()} at row {row}"
        )
    known_boxes, known_labels, known_valid = map(host_values, (boxes, labels, valid))
    if known_boxes is None or known_labels is None or known_valid is None:
        return
    bad = np.argwhere(known_valid & _is_bad(known_boxes, known_labels, num_classes))
    if len(bad):
        image, row = bad[0]
        raise ValueError(
            f"boxes must be finite with x1 < x2 and y1 < y2, and labels in [0, {num_classes}), "
            f"got box {known_boxes[image, row].tolist()} with label {known_labels[image, row]} "
            f"at row {row} of image {image}"
        )
