"""The feature pyramid: five levels of equal width from three of a backbone."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_whole
from .convolution import conv
from .resnet import ResNet

fan_in_uniform = nnx.initializers.variance_scaling(1.0, "fan_in", "uniform")
Levels = tuple[Array, Array, Array, Array, Array]


class ExtraLevels(nnx.Module):
    """P6 and P7, each of half the size of the level before."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any):
        """Convolutions of stride 2."""
        self.p6 = conv(in_channels, out_channels, 3, 2, **options)
        self.p7 = conv(out_channels, out_channels, 3, 2, **options)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """P6 without an activation; P7 of its positive part."""
        p6 = self.p6(x)
        return p6, self.p7(nnx.relu(p6))


class FeaturePyramid(nnx.Module):
    """Levels P3 to P7 from C3, C4 and C5.

    Args:
      in_channels: of C3, C4 and C5.
      out_channels: of every level.
      p6_from: "p5" (RetinaNet as torchvision's version 1 has it) or "c5" (the paper's, and version 2's).
      dtype: that convolutions compute in. None: that of features and parameters.
      param_dtype: of the parameters.
      rngs: for the initial parameters.

    Raises:
      ValueError: for another ``p6_from``.

    References:
      Lin, Dollár, Girshick, He, Hariharan, Belongie, "Feature Pyramid Networks for Object Detection", 2016,
      https://arxiv.org/abs/1612.03144
    """

    def __init__(
        self,
        in_channels: tuple[int, int, int],
        out_channels: int = 256,
        *,
        p6_from: str = "p5",
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        rngs: nnx.Rngs,
    ):
        """Draw the initial parameters."""
        if p6_from not in ("p5", "c5"):
            raise ValueError(f"p6_from must be 'p5' or 'c5', got {p6_from!r}")
        check_whole("out_channels", out_channels)
        options: dict[str, Any] = {
            "kernel_init": fan_in_uniform,
            "dtype": dtype,
            "param_dtype": param_dtype,
            "rngs": rngs,
        }
        self.inner_blocks = nnx.List([nnx.List([conv(c, out_channels, 1, **options)]) for c in in_channels])
        self.layer_blocks = nnx.List([nnx.List([conv(out_channels, out_channels, 3, **options)]) for _ in in_channels])
        self.extra_blocks = ExtraLevels(out_channels if p6_from == "p5" else in_channels[-1], out_channels, **options)
        self.p6_from = p6_from

    def __call__(self, features: tuple[Float[Array, "b h w c"], ...]) -> Levels:
        """P3, P4, P5, P6 and P7."""
        (inner3,), (inner4,), (inner5,) = self.inner_blocks
        (outer3,), (outer4,), (outer5,) = self.layer_blocks
        c3, c4, c5 = features
        top5 = inner5(c5)
        top4 = _add_upsampled(inner4(c4), top5)
        top3 = _add_upsampled(inner3(c3), top4)
        p5 = outer5(top5)
        return outer3(top3), outer4(top4), p5, *self.extra_blocks(p5 if self.p6_from == "p5" else c5)


class ResNetFPN(nnx.Module):
    """A ResNet with a feature pyramid on it: the backbone of a RetinaNet.

    Args:
      body: the ResNet.
      fpn: the pyramid.
    """

    def __init__(self, body: ResNet, fpn: FeaturePyramid):
        """Keep both."""
        self.body = body
        self.fpn = fpn

    @property
    def out_channels(self) -> int:
        """Of every level."""
        return self.fpn.extra_blocks.p7.out_features

    def __call__(self, images: Float[Array, "b h w 3"], *, train: bool = False) -> Levels:
        """P3 to P7, at strides 8 to 128."""
        return self.fpn(self.body(images, train=train))


def resnet_fpn(
    depth: int,
    *,
    width: int = 64,
    out_channels: int = 256,
    p6_from: str = "p5",
    norm: str = "batch",
    dtype: DTypeLike | None = None,
    param_dtype: DTypeLike = jnp.float32,
    rngs: nnx.Rngs,
) -> ResNetFPN:
    """A ResNet with a feature pyramid on it, as a ``RetinaNet`` needs it.

    Args:
      depth: of the ResNet, as its ``width`` and ``norm``; see ``ResNet``.
      width: channels of its first stage.
      out_channels: of the pyramid's levels, as its ``p6_from``; see ``FeaturePyramid``.
      p6_from: "p5" or "c5".
      norm: "batch" or "frozen".
      dtype: that convolutions compute in. None: that of images and parameters.
      param_dtype: of the parameters.
      rngs: for the initial parameters.

    Returns:
      The backbone.

    Raises:
      ValueError: as ``ResNet`` and ``FeaturePyramid``.

    >>> import jax
    >>> backbone = resnet_fpn(18, width=8, out_channels=16, rngs=nnx.Rngs(0))
    >>> [level.shape[1:3] for level in jax.eval_shape(backbone, jax.ShapeDtypeStruct((1, 64, 96, 3), "float32"))]
    [(8, 12), (4, 6), (2, 3), (1, 2), (1, 1)]

    The source is ``torchvision.models.detection.backbone_utils.resnet_fpn_backbone``.
    """
    body = ResNet(depth, width=width, norm=norm, dtype=dtype, param_dtype=param_dtype, rngs=rngs)
    pyramid = FeaturePyramid(
        body.out_channels, out_channels, p6_from=p6_from, dtype=dtype, param_dtype=param_dtype, rngs=rngs
    )
    return ResNetFPN(body, pyramid)


def _add_upsampled(lateral: Array, coarse: Array) -> Array:
    """The lateral plus the level above, each of whose pixels is four here; of an odd size the last is cut off."""
    batch, height, width, channels = coarse.shape
    doubled = jnp.broadcast_to(coarse[:, :, None, :, None, :], (batch, height, 2, width, 2, channels))
    doubled = doubled.reshape(batch, 2 * height, 2 * width, channels)
    return lateral + doubled[:, : lateral.shape[1], : lateral.shape[2]]
