"""RetinaNet: images in, logits and box deltas of every anchor out."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from ._checks import check_array, check_whole
from .anchors import AnchorGenerator, check_generator
from .fpn import ResNetFPN, resnet_fpn
from .heads import RetinaNetHead

STRIDES = (8, 16, 32, 64, 128)  # of levels P3 to P7
BOX_LOSSES = ("l1", "smooth_l1", "giou", "diou", "ciou")


class RetinaNetOutputs(NamedTuple):
    """What the network says of every anchor: ``cls_logits (b, a, k)`` and ``bbox_regression (b, a, 4)``."""

    cls_logits: Float[Array, "b a k"]
    bbox_regression: Float[Array, "b a 4"]


class RetinaNet(nnx.Module):
    """A one-stage detector.

    ``model(images)`` uses the running statistics of BatchNorm; ``model(images, train=True)`` those of the batch, and
    moves the running ones. ``model.train()`` and ``model.eval()`` change nothing.

    Args:
      backbone: makes levels P3 to P7, as ``resnet_fpn`` does: ``backbone(images, train=...)`` gives five arrays
        (b, h, w, c) at strides 8, 16, 32, 64 and 128, sizes rounded up, and ``backbone.out_channels`` is c.
      num_classes: K. Every class has a channel; labels are channels as they are (COCO in torchvision: 91, of which 0
        is not used).
      anchors: an ``AnchorGenerator`` of five levels.
      group_norm: whether the heads have GroupNorm (torchvision's version 2).
      box_loss: what the boxes are trained with: "l1", "smooth_l1", "giou", "diou" or "ciou".
      dtype: that the heads compute in. None: that of features and parameters.
      param_dtype: of the parameters of the heads.
      rngs: for the initial parameters.

    Raises:
      ValueError: for anchors of more or fewer than five levels, or of levels that differ in number of sizes, no class,
        an unknown box loss, or a backbone that does not say its ``out_channels``.

    >>> import jax
    >>> rngs = nnx.Rngs(0)
    >>> model = RetinaNet(resnet_fpn(18, width=8, out_channels=16, rngs=rngs), num_classes=3, rngs=rngs)
    >>> outputs = jax.eval_shape(model, jax.ShapeDtypeStruct((1, 64, 96, 3), "float32"))
    >>> outputs.cls_logits.shape, outputs.bbox_regression.shape, model.anchors(64, 96).shape
    ((1, 1161, 3), (1, 1161, 4), (1161, 4))

    References:
      Lin, Goyal, Girshick, He, Dollár, "Focal Loss for Dense Object Detection", 2017,
      https://arxiv.org/abs/1708.02002
    """

    def __init__(
        self,
        backbone: ResNetFPN | Any,
        num_classes: int,
        *,
        anchors: AnchorGenerator | None = None,
        group_norm: bool = False,
        box_loss: str = "l1",
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        rngs: nnx.Rngs,
    ):
        """Draw the initial parameters of the heads."""
        generator = AnchorGenerator() if anchors is None else check_generator(anchors)
        if len(generator.sizes) != len(STRIDES):
            raise ValueError(f"anchors must have {len(STRIDES)} levels, those of P3 to P7, got {len(generator.sizes)}")
        if len(set(map(len, generator.sizes))) > 1:
            raise ValueError(f"anchors must have as many sizes at every level, got {generator.sizes}")
        check_box_loss(box_loss)
        if not callable(backbone) or not hasattr(backbone, "out_channels"):
            raise ValueError(
                f"backbone must be a module with out_channels, as resnet_fpn makes it, got {backbone!r:.80}"
            )
        check_whole("backbone.out_channels", backbone.out_channels)
        self.backbone = backbone
        self.head = RetinaNetHead(
            backbone.out_channels,
            generator.per_location,
            num_classes,
            group_norm=group_norm,
            dtype=dtype,
            param_dtype=param_dtype,
            rngs=rngs,
        )
        self.generator = generator
        self.num_classes = num_classes
        self.box_loss = box_loss

    def __call__(self, images: Float[Array, "b h w 3"], *, train: bool = False) -> RetinaNetOutputs:
        """Logits and deltas of every anchor.

        Args:
          images: normalised, (b, h, w, 3), floating point.
          train: by the statistics of the batch, which moves the running ones.

        Returns:
          ``RetinaNetOutputs``.

        Raises:
          ValueError: for images of another rank, number of channels or dtype, or a backbone whose levels do not fit
            the anchors.
        """
        check_array("images", images)
        if images.ndim != 4 or images.shape[-1] != 3 or 0 in images.shape:
            raise ValueError(f"images must have shape (batch, height, width, 3), got shape {images.shape}")
        if not jnp.issubdtype(images.dtype, jnp.floating):
            raise ValueError(f"images must be floating point and normalised, got dtype {images.dtype}")
        levels = self.backbone(images, train=train)
        if not isinstance(levels, list | tuple):
            raise ValueError(f"backbone must return a list with an array for each level, got {type(levels).__name__}")
        found = [level.shape[1:] for level in levels]
        expected = [(*size, self.backbone.out_channels) for size in self.feature_sizes(*images.shape[1:3])]
        if found != expected and all(isinstance(n, int) for n in images.shape[1:3]):
            raise ValueError(f"backbone must make levels of height, width and channels {expected}, got {found}")
        return RetinaNetOutputs(*self.head(levels))

    def feature_sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Height and width of levels P3 to P7."""
        return [(-(-height // stride), -(-width // stride)) for stride in STRIDES]

    def level_sizes(self, height: int, width: int) -> list[int]:
        """How many anchors each level has."""
        return [rows * columns * self.generator.per_location for rows, columns in self.feature_sizes(height, width)]

    def anchors(self, height: int, width: int, dtype: DTypeLike = jnp.float32) -> Float[Array, "a 4"]:
        """The anchors of padded images of this size, in the order of the outputs."""
        return self.generator((height, width), self.feature_sizes(height, width), dtype)


def check_filled(state: nnx.State) -> None:
    """ValueError where a parameter of a model has a shape and no values."""
    for path, leaf in jax.tree.leaves_with_path(state):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            where = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"model must have parameters, got an abstract one at {where}; load_torchvision fills it, "
                "its heads only where the file has them"
            )


def check_box_loss(name: str) -> None:
    """ValueError unless there is a box loss of this name."""
    if not isinstance(name, str) or name not in BOX_LOSSES:
        raise ValueError(f"box_loss must be one of {', '.join(BOX_LOSSES)}, got {name!r}")


def retinanet_resnet50_fpn(num_classes: int = 91, *, rngs: nnx.Rngs, **options: Any) -> RetinaNet:
    """RetinaNet on ResNet-50, as ``torchvision.models.detection.retinanet_resnet50_fpn`` builds it.

    Args:
      num_classes: K; 91 for COCO.
      rngs: for the initial parameters.
      options: ``norm`` ("batch", or "frozen" for published weights), ``dtype`` and ``param_dtype``.

    Returns:
      The model.
    """
    return _build(num_classes, p6_from="p5", group_norm=False, box_loss="l1", rngs=rngs, options=options)


def retinanet_resnet50_fpn_v2(num_classes: int = 91, *, rngs: nnx.Rngs, **options: Any) -> RetinaNet:
    """RetinaNet on ResNet-50 with GroupNorm in the heads, P6 from C5, and boxes trained with generalised IoU.

    Args:
      num_classes: K; 91 for COCO.
      rngs: for the initial parameters.
      options: ``norm``, ``dtype`` and ``param_dtype``.

    Returns:
      The model; its counterpart is ``torchvision.models.detection.retinanet_resnet50_fpn_v2``.
    """
    return _build(num_classes, p6_from="c5", group_norm=True, box_loss="giou", rngs=rngs, options=options)


def _build(
    num_classes: int,
    *,
    p6_from: str,
    group_norm: bool,
    box_loss: str,
    rngs: nnx.Rngs,
    options: dict[str, Any],
) -> RetinaNet:
    unknown = sorted(options.keys() - {"norm", "dtype", "param_dtype"})
    if unknown:
        raise ValueError(
            f"options must be norm, dtype or param_dtype, got {', '.join(unknown)}; weights come by load_torchvision, "
            "other parts by RetinaNet(resnet_fpn(50, ...), ...)"
        )
    backbone = resnet_fpn(50, p6_from=p6_from, rngs=rngs, **options)
    options = {name: value for name, value in options.items() if name != "norm"}
    return RetinaNet(backbone, num_classes, group_norm=group_norm, box_loss=box_loss, rngs=rngs, **options)
