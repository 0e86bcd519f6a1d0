"""A small RetinaNet of torchvision's parts, and ours: ten SGD steps, and the other box losses."""

from collections import OrderedDict
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxfocal import detection
from parity_tests.detection.conftest import small_batch

torch = pytest.importorskip("torch", reason="compares with PyTorch")

CHANNELS, CLASSES = 16, 4


@pytest.fixture(scope="module")
def pair():
    """ResNet-18 with 16 channels in the pyramid and the heads, and the same here."""
    from torchvision.models import resnet18
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.backbone_utils import BackboneWithFPN
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    torch.manual_seed(0)
    layers = {f"layer{i}": str(i) for i in (2, 3, 4)}
    backbone = BackboneWithFPN(resnet18(), layers, [128, 256, 512], CHANNELS, LastLevelP6P7(CHANNELS, CHANNELS))
    from torchvision.models.detection.retinanet import _default_anchorgen

    theirs = RetinaNet(backbone, CLASSES, anchor_generator=_default_anchorgen()).double()

    def build():
        rngs = nnx.Rngs(0)
        body = detection.resnet_fpn(18, out_channels=CHANNELS, param_dtype=jnp.float64, rngs=rngs)
        return detection.RetinaNet(body, CLASSES, param_dtype=jnp.float64, rngs=rngs)

    return theirs, detection.load_torchvision(nnx.eval_shape(build), theirs.state_dict())


def torch_losses(model, batch):
    features = model.backbone(torch.tensor(batch["images"]).permute(0, 3, 1, 2).contiguous())
    outputs = model.head(list(features.values()) if isinstance(features, OrderedDict) else features)
    height, width = batch["images"].shape[1:3]
    sizes = [(-(-height // s), -(-width // s)) for s in (8, 16, 32, 64, 128)]
    anchors = torch.tensor(np.asarray(detection.AnchorGenerator()((height, width), sizes, jnp.float64)))
    targets = [
        {"boxes": torch.tensor(boxes[valid]), "labels": torch.tensor(labels[valid], dtype=torch.int64)}
        for boxes, labels, valid in zip(batch["boxes"], batch["labels"], batch["valid"], strict=True)
    ]
    return model.compute_loss(targets, outputs, [anchors] * len(targets))


def test_ten_sgd_steps_with_batch_norm(pair):
    """Parameters and running statistics to 1e-8, in one compiled step; the second image has no box."""
    theirs, ours = pair
    batches = [small_batch(seed=seed, height=64, width=64) for seed in range(10)]
    graphdef, state, step = detection.training_step(ours, optax.sgd(1e-2, momentum=0.9))
    step = jax.jit(step)
    theirs.train()
    optimizer = torch.optim.SGD(theirs.parameters(), 1e-2, momentum=0.9)
    for batch in batches:
        state, losses = step(state, batch)
        optimizer.zero_grad()
        torch_loss = torch_losses(theirs, batch)
        sum(torch_loss.values()).backward()
        optimizer.step()
        for name, loss in torch_loss.items():
            np.testing.assert_allclose(losses[name], loss.item(), rtol=1e-8)
    assert step._cache_size() == 1
    exported = detection.export_torchvision(nnx.merge(graphdef, state.params, state.model_state))
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_allclose(exported[name], tensor.numpy(), rtol=1e-8, atol=1e-8, err_msg=name)
    assert exported["backbone.body.bn1.num_batches_tracked"] == 10


@pytest.mark.filterwarnings("ignore:The tensor attributes .* were assigned during export")
def test_theirs_cannot_be_exported(pair):
    """For the size of what is left before suppression; ours is, in ``test_compiled``."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    theirs, _ = pair
    with pytest.raises(GuardOnDataDependentSymNode, match=r"torchvision/ops/boxes.py:\d+ in batched_nms"):
        torch.export.export(theirs.eval(), ([torch.rand(3, 64, 96, dtype=torch.float64)],))


@pytest.mark.parametrize("box_loss", ["l1", "smooth_l1", "giou", "diou", "ciou"])
def test_box_losses(pair, box_loss):
    """Value and gradient with respect to the deltas, on boxes near and far."""
    theirs, _ = pair
    rng = np.random.default_rng(5)
    batch = small_batch(seed=5)
    sizes = [(-(-64 // s), -(-96 // s)) for s in (8, 16, 32, 64, 128)]
    anchors = np.asarray(detection.AnchorGenerator()((64, 96), sizes, jnp.float64))
    logits = rng.normal(size=(2, len(anchors), CLASSES))
    deltas = rng.normal(size=(2, len(anchors), 4))
    x = torch.tensor(deltas, requires_grad=True)
    theirs.head.regression_head._loss_type = box_loss
    targets = [
        {"boxes": torch.tensor(boxes[valid]), "labels": torch.tensor(labels[valid], dtype=torch.int64)}
        for boxes, labels, valid in zip(batch["boxes"], batch["labels"], batch["valid"], strict=True)
    ]
    outputs = {"cls_logits": torch.tensor(logits), "bbox_regression": x}
    losses = theirs.compute_loss(targets, outputs, [torch.tensor(anchors)] * 2)
    theirs.head.regression_head._loss_type = "l1"
    losses["bbox_regression"].backward()

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def ours(deltas):
        outputs = detection.RetinaNetOutputs(logits, deltas)
        arrays = (batch[name] for name in ("boxes", "labels", "valid"))
        result = detection.retinanet_loss(outputs, anchors, *arrays, box_loss=box_loss)
        return result["bbox_regression"], result["classification"]

    (value, classification), gradient = ours(deltas)
    np.testing.assert_allclose(value, losses["bbox_regression"].item(), rtol=1e-12)
    np.testing.assert_allclose(classification, losses["classification"].item(), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-9, atol=1e-12)
