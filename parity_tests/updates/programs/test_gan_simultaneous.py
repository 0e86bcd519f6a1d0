"""Both players of a GAN at the old parameters: PyTorch must wipe the discriminator between the two backwards."""

import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import GAN, distance, draw_gan_batches, draw_params, gan_losses

torch = pytest.importorskip("torch", reason="compares with PyTorch")
import torchref  # noqa: E402
from parity_tests.updates._torch_two_model import arrays, module  # noqa: E402
from parity_tests.updates.programs._program import (  # noqa: E402
    adam,
    assert_same,
    jax_run,
    stacked,
    tensors,
    torch_adam,
)
from torchref.adversarial import simultaneous_gan_step  # noqa: E402
from torchref.two_model import gan_step  # noqa: E402

PARAMS, BATCHES = draw_params(GAN), draw_gan_batches()


def torch_run(gan_step):
    generator, discriminator = module(PARAMS["generator"]), module(PARAMS["discriminator"])
    optimizers = torch_adam(1e-2, generator), torch_adam(2e-2, discriminator)

    def criterion(logits, labels):
        return torchref.sigmoid_focal_loss(logits, labels, reduction="mean")

    history = []
    for batch in tensors(BATCHES):
        g, d = gan_step(generator, discriminator, *optimizers, criterion, *batch)
        history.append({"g": g, "d": d})
    return {"generator": arrays(generator), "discriminator": arrays(discriminator)}, stacked(history)


def test_parameters_and_losses():
    players = {
        "discriminator": jf.Player(adam(2e-2), loss="d", wrt="discriminator"),
        "generator": jf.Player(adam(1e-2), loss="g", wrt="generator"),
    }
    state, metrics = jax_run(jf.multi_update(gan_losses, players), PARAMS, BATCHES)
    assert_same(state.params, metrics, *torch_run(simultaneous_gan_step))


def test_alternating_is_another_algorithm():
    assert distance(torch_run(gan_step)[0], torch_run(simultaneous_gan_step)[0]) > 1e-3
