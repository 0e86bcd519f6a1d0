"""torchvision's RetinaNet and ours on the same random weights: outputs, losses, gradients, detections."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal import detection

torch = pytest.importorskip("torch", reason="compares with PyTorch")

SIZES = [(64, 96), (104, 72)]  # the second has odd sizes of features: 13x9, 7x5, 4x3
pytestmark = pytest.mark.xdist_group("big_detectors")


def images_of(size, seed=0, batch=2):
    return np.random.default_rng(seed).normal(size=(batch, *size, 3))


def torch_outputs(model, images):
    x = torch.tensor(images).permute(0, 3, 1, 2).contiguous()
    features = list(model.backbone(x).values())
    return features, model.head(features)


def relative(ours, theirs):
    ours, theirs = np.asarray(ours, np.float64), theirs.detach().numpy().astype(np.float64)
    assert ours.shape == theirs.shape
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


@partial(jax.jit, static_argnums=0)
def our_outputs(graphdef, state, images):
    model = nnx.merge(graphdef, state)
    return model.backbone(images), model(images)


@pytest.mark.parametrize("size", SIZES)
def test_features_and_outputs(big, size):
    """In float64 to 1e-9 and in float32 to 1e-4 of the largest value."""
    images = images_of(size)
    with torch.no_grad():
        features, outputs = torch_outputs(big.torch, images)
    graphdef, state = nnx.split(big.ours)
    for dtype, tolerance in ((jnp.float64, 1e-9), (jnp.float32, 1e-4)):
        cast = jax.tree.map(lambda x, dtype=dtype: x.astype(dtype) if x.dtype == jnp.float64 else x, state)
        ours, (logits, deltas) = our_outputs(graphdef, cast, images.astype(dtype))
        assert logits.dtype == dtype
        for a, b in zip(ours, features, strict=True):
            assert relative(a.transpose(0, 3, 1, 2), b) < tolerance
        assert relative(logits, outputs["cls_logits"]) < tolerance
        assert relative(deltas, outputs["bbox_regression"]) < tolerance


def ground_truth():
    """Two images, the first with boxes on and between the anchors, the second with none."""
    boxes = np.array([[4.0, 6.0, 40.0, 50.0], [20.3, 3.1, 69.7, 58.9], [0.0, 0.0, 32.0, 32.0], [50.0, 8.0, 60.0, 20.0]])
    labels = np.array([3, 90, 17, 0])
    return boxes, labels


@pytest.mark.parametrize("train", [True, False])
def test_losses_and_every_gradient(big, train):
    """In float64 to 1e-8 of the largest value of each parameter.

    By the statistics of the batch, which moves the running ones, and by the running ones.
    """
    images = images_of((64, 96))
    boxes, labels = ground_truth()
    big.torch.train(train)
    saved = {name: tensor.clone() for name, tensor in big.torch.state_dict().items()}
    big.torch.zero_grad()
    _, outputs = torch_outputs(big.torch, images)
    anchors = np.asarray(big.ours.anchors(64, 96, jnp.float64))
    targets = [
        {"boxes": torch.tensor(boxes), "labels": torch.tensor(labels)},
        {"boxes": torch.zeros((0, 4), dtype=torch.float64), "labels": torch.zeros(0, dtype=torch.int64)},
    ]
    losses = big.torch.compute_loss(targets, outputs, [torch.tensor(anchors)] * 2)
    sum(losses.values()).backward()
    moved = big.torch.state_dict()
    theirs = {name: p.grad for name, p in big.torch.named_parameters()}
    statistics = {name: moved[name].clone() for name in moved if "running" in name or "tracked" in name}
    big.torch.load_state_dict(saved)
    big.torch.eval()

    padded = detection.pad_boxes([boxes, np.zeros((0, 4))], [labels, np.zeros(0, int)], 6)
    graphdef, params, rest = nnx.split(big.ours, nnx.Param, ...)

    @partial(jax.jit)
    @partial(jax.value_and_grad, has_aux=True)
    def ours(params, rest, images, padded):
        model = nnx.merge(graphdef, params, rest, copy=True)
        losses = detection.retinanet_loss(model(images, train=train), anchors, *padded, box_loss=model.box_loss)
        return sum(losses.values()), (losses, nnx.state(model, nnx.Not(nnx.Param)))

    (_, (our_losses, rest)), gradients = ours(params, rest, images, padded)
    for name, loss in losses.items():
        np.testing.assert_allclose(our_losses[name], loss.item(), rtol=1e-9)
    as_model = nnx.merge(graphdef, gradients, rest)
    exported = detection.export_torchvision(as_model)
    assert set(theirs) <= set(exported)
    for name, gradient in theirs.items():
        assert relative(exported[name], gradient) < 1e-8, name
    for name, statistic in statistics.items():
        np.testing.assert_allclose(exported[name], statistic.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


@partial(jax.jit, static_argnums=0)
def our_detections(levels, outputs, anchors, image_sizes):
    return detection.postprocess_outputs(outputs, anchors, list(levels), image_sizes)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("trained", [False, True])
def test_detections(big, size, trained):
    """The same count, labels, boxes and scores; ``trained``: outputs spread so that hundreds of boxes pass."""
    images = images_of(size, 1)
    image_sizes = [(size[0] - 5, size[1]), (size[0], size[1] - 9)]
    with torch.no_grad():
        _, outputs = torch_outputs(big.torch, images)
    logits, deltas = (outputs[name].numpy() for name in ("cls_logits", "bbox_regression"))
    if trained:
        rng = np.random.default_rng(2)
        logits = (logits - logits.mean()) / logits.std() * 1.5 - 5 + rng.normal(0, 1, logits.shape)
        deltas = deltas / deltas.std() * 0.3
    anchors = np.asarray(big.ours.anchors(*size, jnp.float64))
    levels = big.ours.level_sizes(*size)
    split = {
        "cls_logits": list(torch.tensor(logits).split(levels, dim=1)),
        "bbox_regression": list(torch.tensor(deltas).split(levels, dim=1)),
    }
    theirs = big.torch.postprocess_detections(split, [list(torch.tensor(anchors).split(levels))] * 2, image_sizes)
    ours = our_detections(tuple(levels), detection.RetinaNetOutputs(logits, deltas), anchors, np.array(image_sizes))
    for i, image in enumerate(theirs):
        count = len(image["scores"])
        assert int(ours.valid[i].sum()) == count
        assert not trained or count == 300
        np.testing.assert_array_equal(ours.labels[i, :count], image["labels"].numpy())
        np.testing.assert_allclose(ours.boxes[i, :count], image["boxes"].numpy(), atol=1e-3, rtol=0)
        np.testing.assert_allclose(ours.scores[i, :count], image["scores"].numpy(), atol=1e-5, rtol=0)


def test_the_whole_of_inference(big):
    """From the same padded images: torchvision's forward against ``detect``, heads raised so that boxes are found."""
    size = (64, 96)
    images = np.random.default_rng(3).random((1, *size, 3))
    bias = big.torch.head.classification_head.cls_logits.bias
    saved = bias.detach().clone()
    with torch.no_grad():
        bias += torch.tensor(np.random.default_rng(4).normal(1, 1, len(bias)))
        transform = big.torch.transform
        transform.min_size, transform.max_size = (64,), 96
        theirs = big.torch([torch.tensor(images[0]).permute(2, 0, 1)])[0]
        ours = detection.load_torchvision(nnx.clone(big.ours), big.torch.state_dict())
        bias.copy_(saved)
    batch = detection.preprocess(list(images), min_size=64, max_size=96)
    found = detection.detect(ours, *batch)
    count = int(found.valid.sum())
    assert count == len(theirs["scores"]) > 10
    np.testing.assert_array_equal(found.labels[0, :count], theirs["labels"].numpy())
    np.testing.assert_allclose(found.boxes[0, :count], theirs["boxes"].numpy(), atol=1e-3, rtol=0)
    np.testing.assert_allclose(found.scores[0, :count], theirs["scores"].numpy(), atol=1e-5, rtol=0)
