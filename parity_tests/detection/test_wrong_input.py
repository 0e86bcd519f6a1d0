"""Arguments of another kind: one message that names the argument and what came, before anything compiles."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxfocal import detection as d
from parity_tests.detection.conftest import small_batch, small_model

MODEL = small_model(dtype=np.float32)
IMAGES, SIZES = np.zeros((1, 64, 64, 3), np.float32), np.array([[64, 64]])
BATCH = small_batch(dtype=np.float32, height=64, width=64)
BOXES = np.array([[0.0, 0, 10, 10], [1, 0, 11, 10]])
PHOTO = np.random.default_rng(0).random((40, 48, 3)).astype(np.float32)
OUTPUTS = d.RetinaNetOutputs(np.zeros((1, 2, 3)), np.zeros((1, 2, 4)))


def build(**options):
    """A small detector, abstract."""
    parts = {"width": 8, "out_channels": 16} | {k: options.pop(k) for k in ("width", "out_channels") if k in options}
    rngs = options.pop("rngs", None)

    def make():
        key = nnx.Rngs(0) if rngs is None else rngs
        backbone = options.pop("backbone") if "backbone" in options else d.resnet_fpn(18, rngs=key, **parts)
        return d.RetinaNet(backbone, **({"num_classes": 3} | options), rngs=key)

    return nnx.eval_shape(make)


def nms(**changes):
    good = {"boxes": BOXES, "scores": np.array([0.5, 0.6]), "classes": np.zeros(2, int)}
    return d.batched_nms(**(good | {"iou_threshold": 0.5, "max_outputs": 2} | changes))


def step(optimizer=None, batch=BATCH, model=MODEL, **options):
    _, state, one = d.training_step(model, optax.sgd(0.1) if optimizer is None else optimizer, **options)
    return jax.eval_shape(one, state, batch)


def half_filled():
    """An abstract model after the backbone of a file."""
    model = nnx.eval_shape(lambda: small_model(dtype=np.float32))
    return d.load_torchvision(model, d.export_torchvision(MODEL), backbone_only=True)


def loss(**changes):
    good = {"outputs": OUTPUTS, "anchors": BOXES, "boxes": BOXES[None], "labels": np.zeros((1, 2), int)}
    return d.retinanet_loss(**(good | {"valid": np.ones((1, 2), bool)} | changes))


def post(outputs=OUTPUTS, sizes=(2,), image_sizes=SIZES):
    return d.postprocess_outputs(outputs, BOXES, sizes, image_sizes)


CALLS = {
    "classes 2.5": (lambda: build(num_classes=2.5), "num_classes must be an integer, got 2.5"),
    "classes None": (lambda: build(num_classes=None), "num_classes must be an integer, got None"),
    "classes True": (lambda: build(num_classes=True), "num_classes must be an integer, got True"),
    "width": (lambda: build(width=2.5), "width must be an integer, got 2.5"),
    "channels": (lambda: build(out_channels=0), "out_channels must be at least 1, got 0"),
    "groups": (lambda: build(out_channels=40, group_norm=True), "in 32 groups of one size, got 40 channels"),
    "dtype": (lambda: build(dtype="fp16"), "dtype must be a floating point dtype, got 'fp16'"),
    "parameters": (lambda: build(param_dtype=jnp.int32), "param_dtype must be a floating point dtype"),
    "rngs": (lambda: build(rngs=0), "rngs must be nnx.Rngs, as nnx.Rngs(0), got 0"),
    "weights": (
        lambda: nnx.eval_shape(lambda: d.retinanet_resnet50_fpn(weights="DEFAULT", rngs=nnx.Rngs(0))),
        "got weights; weights come by load_torchvision",
    ),
    "flat sizes": (
        lambda: build(anchors=d.AnchorGenerator((32, 64, 128, 256, 512))),
        "sizes must hold those of each level, as ((32,), (64,), ...), got (32, 64",
    ),
    "ratios a level": (
        lambda: build(anchors=d.AnchorGenerator(aspect_ratios=((0.5, 1.0),) * 5)),
        "aspect_ratios must be numbers, those of all levels",
    ),
    "no ratio": (
        lambda: build(anchors=d.AnchorGenerator(aspect_ratios=())),
        "must be positive, got (32, 40, 50) and ()",
    ),
    "NaN size": (lambda: build(anchors=d.AnchorGenerator(((np.nan,),) * 5)), "must be positive, got (nan,)"),
    "anchors": (lambda: build(anchors=BOXES), "anchors must be an AnchorGenerator, got ndarray"),
    "no backbone": (lambda: build(backbone="resnet50"), "backbone must be a module with out_channels"),
    "no pyramid": (
        lambda: nnx.eval_shape(lambda: d.RetinaNet(d.ResNet(18, width=8, rngs=nnx.Rngs(0)), 3, rngs=nnx.Rngs(0))),
        "backbone.out_channels must be an integer, got (16, 32, 64)",
    ),
    "images list": (lambda: MODEL([IMAGES[0]]), "images must be a NumPy or JAX array, got list"),
    "no image": (lambda: MODEL(IMAGES[:0]), "images must have shape (batch, height, width, 3), got shape (0, 64"),
    "anchor size": (lambda: MODEL.anchors(64.5, 64), "image_size must be a height and a width, integers"),
    "detect model": (lambda: d.detect(None, IMAGES, SIZES), "model must be a RetinaNet, got NoneType"),
    "detect half filled": (
        lambda: d.detect(half_filled(), IMAGES, SIZES),
        "model must have parameters, got an abstract one at head.",
    ),
    "detect abstract": (lambda: d.detect(build(), IMAGES, SIZES), "model must have parameters, got an abstract one"),
    "sizes beyond": (
        lambda: d.detect(MODEL, IMAGES, np.array([[640, 480]])),
        "image_sizes must be heights and widths within those of images, (64, 64), got [640, 480] for image 0",
    ),
    "sizes 0": (lambda: d.detect(MODEL, IMAGES, np.array([[0, 64]])), "got [0, 64] for image 0"),
    "sizes NaN": (lambda: d.detect(MODEL, IMAGES, np.array([[np.nan, 64]])), "got [nan, 64.0] for image 0"),
    "sizes bool": (lambda: d.detect(MODEL, IMAGES, SIZES > 0), "in pixels, got dtype bool"),
    "threshold": (lambda: d.detect(MODEL, IMAGES, SIZES, score_threshold=jnp.ones(())), "must be a Python number"),
    "iou": (lambda: d.detect(MODEL, IMAGES, SIZES, iou_threshold=None), "iou_threshold must be a Python number"),
    "candidates": (lambda: d.detect(MODEL, IMAGES, SIZES, num_candidates=9.5), "num_candidates must be an integer"),
    "detections": (lambda: d.detect(MODEL, IMAGES, SIZES, max_detections=True), "max_detections must be an integer"),
    "deltas": (lambda: post(OUTPUTS._replace(bbox_regression=np.zeros((1, 1, 4)))), "got (1, 2, 3) and (1, 1, 4)"),
    "int logits": (lambda: post(OUTPUTS._replace(cls_logits=np.zeros((1, 2, 3), int))), "cls_logits must be floating"),
    "level 0": (lambda: post(sizes=(2, 0)), "level_sizes must be at least 1, got 0"),
    "level int": (lambda: post(sizes=2), "level_sizes must be a list, how many anchors each level has, got 2"),
    "path": (lambda: d.preprocess("photo.jpg"), "images must be a list of arrays, got str"),
    "NaN pixels": (
        lambda: d.preprocess([PHOTO * np.nan]),
        "images must be finite, got pixels from nan to nan in image 0",
    ),
    "two min sizes": (
        lambda: d.preprocess([PHOTO], min_size=(640, 800)),
        "min_size must be an integer, got (640, 800)",
    ),
    "sides": (lambda: d.preprocess([PHOTO], min_size=99, max_size=50), "max_size must be at least 99, got 50"),
    "one bucket": (lambda: d.preprocess([PHOTO], buckets=(800, 1088)), "each of buckets must be a height and a width"),
    "odd bucket": (lambda: d.preprocess([PHOTO], buckets=[(801, 999)]), "buckets must be multiples of 32"),
    "buckets": (lambda: d.shape_buckets(0), "min_size must be at least 1, got 0"),
    "scale": (lambda: d.rescale_boxes(BOXES, (0, 4), (4, 4)), "old_size must be a height and a width"),
    "scale traced": (
        lambda: jax.jit(d.rescale_boxes)(BOXES, (8, 8), (4, 4)),
        "old_size must be a height and a width",
    ),
    "scale ragged": (lambda: d.rescale_boxes(BOXES, ((4,), 4), (4, 4)), "old_size must be a height and a width"),
    "scale shape": (lambda: d.rescale_boxes(BOXES, PHOTO.shape, (4, 4)), "old_size must be a height and a width"),
    "box list": (lambda: d.box_area([[0.0, 0, 1, 1]]), "boxes must be a NumPy or JAX array, got list"),
    "box counts": (lambda: d.giou_loss(BOXES, BOXES[[0, 1, 0]]), "boxes1 and boxes2 must broadcast, got shapes (2, 4)"),
    "coder": (lambda: d.encode_boxes(BOXES, BOXES[[0, 1, 0]]), "boxes and anchors must broadcast"),
    "pairs": (lambda: d.pairwise_iou(BOXES[None], BOXES), "boxes1 must have shape (n, 4), got shape (1, 2, 4)"),
    "xywh": (lambda: d.pad_boxes([np.array([[50, 60, 8, 8]])], [[1]], 3), "given as x, y, width, height must be conv"),
    "rows": (lambda: d.pad_boxes([BOXES], [[1, 1]], -1), "max_boxes must be at least 0, got -1"),
    "ragged": (
        lambda: d.pad_boxes([[[1, 2, 3, 4], [1]]], [[1, 1]], 3),
        "boxes must be an array for each image, got rows of several lengths",
    ),
    "no list": (lambda: d.pad_boxes(None, None, 3), "boxes must be a list with an array for each image, got NoneType"),
    "complex": (lambda: d.pad_boxes([BOXES + 0j], [[1, 1]], 3), "boxes must be numbers, got dtype complex128"),
    "wide label": (
        lambda: d.pad_boxes([BOXES], [[1, 2**40]], 3),
        "labels must be 32-bit integers from 0 on, got [1, 1099511627776]",
    ),
    "outputs": (lambda: loss(outputs={"cls_logits": 1}), "outputs must be RetinaNetOutputs, got dict"),
    "rank": (lambda: loss(outputs=d.RetinaNetOutputs(BOXES, BOXES)), "cls_logits must have shape (batch, anchors, cl"),
    "int anchors": (lambda: loss(anchors=BOXES.astype(int)), "anchors must be floating point, got dtype int64"),
    "flat anchor": (
        lambda: loss(anchors=np.array([[0.0, 0, 10, 10], [1, 0, 1, 10]])),
        "anchors must be finite with x1 < x2 and y1 < y2, got [1.0, 0.0, 1.0, 10.0] at row 1",
    ),
    "two heights": (lambda: d.clip_boxes(BOXES, (64, 64), 64), "height must be a scalar, got shape (2,)"),
    "labels": (lambda: loss(labels=[[0, 0]]), "labels must be a NumPy or JAX array, got list"),
    "loss": (lambda: loss(classification_loss="focal"), "classification_loss must be a function, got 'focal'"),
    "tuple": (lambda: loss(classification_loss=lambda x, y, **o: (1, 2)), "must return one number an image, got tuple"),
    "step box loss": (
        lambda: step(box_loss="iou"),
        "box_loss must be one of l1, smooth_l1, giou, diou, ciou, got 'iou'",
    ),
    "step loss": (lambda: step(classification_loss="focal"), "classification_loss must be a function, got 'focal'"),
    "box rows": (lambda: step(batch={**BATCH, "boxes": [[0.0] * 4]}), "boxes must be a NumPy or JAX array, got list"),
    "state": (
        lambda: d.training_step(MODEL, optax.sgd(0.1))[2](MODEL, BATCH),
        "state must be a TrainState, as training_step or step returns it, got RetinaNet",
    ),
    "batch": (lambda: step(batch=(1, 2)), "batch must be a dict of images, boxes, labels, valid, got tuple"),
    "no valid": (lambda: step(batch={k: BATCH[k] for k in ("images", "boxes", "labels")}), "got dict without valid"),
    "optimizer": (lambda: step(optax.adam), "optimizer must be of optax, as optax.sgd(1e-2), got <function adam"),
    "step model": (lambda: step(model=None), "model must be a RetinaNet, got NoneType"),
    "classes": (lambda: nms(classes=np.zeros(2)), "classes must be of integer dtype, got dtype float64"),
    "scores": (lambda: nms(scores=np.array([1, 2])), "scores must be of floating point dtype, got dtype int64"),
    "valid": (lambda: nms(valid=np.array([1, 0])), "valid must be of bool dtype, got dtype int64"),
    "traced": (lambda: jax.eval_shape(lambda t: nms(iou_threshold=t), 0.5), "iou_threshold must be a Python number"),
    "outputs 2.0": (lambda: nms(max_outputs=2.0), "max_outputs must be an integer, got 2.0"),
    "no anchor": (lambda: d.match_anchors(BOXES[:0], BOXES, np.ones(2, bool)), "anchors must have at least one row"),
    "valid list": (lambda: d.match_anchors(BOXES, BOXES, [True] * 2), "valid must be a NumPy or JAX array, got list"),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_message(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_an_optimizer_is_what_has_init_and_update():
    """``optax.MultiSteps`` is no ``GradientTransformation``."""
    state, losses = step(optax.MultiSteps(optax.sgd(0.1), 2))
    assert sorted(losses) == ["bbox_regression", "classification"]
    assert isinstance(state.optimizer_state, optax.MultiStepsState)


class Levels(nnx.Module):
    """A backbone of one's own."""

    out_channels = 16

    def __init__(self, rngs, strides=(8, 16, 32, 64, 128)):
        self.conv = nnx.Conv(3, 16, (1, 1), rngs=rngs)
        self.strides = strides

    def __call__(self, images, *, train=False):
        x = self.conv(images)
        return tuple(nnx.avg_pool(x, (s, s), (s, s), padding="SAME") for s in self.strides)


