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
        (
            lambda: small(anchors=AnchorGenerator(((32,),) * 4 + ((64, 80),))),
            r"as many sizes at every level, got \(\(32,\), .* \(64, 80\)\)",
        ),
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
            lambda: detect(small(), jnp.zeros((1, 64, 64, 3)), np.zeros((1, 2)), max_detections=0),
            "max_detections must be at least 1, got 0",
        ),
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


def test_scores_at_the_threshold_and_small_boxes():
    """A score must exceed it; an anchor may be of two classes; small boxes stay, as do those cut down to nothing."""
    anchors = jnp.array([[0.0, 0.0, 8.0, 8.0], [20.0, 0.0, 20.001, 8.0], [90.0, 90.0, 99.0, 99.0]])
    logits = jnp.array([[[2.0, 1.0, 0.0], [-9.0, -9.0, 1.5], [-9.0, 0.5, -9.0]]])
    outputs = RetinaNetOutputs(logits, jnp.zeros((1, 3, 4)))
    found = postprocess_outputs(outputs, anchors, [3], jnp.array([[40, 40]]), score_threshold=0.5, max_detections=6)
    np.testing.assert_array_equal(found.valid[0], [True] * 4 + [False] * 2)
    np.testing.assert_array_equal(found.labels[0, :4], [0, 2, 1, 1])
    expected = [anchors[0], anchors[1], anchors[0], [40.0] * 4]
    np.testing.assert_allclose(found.boxes[0, :4], np.array(expected), rtol=1e-6)
