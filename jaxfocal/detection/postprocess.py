"""From logits and deltas to detections."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array
from jaxtyping import Bool, Float, Int

from .._host import host_values
from ._checks import check_array, check_floating, check_number, check_whole
from .boxes import clip_boxes
from .coder import decode_boxes
from .nms import batched_nms
from .retinanet import RetinaNet, RetinaNetOutputs, check_filled


class Detections(NamedTuple):
    """What is found, best first: rows where ``valid`` is False hold nothing.

    ``boxes (b, m, 4)``, ``scores (b, m)`` in [0, 1], ``labels (b, m)`` int32, ``valid (b, m)`` bool.
    """

    boxes: Float[Array, "b m 4"]
    scores: Float[Array, "b m"]
    labels: Int[Array, "b m"]
    valid: Bool[Array, "b m"]


def detect(
    model: RetinaNet,
    images: Float[Array | np.ndarray, "b h w 3"],
    image_sizes: Int[Array | np.ndarray, "b 2"],
    *,
    score_threshold: float = 0.05,
    iou_threshold: float = 0.5,
    num_candidates: int = 1000,
    max_detections: int = 300,
) -> Detections:
    """Detect objects in a batch of images, in one compiled function a shape.

    The model runs with its running statistics. Under ``jax.jit``, or to save the walk through the model at every call,
    use it inside: ``jax.jit(lambda state, *args: detect(nnx.merge(graphdef, state), *args))``. All of it, suppression
    included, exports by ``jax.export``.

    Args:
      model: a RetinaNet.
      images: normalised and padded, as ``preprocess`` gives them.
      image_sizes: height and width of each image within its padding.
      score_threshold: what a score must exceed.
      iou_threshold: what the IoU with a better box of the same class must exceed for a box to be dropped.
      num_candidates: of each level, how many (anchor, class) pairs come before suppression.
      max_detections: m, of each image.

    Returns:
      ``Detections``, in pixels of ``images``; ``rescale_boxes`` leads to the original ones.

    Raises:
      ValueError: for shapes that do not match, or options out of range.

    Warns:
      UserWarning: where pixels lie so far from normalised ones that they seem to be 0 to 255.

    >>> from jaxfocal.detection.fpn import resnet_fpn
    >>> rngs = nnx.Rngs(0)
    >>> model = RetinaNet(resnet_fpn(18, width=8, out_channels=16, rngs=rngs), num_classes=3, rngs=rngs)
    >>> found = detect(model, jnp.zeros((1, 64, 64, 3)), jnp.array([[60, 64]]))
    >>> found.boxes.shape, int(found.valid.sum())
    ((1, 300, 4), 0)

    The source is ``torchvision.models.detection.RetinaNet.postprocess_detections``.
    """
    if not isinstance(model, RetinaNet):
        raise ValueError(f"model must be a RetinaNet, got {type(model).__name__}")
    _check_options(score_threshold, iou_threshold, num_candidates, max_detections)
    check_array("images", images)
    _warn_of_pixels(images)
    _check_image_sizes(image_sizes, images.shape)
    graphdef, state = nnx.split(model)
    check_filled(state)
    options = (score_threshold, iou_threshold, num_candidates, max_detections)
    return _detect(graphdef, options, state, images, jnp.asarray(image_sizes))


@partial(jax.jit, static_argnums=(0, 1))
def _detect(
    graphdef: nnx.GraphDef, options: tuple[float, float, int, int], state: nnx.State, images: Array, image_sizes: Array
) -> Detections:
    model = nnx.merge(graphdef, state)
    outputs = model(images)
    height, width = images.shape[1:3]
    return postprocess_outputs(
        outputs,
        model.anchors(height, width),
        model.level_sizes(height, width),
        image_sizes,
        score_threshold=options[0],
        iou_threshold=options[1],
        num_candidates=options[2],
        max_detections=options[3],
    )


def postprocess_outputs(
    outputs: RetinaNetOutputs,
    anchors: Float[Array, "a 4"],
    level_sizes: list[int],
    image_sizes: Int[Array, "b 2"],
    *,
    score_threshold: float = 0.05,
    iou_threshold: float = 0.5,
    num_candidates: int = 1000,
    max_detections: int = 300,
) -> Detections:
    """The detections in a model's outputs; see ``detect``.

    Args:
      outputs: of the model.
      anchors: of the model, (a, 4).
      level_sizes: how many anchors each level has; they sum to a.
      image_sizes: (b, 2), height and width of each image within its padding.
      score_threshold: see ``detect``.
      iou_threshold: see ``detect``.
      num_candidates: see ``detect``.
      max_detections: see ``detect``.

    Returns:
      ``Detections``.

    Raises:
      ValueError: for shapes that do not match, or options out of range.

    >>> outputs = RetinaNetOutputs(jnp.array([[[-9.0, 3.0], [-9.0, 2.0]]]), jnp.zeros((1, 2, 4)))
    >>> anchors = jnp.array([[0.0, 0.0, 8.0, 8.0], [0.0, 0.0, 8.0, 7.0]])
    >>> found = postprocess_outputs(outputs, anchors, [2], jnp.array([[6, 6]]), max_detections=2)
    >>> found.boxes[0].tolist(), found.labels[0].tolist(), found.valid[0].tolist()
    ([[0.0, 0.0, 6.0, 6.0], [0.0, 0.0, 0.0, 0.0]], [1, 0], [True, False])
    """
    logits, deltas = outputs
    for name, array in (("cls_logits", logits), ("bbox_regression", deltas), ("anchors", anchors)):
        check_floating(name, array)
    check_array("image_sizes", image_sizes)
    if logits.ndim != 3 or deltas.shape != (*logits.shape[:2], 4):
        raise ValueError(
            f"cls_logits and bbox_regression must have shapes (b, a, k) and (b, a, 4), got {logits.shape} "
            f"and {deltas.shape}"
        )
    if not isinstance(level_sizes, list | tuple):
        raise ValueError(f"level_sizes must be a list, how many anchors each level has, got {level_sizes!r}")
    for size in level_sizes:
        check_whole("level_sizes", size)
    if anchors.shape != (logits.shape[1], 4) or sum(level_sizes) != logits.shape[1]:
        raise ValueError(
            f"anchors {anchors.shape} and level_sizes {level_sizes} must fit the {logits.shape[1]} rows of the outputs"
        )
    if image_sizes.shape != (logits.shape[0], 2):
        raise ValueError(f"image_sizes must have shape {(logits.shape[0], 2)}, got {image_sizes.shape}")
    _check_options(score_threshold, iou_threshold, num_candidates, max_detections)
    dtype = jnp.promote_types(logits.dtype, jnp.float32)
    splits = np.cumsum(level_sizes)[:-1].tolist()

    def one_image(logits: Array, deltas: Array, size: Array) -> Detections:
        levels = zip(*(jnp.split(array, splits) for array in (logits, deltas, anchors)), strict=True)
        found = [_candidates(*level, count=num_candidates) for level in levels]
        boxes, scores, labels = (jnp.concatenate(parts) for parts in zip(*found, strict=True))
        boxes = clip_boxes(boxes, size[0], size[1])
        kept, valid = batched_nms(
            boxes,
            scores,
            labels,
            iou_threshold=iou_threshold,
            max_outputs=max_detections,
            valid=scores > jnp.asarray(score_threshold, dtype),
        )
        return Detections(
            jnp.where(valid[:, None], boxes[kept], 0),
            jnp.where(valid, scores[kept], 0),
            jnp.where(valid, labels[kept], 0),
            valid,
        )

    return jax.vmap(one_image)(logits.astype(dtype), deltas.astype(dtype), image_sizes)


def _check_options(score_threshold: float, iou_threshold: float, num_candidates: int, max_detections: int) -> None:
    check_number("score_threshold", score_threshold)
    if not 0 <= score_threshold < 1:
        raise ValueError(f"score_threshold must lie in [0, 1), got {score_threshold}")
    check_number("iou_threshold", iou_threshold)  # batched_nms checks its range
    check_whole("num_candidates", num_candidates)
    check_whole("max_detections", max_detections)


def _warn_of_pixels(images: Any) -> None:
    """A warning where they can be seen and are too large for normalised ones, which end at (1 - mean) / std < 3."""
    known = host_values(images)
    if known is None or known.size == 0 or not (highest := float(np.max(known))) > 20:
        return
    warnings.warn(
        f"images are expected normalised, as preprocess gives them, got pixels up to {highest:g}: are they 0 to 255?",
        stacklevel=3,
    )


def _check_image_sizes(image_sizes: Any, images_shape: tuple[int, ...]) -> None:
    """Their shape; and where they can be seen, that they lie within the padded images."""
    known = host_values(image_sizes)
    dtype, shape = (image_sizes if known is None else known).dtype, np.shape(image_sizes)
    if not (jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)):
        raise ValueError(f"image_sizes must be heights and widths in pixels, got dtype {dtype}")
    if len(images_shape) != 4:
        return  # the model says it
    if shape != (images_shape[0], 2):
        raise ValueError(f"image_sizes must have shape {(images_shape[0], 2)}, got {shape}")
    if known is None or not all(isinstance(n, int) for n in images_shape):
        return
    bad = ~((known >= 1) & (known <= np.array(images_shape[1:3]))).all(axis=1)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"image_sizes must be heights and widths within those of images, {tuple(images_shape[1:3])}, "
            f"got {known[i].tolist()} for image {i}"
        )


def _candidates(
    logits: Float[Array, "a k"], deltas: Float[Array, "a 4"], anchors: Float[Array, "a 4"], *, count: int
) -> tuple[Array, Array, Array]:
    """Boxes, scores and labels of the (anchor, class) pairs of highest score.

    They lie among the classes of the ``count`` anchors whose best class scores highest, which are found first: there
    are many fewer anchors than pairs.
    """
    num_anchors, num_classes = logits.shape
    _, best = jax.lax.top_k(jnp.max(logits, axis=-1), min(count, num_anchors))
    best = jnp.sort(best)  # so that of equal scores the first anchor comes first
    scores = jax.nn.sigmoid(logits[best])  # (count, k)
    scores, pairs = jax.lax.top_k(scores.ravel(), min(count, scores.size))
    anchor = best[pairs // num_classes]
    labels = (pairs % num_classes).astype(jnp.int32)
    return decode_boxes(deltas[anchor], anchors[anchor]), scores, labels
