"""Images and boxes as the model takes them, made on the host with numpy: nothing here compiles."""

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ._checks import check_size, check_whole
from .boxes import check_boxes, well_formed

MEAN = (0.485, 0.456, 0.406)  # ImageNet's
STD = (0.229, 0.224, 0.225)
STRIDE = 32

Size = tuple[int, int]  # height, width


class ImageBatch(NamedTuple):
    """``images (b, h, w, 3)``, normalised and padded, and ``image_sizes (b, 2)``, the heights and widths inside."""

    images: np.ndarray
    image_sizes: np.ndarray


class PaddedBoxes(NamedTuple):
    """``boxes (b, g, 4)``, ``labels (b, g)`` int32 and ``valid (b, g)``, which is False for rows of padding."""

    boxes: np.ndarray
    labels: np.ndarray
    valid: np.ndarray


def preprocess(
    images: Sequence[np.ndarray],
    *,
    min_size: int = 800,
    max_size: int = 1333,
    buckets: Sequence[Size] | None = None,
) -> ImageBatch:
    """Normalise, resize and pad images, as ``torchvision.models.detection.transform.GeneralizedRCNNTransform`` does.

    Each image is scaled so that its shorter side has ``min_size`` pixels, or less where its longer side would have more
    than ``max_size``: bilinear, without antialiasing. The batch is padded with 0 at the bottom and on the right.

    Args:
      images: each (height, width, 3), floating point in [0, 1], of any size.
      min_size: of the shorter side.
      max_size: the most the longer side may have.
      buckets: padded sizes to choose from; the smallest that holds all images of the batch is taken, so that what is
        compiled for one batch serves others (``shape_buckets`` makes a set). None: the size of the largest image,
        rounded up to multiples of 32, as torchvision does.

    Returns:
      ``ImageBatch``, numpy arrays in float32 (float64 where an image comes so).

    Raises:
      ValueError: for images of another rank or dtype, pixels that are not finite, an empty batch, sizes that are none,
        or a batch that no bucket holds.

    Warns:
      UserWarning: where pixels lie so far outside [0, 1] that they seem to be 0 to 255, or normalised.

    >>> batch = preprocess([np.zeros((48, 64, 3), np.float32)], min_size=96, max_size=200)
    >>> batch.images.shape, batch.image_sizes.tolist()
    ((1, 96, 128, 3), [[96, 128]])
    """
    if not isinstance(images, Sequence | np.ndarray | jax.Array) or isinstance(images, str):
        raise ValueError(f"images must be a list of arrays, got {type(images).__name__}")
    check_whole("min_size", min_size)
    check_whole("max_size", max_size, least=min_size)
    images = [np.asarray(image) for image in images]
    if not images:
        raise ValueError("images must hold at least one image, got none")
    for i, image in enumerate(images):
        _check_image(i, image)
    dtype = np.result_type(np.float32, *(image.dtype for image in images if image.dtype.itemsize > 4))
    images = [image.astype(dtype, copy=False) for image in images]
    resized = [_resize(_normalize(image), resized_size(image.shape[:2], min_size, max_size)) for image in images]
    sizes = np.array([image.shape[:2] for image in resized], np.int32)
    height, width = _padded_size(tuple(sizes.max(axis=0).tolist()), buckets)
    batch = np.zeros((len(images), height, width, 3), dtype)
    for target, image in zip(batch, resized, strict=True):
        target[: image.shape[0], : image.shape[1]] = image
    return ImageBatch(batch, sizes)


def resized_size(size: Size, min_size: int = 800, max_size: int = 1333) -> Size:
    """Height and width that ``preprocess`` scales an image of height and width ``size`` to.

    >>> resized_size((427, 640))
    (800, 1199)
    """
    size = check_size("size", size)
    scale = min(min_size / min(size), max_size / max(size))
    return math.floor(size[0] * scale), math.floor(size[1] * scale)


