"""Anchors: the boxes that each place of a feature map starts from."""

from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_float_dtype, check_size

RETINANET_SIZES = tuple(tuple(int(base * 2 ** (k / 3)) for k in range(3)) for base in (32, 64, 128, 256, 512))
RETINANET_RATIOS = (0.5, 1.0, 2.0)

Size = tuple[int, int]  # height, width


class AnchorGenerator(NamedTuple):
    """Anchors of every feature level: at each place, a box of each aspect ratio and size.

    Args:
      sizes: for each level, the side lengths of its square anchors, in pixels of the image.
      aspect_ratios: height / width, those of all levels.

    >>> anchors = AnchorGenerator(sizes=((32,),), aspect_ratios=(1.0,))
    >>> print(anchors(image_size=(64, 64), feature_sizes=[(2, 2)]))
    [[-16. -16.  16.  16.]
     [ 16. -16.  48.  16.]
     [-16.  16.  16.  48.]
     [ 16.  16.  48.  48.]]

    The source is ``torchvision.models.detection.anchor_utils.AnchorGenerator``.
    """

    sizes: tuple[tuple[int, ...], ...] = RETINANET_SIZES
    aspect_ratios: tuple[float, ...] = RETINANET_RATIOS

    @property
    def per_location(self) -> int:
        """How many anchors each place of a feature map has."""
        return len(self.sizes[0]) * len(self.aspect_ratios)

    def __call__(
        self, image_size: Size, feature_sizes: Sequence[Size], dtype: DTypeLike = jnp.float32
    ) -> Float[Array, "a 4"]:
        """All anchors of an image: levels in order, then rows, columns, aspect ratios and sizes.

        Anchors are centred at multiples of the stride, the image's size over the feature map's, rounded down. They are
        not clipped to the image.

        Args:
          image_size: height and width of the padded image.
          feature_sizes: height and width of each feature map.
          dtype: floating point; whole numbers, exact in float32.

        Returns:
          (a, 4), corners ``(x1, y1, x2, y2)``.

        Raises:
          ValueError: where there are more or fewer feature maps than levels, or one is larger than the image.
        """
        check_size("image_size", image_size)
        check_float_dtype("dtype", dtype)
        if len(feature_sizes) != len(self.sizes):
            raise ValueError(
                f"feature_sizes must name one size for each of the {len(self.sizes)} levels of anchors, "
                f"got {len(feature_sizes)}: {list(feature_sizes)}"
            )
        levels = [
            _level(cell_anchors(sizes, self.aspect_ratios), image_size, feature_size, dtype)
            for sizes, feature_size in zip(self.sizes, feature_sizes, strict=True)
        ]
        return jnp.concatenate(levels)


def check_generator(generator: AnchorGenerator) -> AnchorGenerator:
    """The same with tuples throughout, which can be hashed; ValueError for another kind, or another nesting."""
    if not isinstance(generator, AnchorGenerator):
        raise ValueError(f"anchors must be an AnchorGenerator, got {type(generator).__name__}")
    sizes, ratios = generator
    if not all(isinstance(level, Sequence) for level in sizes):
        raise ValueError(f"sizes must hold those of each level, as ((32,), (64,), ...), got {sizes}")
    if not all(isinstance(ratio, Real) for ratio in ratios):
        raise ValueError(f"aspect_ratios must be numbers, those of all levels, as (0.5, 1.0, 2.0), got {ratios}")
    for level in sizes:
        cell_anchors(level, ratios)
    return AnchorGenerator(tuple(map(tuple, sizes)), tuple(ratios))


def cell_anchors(sizes: Sequence[int], aspect_ratios: Sequence[float]) -> np.ndarray:
    """The anchors of one place, around (0, 0), rounded to whole numbers (halves to even).

    Args:
      sizes: side lengths of the square anchors.
      aspect_ratios: height / width.

    Returns:
      float32 (ratios * sizes, 4): for each ratio, its sizes.

    Raises:
      ValueError: unless sizes and ratios are positive.

    >>> print(cell_anchors((32,), (0.5, 1.0)))
    [[-23. -11.  23.  11.]
     [-16. -16.  16.  16.]]
    """
    if not all(
        len(lengths) and np.all(np.isfinite(lengths)) and min(lengths) > 0 for lengths in (sizes, aspect_ratios)
    ):
        raise ValueError(f"sizes and aspect_ratios must be positive, got {tuple(sizes)} and {tuple(aspect_ratios)}")
    side = np.asarray(sizes, np.float32)
    root = np.sqrt(np.asarray(aspect_ratios, np.float32))
    width = ((1 / root)[:, None] * side).ravel()
    height = (root[:, None] * side).ravel()
    return np.round(np.stack([-width, -height, width, height], axis=1) / 2)


def _level(cells: np.ndarray, image_size: Size, feature_size: Size, dtype: DTypeLike) -> Float[Array, "hwc 4"]:
    (height, width), (rows, columns) = image_size, feature_size
    if not (0 < rows <= height and 0 < columns <= width):
        raise ValueError(f"feature_sizes must lie between 1 and the image's {image_size}, got {feature_size}")
    y = jnp.arange(rows, dtype=dtype) * (height // rows)
    x = jnp.arange(columns, dtype=dtype) * (width // columns)
    y, x = jnp.broadcast_to(y[:, None], feature_size), jnp.broadcast_to(x[None, :], feature_size)
    centres = jnp.stack([x, y, x, y], axis=-1)  # (rows, columns, 4)
    return (centres[:, :, None] + jnp.asarray(cells, dtype)[None, None]).reshape(-1, 4)
