"""What a model says of bad options and images, and that bfloat16 runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal.detection import (
    AnchorGenerator,
    ResNet,
    RetinaNet,
    RetinaNetOutputs,
    detect,
    postprocess_outputs,
    resnet_fpn,
)


def small(num_classes=3, **options):
    rngs = nnx.Rngs(0)
    backbone = resnet_fpn(18, width=8, out_channels=16, dtype=options.get("dtype"), rngs=rngs)
    return RetinaNet(backbone, num_classes, rngs=rngs, **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: small(0), "num_classes must be at least 1, got 0"),
        (lambda: small(anchors=AnchorGenerator(((32,),))), "anchors must have 5 levels, those of P3 to P7, got 1"),
        (lambda: small(box_loss="iou"), "box_loss must be one of l1, smooth_l1, giou, diou, ciou, got 'iou'"),
        (lambda: ResNet(20, rngs=nnx.Rngs(0)), "depth must be one of 18, 34, 50, 101, got 20"),
        (lambda: ResNet(18, norm="layer", rngs=nnx.Rngs(0)), "norm must be 'batch' or 'frozen', got 'layer'"),
        (lambda: resnet_fpn(18, p6_from="c4", rngs=nnx.Rngs(0)), "p6_from must be 'p5' or 'c5', got 'c4'"),
        (lambda: small()(jnp.zeros((64, 64, 3))), r"shape \(batch, height, width, 3\), got shape \(64, 64, 3\)"),
        (lambda: small()(jnp.zeros((1, 3, 64, 64))), r"got shape \(1, 3, 64, 64\)"),
        (lambda: small()(jnp.zeros((1, 64, 64, 3), jnp.uint8)), "floating point and normalised, got dtype uint8"),
        (
            lambda: detect(small(), jnp.zeros((1, 64, 64, 3)), np.zeros((2, 2), int)),
            r"image_sizes .* \(1, 2\), got \(2, 2",
        ),
        (lambda: detect(small(), jnp.zeros((1, 64, 64, 3)), np.zeros((1, 2)), score_threshold=1.0), "got 1.0"),
        (
            lambda: postprocess_outputs(
                RetinaNetOutputs(jnp.zeros((1, 9, 2)), jnp.zeros((1, 9, 4))), jnp.zeros((8, 4)), [9], jnp.zeros((1, 2))
            ),
            r"anchors \(8, 4\) and level_sizes \[9\] must fit the 9 rows",
        ),
    ],
)
def test_bad_options_and_images(build, message):
    with pytest.raises(ValueError, match=message):
        nnx.eval_shape(build)


@pytest.mark.parametrize("depth", [18, 34, 50, 101])
def test_every_depth_has_torchvisions_parameters(depth):
    torchvision = pytest.importorskip("torchvision", reason="compares with PyTorch")
    import torch

    with torch.device("meta"):
        theirs = getattr(torchvision.models, f"resnet{depth}")()
    expected = sum(p.numel() for name, p in theirs.named_parameters() if not name.startswith("fc"))
    params = nnx.state(nnx.eval_shape(lambda: ResNet(depth, rngs=nnx.Rngs(0))), nnx.Param)
    assert sum(p.size for p in jax.tree.leaves(params)) == expected


def test_bfloat16_computes_in_bfloat16():
    model = nnx.eval_shape(lambda: small(dtype=jnp.bfloat16))
    graphdef, state = nnx.split(model)
    image = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.bfloat16)
    outputs = jax.eval_shape(lambda state, image: nnx.merge(graphdef, state)(image), state, image)
    assert outputs.cls_logits.dtype == outputs.bbox_regression.dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))} == {np.dtype(np.float32)}