def shape_buckets(min_size: int = 800, max_size: int = 1333) -> list[Size]:
    """Six padded sizes that hold every batch ``preprocess`` makes: square, two lengths of either orientation, and both.

    The last is for batches of landscapes and portraits; batches of one orientation need less padding.

    Args:
      min_size: of the shorter side.
      max_size: of the longer side.

    Returns:
      Heights and widths, multiples of 32.

    >>> shape_buckets()
    [(800, 800), (800, 1088), (1088, 800), (800, 1344), (1344, 800), (1344, 1344)]
    """
    check_whole("min_size", min_size)
    check_whole("max_size", max_size, least=min_size)
    short, long = _round_up(min_size), _round_up(max_size)
    middle = _round_up((min_size + max_size) // 2)
    sizes = [(short, short), (short, middle), (middle, short), (short, long), (long, short), (long, long)]
    return list(dict.fromkeys(sizes))


def rescale_boxes(boxes: Float[Array, "*b 4"], old_size: Size, new_size: Size) -> Float[Array, "*b 4"]:
    """Boxes of an image after it is scaled from ``old_size`` to ``new_size``, each height and width.

    Args:
      boxes: corners ``(x1, y1, x2, y2)``.
      old_size: of the image that they lie in.
      new_size: of the scaled image.

    Returns:
      Corners; the ratios are computed in float32, as torchvision does.

    Raises:
      ValueError: where the last dimension is not 4, or a size is none.

    >>> print(rescale_boxes(np.array([2.0, 2.0, 4.0, 8.0]), (10, 10), (20, 5)))
    [ 1.  4.  2. 16.]
    """
    check_boxes("boxes", boxes)
    old_size, new_size = check_size("old_size", old_size), check_size("new_size", new_size)
    height, width = np.asarray(new_size, np.float32) / np.asarray(old_size, np.float32)
    return boxes * np.stack([width, height, width, height]).astype(boxes.dtype).reshape((1,) * (boxes.ndim - 1) + (4,))


def pad_boxes(boxes: Sequence[np.ndarray], labels: Sequence[np.ndarray], max_boxes: int) -> PaddedBoxes:
    """The boxes of a batch in arrays of a fixed number of rows.

    Args:
      boxes: of each image (n, 4), corners; n may be 0 and differ from image to image.
      labels: of each image (n,), integers.
      max_boxes: g, rows of the result.

    Returns:
      ``PaddedBoxes``, numpy arrays, boxes in float32 (float64 where they come so).

    Raises:
      ValueError: for more boxes than rows, shapes that do not match, boxes that are not finite or without area, or
        labels that are no integers from 0 on.

    >>> padded = pad_boxes([np.array([[0.0, 0.0, 5.0, 5.0]]), np.zeros((0, 4))], [np.array([7]), np.zeros(0, int)], 2)
    >>> padded.labels.tolist(), padded.valid.tolist()
    ([[7, 0], [0, 0]], [[True, False], [False, False]])
    """
    check_whole("max_boxes", max_boxes, least=0)
    box_arrays, label_arrays = _each_as_array("boxes", boxes), _each_as_array("labels", labels)
    if len(boxes) != len(labels):
        raise ValueError(f"boxes and labels must be of as many images, got {len(boxes)} and {len(labels)}")
    dtype = np.result_type(np.float32, *(box.dtype for box in box_arrays if len(box) and box.dtype.kind == "f"))
    result = PaddedBoxes(
        np.zeros((len(boxes), max_boxes, 4), dtype),
        np.zeros((len(boxes), max_boxes), np.int32),
        np.zeros((len(boxes), max_boxes), bool),
    )
    for i, (box, label) in enumerate(zip(box_arrays, label_arrays, strict=True)):
        if box.ndim != 2 or box.shape[1] != 4 or label.shape != box.shape[:1]:
            raise ValueError(f"boxes must be (n, 4) and labels (n,), got {box.shape} and {label.shape} for image {i}")
        if box.dtype.kind not in "fiu" and not jnp.issubdtype(box.dtype, jnp.floating):
            raise ValueError(f"boxes must be numbers, got dtype {box.dtype} for image {i}")
        if (label.size and label.dtype.kind not in "iu") or ((label < 0) | (label >= 2**31)).any():
            raise ValueError(f"labels must be 32-bit integers from 0 on, got {label.tolist()} for image {i}")
        if len(box) > max_boxes:
            raise ValueError(f"max_boxes must be at least the {len(box)} boxes of image {i}, got {max_boxes}")
        bad = ~well_formed(box)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"boxes must be finite with x1 < x2 and y1 < y2, got {box[row].tolist()} at row {row} of image {i}; "
                "boxes given as x, y, width, height must be converted"
            )
        result.boxes[i, : len(box)], result.labels[i, : len(box)], result.valid[i, : len(box)] = box, label, True
    return result


