"""torchvision's models with random weights, and the same here; big ones are built once a session."""

from functools import cache
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal import detection

BUILDERS = {"v1": "retinanet_resnet50_fpn", "v2": "retinanet_resnet50_fpn_v2"}


@cache
def _big(version):
    import torch
    import torchvision.models.detection as theirs

    torch.manual_seed(0)
    torch_model = getattr(theirs, BUILDERS[version])(weights=None, weights_backbone=None).double().eval()
    for module in torch_model.modules():  # statistics that say something
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.7, 1.3)
    build = getattr(detection, BUILDERS[version])
    model = nnx.eval_shape(lambda: build(rngs=nnx.Rngs(0), param_dtype=jnp.float64))
    return SimpleNamespace(torch=torch_model, ours=detection.load_torchvision(model, torch_model.state_dict()))


@pytest.fixture(scope="session", params=["v1", "v2"])
def big(request):
    """torchvision's model and ours, of either version, in float64 with the same random weights."""
    pytest.importorskip("torch", reason="compares with PyTorch")
    return _big(request.param)


def small_model(num_classes=4, *, dtype=np.float64, norm="batch"):
    """ResNet-18, an eighth as wide, with 16 channels in the pyramid: for what needs no weights of torchvision.

    Its parameters are drawn by numpy, which compiles nothing, from the distributions that the model starts from.
    """

    def build():
        rngs = nnx.Rngs(0)
        backbone = detection.resnet_fpn(18, width=8, out_channels=16, norm=norm, param_dtype=dtype, rngs=rngs)
        return detection.RetinaNet(backbone, num_classes, param_dtype=dtype, rngs=rngs)

    rng = np.random.default_rng(0)
    model = nnx.eval_shape(build)
    drawn = [(path, leaf.replace(_draw(rng, path, leaf))) for path, leaf in nnx.to_flat_state(nnx.state(model))]
    nnx.update(model, nnx.from_flat_state(drawn))
    return model


def _draw(rng, path, leaf):
    if path[-1] == "kernel":
        deviation = 0.01 if path[0] == "head" else np.sqrt(2 / np.prod(leaf.shape[:2]) / leaf.shape[3])
        return jnp.asarray(rng.normal(0, deviation, leaf.shape), leaf.dtype)
    value = -np.log(99) if path[-2:] == ("cls_logits", "bias") else float(path[-1] in ("scale", "var"))
    return jnp.asarray(np.full(leaf.shape, value), leaf.dtype)


@pytest.fixture(scope="session")
def small():
    return small_model()


def small_batch(batch=2, height=64, width=96, num_classes=4, rows=5, seed=0, dtype=np.float64):
    """Images and padded boxes; the last image has no box."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 30, (batch, rows, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(8, 34, (batch, rows, 2))], axis=2)
    valid = np.arange(rows) < np.array([rows - 1] * (batch - 1) + [0])[:, None]
    return {
        "images": rng.normal(size=(batch, height, width, 3)).astype(dtype),
        "boxes": np.where(valid[..., None], boxes, -1).astype(dtype),
        "labels": rng.integers(0, num_classes, (batch, rows)).astype(np.int32),
        "valid": valid,
    }
