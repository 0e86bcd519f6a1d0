"""optax.adam and torch.optim.Adam from the same start walk the same path, on one model with either focal loss."""

import jax
import numpy as np
import optax
import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import TOLERANCES, apply, distance, draw_batches, draw_params

torch = pytest.importorskip("torch", reason="compares with PyTorch")
import torchref  # noqa: E402
from parity_tests.updates._torch_two_model import arrays, module, tensors  # noqa: E402

SIZES = {"model": (10, 3)}
OPTIONS = {
    "sigmoid_focal_loss": {"gamma": 2.0, "alpha": 0.25, "reduction": "mean"},
    "softmax_focal_loss": {"gamma": 2.0, "label_smoothing": 0.1, "reduction": "mean"},
}


def batches_for(name):
    x, classes, _ = draw_batches(steps=100)
    return x, np.eye(3)[classes] if name == "sigmoid_focal_loss" else classes


def optax_path(name, betas):
    batches = batches_for(name)
    layers = draw_params(SIZES)["model"]
    adam = optax.adam(1e-2, b1=betas[0], b2=betas[1], eps=1e-8)

    def step(carry, batch):
        layers, opt_state = carry
        x, y = batch
        gradient = jax.grad(lambda layers: getattr(jf, name)(apply(layers, x), y, **OPTIONS[name]))(layers)
        updates, opt_state = adam.update(gradient, opt_state, layers)
        layers = optax.apply_updates(layers, updates)
        return (layers, opt_state), layers

    return jax.lax.scan(step, (layers, adam.init(layers)), batches)[1]


def torch_path(name, betas):
    model = module(draw_params(SIZES)["model"])
    adam = torch.optim.Adam(model.parameters(), lr=1e-2, betas=betas, eps=1e-8)
    path = []
    for x, y in tensors(batches_for(name)):
        adam.zero_grad()
        getattr(torchref, name)(model(x), y, **OPTIONS[name]).backward()
        adam.step()
        path.append(arrays(model))
    return jax.tree.map(lambda *leaves: np.stack(leaves), *path)


@pytest.mark.parametrize(
    ("name", "betas"), [("sigmoid_focal_loss", (0.9, 0.999)), ("softmax_focal_loss", (0.5, 0.9))], ids=OPTIONS
)
def test_one_path(name, betas):
    assert distance(optax_path(name, betas), torch_path(name, betas)) < TOLERANCES[0][1]
