"""The two heads that every level of the pyramid shares: what is at an anchor, and where exactly."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_whole
from .convolution import conv

NUM_CONVS = 4
NUM_GROUPS = 32
PRIOR = 0.01  # the probability that every anchor starts with, so that the many negatives do not swamp the first steps
small_normal = nnx.initializers.normal(0.01)


class Tower(nnx.Module):
    """Four 3x3 convolutions with ReLU, then one to so many numbers an anchor."""

    output: str

    def __init__(
        self,
        channels: int,
        num_anchors: int,
        size: int,
        *,
        group_norm: bool,
        dtype: DTypeLike | None,
        param_dtype: DTypeLike,
        rngs: nnx.Rngs,
        bias: float = 0.0,
    ):
        """``size`` numbers for each of the ``num_anchors`` of a place, which start at ``bias``."""
        options: dict[str, Any] = {
            "kernel_init": small_normal,
            "dtype": dtype,
            "param_dtype": param_dtype,
            "rngs": rngs,
        }
        layers = []
        for _ in range(NUM_CONVS):
            layer: list[Any] = [conv(channels, channels, 3, use_bias=not group_norm, **options)]
            if group_norm:
                layer.append(
                    nnx.GroupNorm(
                        channels,
                        min(NUM_GROUPS, channels),
                        epsilon=1e-5,
                        dtype=dtype,
                        param_dtype=param_dtype,
                        use_fast_variance=False,
                        rngs=rngs,
                    )
                )
            layers.append(nnx.List(layer))
        self.conv = nnx.List(layers)
        last = conv(channels, num_anchors * size, 3, bias_init=nnx.initializers.constant(bias), **options)
        setattr(self, self.output, last)
        self.size = size

    def __call__(self, levels: Sequence[Float[Array, "b h w c"]]) -> Float[Array, "b a n"]:
        """The numbers of all anchors: levels in order, then rows, columns and the anchors of a place."""
        return jnp.concatenate([self._level(x) for x in levels], axis=1)

    def _level(self, x: Array) -> Array:
        for layer in self.conv:
            for part in layer:
                x = part(x)
            x = nnx.relu(x)
        return getattr(self, self.output)(x).reshape(x.shape[0], -1, self.size)


class ClassificationHead(Tower):
    """A logit of each class; they start at the logit of a probability of 0.01."""

    output = "cls_logits"


class RegressionHead(Tower):
    """The deltas of each box, which start near 0."""

    output = "bbox_reg"


class RetinaNetHead(nnx.Module):
    """Both heads.

    Args:
      channels: of the pyramid.
      num_anchors: of each place.
      num_classes: K, at least 1.
      group_norm: GroupNorm after each convolution in place of its bias, as torchvision's version 2 has it.
      dtype: that convolutions compute in. None: that of features and parameters.
      param_dtype: of the parameters.
      rngs: for the initial parameters.

    Raises:
      ValueError: where there is no class, or GroupNorm cannot divide the channels.
    """

    def __init__(
        self,
        channels: int,
        num_anchors: int,
        num_classes: int,
        *,
        group_norm: bool = False,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        rngs: nnx.Rngs,
    ):
        """Draw the initial parameters."""
        check_whole("num_classes", num_classes)
        if group_norm and channels % min(NUM_GROUPS, channels):
            raise ValueError(f"group_norm needs channels in {NUM_GROUPS} groups of one size, got {channels} channels")
        options: dict[str, Any] = {"group_norm": group_norm, "dtype": dtype, "param_dtype": param_dtype, "rngs": rngs}
        prior = -math.log((1 - PRIOR) / PRIOR)
        self.classification_head = ClassificationHead(channels, num_anchors, num_classes, bias=prior, **options)
        self.regression_head = RegressionHead(channels, num_anchors, 4, **options)

    def __call__(self, levels: Sequence[Array]) -> tuple[Float[Array, "b a k"], Float[Array, "b a 4"]]:
        """Class logits and deltas of all anchors."""
        return self.classification_head(levels), self.regression_head(levels)