def _each_as_array(name: str, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    if not isinstance(values, Sequence | np.ndarray | jax.Array):
        raise ValueError(f"{name} must be a list with an array for each image, got {type(values).__name__}")
    try:
        return [np.asarray(value) for value in values]
    except ValueError:
        raise ValueError(f"{name} must be an array for each image, got rows of several lengths") from None


def _check_image(i: int, image: np.ndarray) -> None:
    if image.ndim != 3 or image.shape[-1] != 3 or 0 in image.shape:
        raise ValueError(f"images must have shape (height, width, 3), got shape {image.shape} for image {i}")
    if not jnp.issubdtype(image.dtype, jnp.floating):
        raise ValueError(
            f"images must be floating point in [0, 1], got dtype {image.dtype} for image {i}; divide by 255"
        )
    lowest, highest = float(np.min(image)), float(np.max(image))
    if not math.isfinite(lowest) or not math.isfinite(highest):
        raise ValueError(f"images must be finite, got pixels from {lowest} to {highest} in image {i}")
    guess = None
    if highest > 2:
        guess = f"pixels up to {highest:g} in image {i}: are they 0 to 255"
    if lowest < -0.5:
        guess = f"pixels down to {lowest:g} in image {i}: are they normalised already"
    if guess:
        warnings.warn(f"images are expected in [0, 1], got {guess}?", stacklevel=3)


def _normalize(image: np.ndarray) -> np.ndarray:
    mean, std = np.asarray(MEAN, image.dtype), np.asarray(STD, image.dtype)
    return (np.asarray(image) - mean) / std


def _resize(image: np.ndarray, size: Size) -> np.ndarray:
    """Bilinear, between pixel centres; what is sampled beyond the border is the border."""
    for axis, new in enumerate(size):
        old = image.shape[axis]
        if new < 1:
            raise ValueError(f"images must not be so narrow that a side vanishes, got shape {image.shape}")
        ratio = np.asarray(old / new, image.dtype)
        place = np.maximum(
            (np.arange(new, dtype=image.dtype) + image.dtype.type(0.5)) * ratio - image.dtype.type(0.5), 0
        )
        low = np.minimum(place.astype(np.int64), old - 1)
        high = np.minimum(low + 1, old - 1)
        part = (place - low.astype(image.dtype)).reshape((-1,) + (1,) * (image.ndim - 1 - axis))
        image = np.take(image, low, axis) * (1 - part) + np.take(image, high, axis) * part
    return image


def _padded_size(size: Size, buckets: Sequence[Size] | None) -> Size:
    if buckets is None:
        return _round_up(size[0]), _round_up(size[1])
    if not isinstance(buckets, Sequence):
        raise ValueError(f"buckets must be a list of heights and widths, got {buckets!r}")
    for bucket in buckets:
        if any(side % STRIDE for side in check_size("each of buckets", bucket)):
            raise ValueError(f"buckets must be multiples of {STRIDE}, so that anchors lie evenly, got {bucket}")
    fitting = [bucket for bucket in buckets if bucket[0] >= size[0] and bucket[1] >= size[1]]
    if not fitting:
        raise ValueError(f"buckets must hold the batch, whose largest height and width are {size}, got {list(buckets)}")
    return min(fitting, key=lambda bucket: bucket[0] * bucket[1])


def _round_up(pixels: int) -> int:
    return math.ceil(pixels / STRIDE) * STRIDE