def outputs_of(backbone):
    def run(images):
        return d.RetinaNet(backbone(), 3, rngs=nnx.Rngs(0))(images)

    return jax.eval_shape(run, jax.ShapeDtypeStruct((1, 64, 96, 3), np.float32))


def test_a_backbone_of_ones_own():
    assert outputs_of(lambda: Levels(nnx.Rngs(0))).cls_logits.shape == (1, 1161, 3)
    for strides in [(4, 8, 16, 32, 64), (8, 16, 32, 64)]:
        with pytest.raises(ValueError, match=r"levels of height, width and channels \[\(8, 12, 16\), .*, got \["):
            outputs_of(lambda strides=strides: Levels(nnx.Rngs(0), strides))


def test_a_backbone_returns_a_list():
    class Named(Levels):
        def __call__(self, images, *, train=False):
            return dict(enumerate(super().__call__(images, train=train)))

    with pytest.raises(ValueError, match="backbone must return a list with an array for each level, got dict"):
        outputs_of(lambda: Named(nnx.Rngs(0)))


def test_anchors_may_be_lists():
    """They become tuples: the structure of a model is hashed when it is compiled."""
    model = build(anchors=d.AnchorGenerator([[32], [64], [128], [256], [512]], [1.0]))
    assert isinstance(hash(nnx.split(model)[0]), int)
    assert model.generator.per_location == 1


def test_suppression_takes_numpy_arrays():
    assert np.asarray(nms().indices)[np.asarray(nms().valid)].tolist() == [1]


def test_images_narrower_than_float32_are_widened_and_mixed_ones_agree():
    """Places of pixels have no room in float16."""
    narrow = PHOTO.astype(np.float16)
    batch = d.preprocess([narrow], min_size=96, max_size=200)
    assert batch.images.dtype == np.float32
    np.testing.assert_array_equal(batch.images, d.preprocess([narrow.astype(np.float32)], min_size=96, max_size=200)[0])
    assert d.preprocess([PHOTO, PHOTO.astype(np.float64)], min_size=40).images.dtype == np.float64


def test_normalised_images_are_warned_of():
    with pytest.warns(UserWarning, match=r"got pixels down to -.* in image 0: are they normalised already"):
        d.preprocess([PHOTO * 4 - 2], min_size=40)


def test_pixels_up_to_255_are_warned_of_by_detect():
    with pytest.warns(UserWarning, match=r"are expected normalised, .* got pixels up to 255: are they 0 to 255"):
        d.detect(MODEL, np.full_like(IMAGES, 255), SIZES)
