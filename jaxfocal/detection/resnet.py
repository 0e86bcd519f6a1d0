"""Residual networks, as backbones."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_whole
from .convolution import conv
from .norms import BatchNorm, FrozenBatchNorm

STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
NORMS: dict[str, Any] = {"batch": BatchNorm, "frozen": FrozenBatchNorm}
fan_out_normal = nnx.initializers.variance_scaling(2.0, "fan_out", "normal")


class ResNet(nnx.Module):
    """ResNet 18, 34, 50 or 101 without its classifier; the stride of a bottleneck is in its 3x3 convolution.

    Args:
      depth: 18, 34, 50 or 101.
      width: channels of the first stage; 64 but for small models.
      norm: "batch" (``BatchNorm``) or "frozen" (``FrozenBatchNorm``).
      dtype: that convolutions compute in. None: that of images and parameters.
      param_dtype: of the parameters.
      rngs: for the initial parameters, torchvision's distributions.

    Raises:
      ValueError: for another depth, norm, or a width below 1.

    References:
      He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015, https://arxiv.org/abs/1512.03385
    """

    layer1: nnx.List
    layer2: nnx.List
    layer3: nnx.List
    layer4: nnx.List

    def __init__(
        self,
        depth: int,
        *,
        width: int = 64,
        norm: str = "batch",
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        rngs: nnx.Rngs,
    ):
        """Draw the initial parameters."""
        if depth not in STAGES:
            raise ValueError(f"depth must be one of {', '.join(map(str, STAGES))}, got {depth}")
        if norm not in NORMS:
            raise ValueError(f"norm must be 'batch' or 'frozen', got {norm!r}")
        check_whole("width", width)
        block = BasicBlock if depth < 50 else Bottleneck
        options: dict[str, Any] = {"norm": norm, "dtype": dtype, "param_dtype": param_dtype, "rngs": rngs}
        self.conv1, self.bn1 = _conv_norm(3, width, 7, 2, **options)
        channels = width
        for i, repeats in enumerate(STAGES[depth]):
            planes = width * 2**i
            blocks = []
            for j in range(repeats):
                blocks.append(block(channels, planes, stride=2 if i > 0 and j == 0 else 1, **options))
                channels = planes * block.expansion
            setattr(self, f"layer{i + 1}", nnx.List(blocks))
        self.out_channels = (2 * width * block.expansion, 4 * width * block.expansion, 8 * width * block.expansion)

    def __call__(self, images: Float[Array, "b h w 3"], *, train: bool = False) -> tuple[Array, Array, Array]:
        """Features C3, C4 and C5, at strides 8, 16 and 32."""
        x = nnx.relu(self.bn1(self.conv1(images), train=train))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        features = []
        for blocks in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in blocks:
                x = block(x, train=train)
            features.append(x)
        return features[1], features[2], features[3]


class BasicBlock(nnx.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, channels: int, planes: int, *, stride: int, **options: Any):
        """From ``channels`` to ``planes``."""
        self.conv1, self.bn1 = _conv_norm(channels, planes, 3, stride, **options)
        self.conv2, self.bn2 = _conv_norm(planes, planes, 3, 1, **options)
        self.downsample = _shortcut(channels, planes, stride, **options)

    def __call__(self, x: Array, *, train: bool) -> Array:
        """Of the size of ``x`` over the stride."""
        y = nnx.relu(self.bn1(self.conv1(x), train=train))
        y = self.bn2(self.conv2(y), train=train)
        return nnx.relu(y + _through(self.downsample, x, train))


class Bottleneck(nnx.Module):
    """A 3x3 convolution between two 1x1 ones, and a shortcut."""

    expansion = 4

    def __init__(self, channels: int, planes: int, *, stride: int, **options: Any):
        """From ``channels`` to ``4 * planes``."""
        self.conv1, self.bn1 = _conv_norm(channels, planes, 1, 1, **options)
        self.conv2, self.bn2 = _conv_norm(planes, planes, 3, stride, **options)
        self.conv3, self.bn3 = _conv_norm(planes, 4 * planes, 1, 1, **options)
        self.downsample = _shortcut(channels, 4 * planes, stride, **options)

    def __call__(self, x: Array, *, train: bool) -> Array:
        """Of the size of ``x`` over the stride."""
        y = nnx.relu(self.bn1(self.conv1(x), train=train))
        y = nnx.relu(self.bn2(self.conv2(y), train=train))
        y = self.bn3(self.conv3(y), train=train)
        return nnx.relu(y + _through(self.downsample, x, train))


def _conv_norm(
    channels: int,
    planes: int,
    size: int,
    stride: int,
    *,
    norm: str,
    dtype: DTypeLike | None,
    param_dtype: DTypeLike,
    rngs: nnx.Rngs,
) -> tuple[nnx.Conv, Any]:
    layer = conv(
        channels,
        planes,
        size,
        stride,
        kernel_init=fan_out_normal,
        use_bias=False,
        dtype=dtype,
        param_dtype=param_dtype,
        rngs=rngs,
    )
    return layer, NORMS[norm](planes, param_dtype=param_dtype)


def _shortcut(channels: int, planes: int, stride: int, **options: Any) -> nnx.List | None:
    if stride == 1 and channels == planes:
        return None
    return nnx.List(_conv_norm(channels, planes, 1, stride, **options))


def _through(downsample: nnx.List | None, x: Array, train: bool) -> Array:
    if downsample is None:
        return x
    layer, norm = downsample
    return norm(layer(x), train=train)
