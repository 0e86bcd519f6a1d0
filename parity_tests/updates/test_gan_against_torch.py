"""The GAN step: the discriminator on detached fakes, then the generator through the discriminator it left."""

import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import (
    GAN,
    OPTAX,
    RUNS,
    distance,
    draw_gan_batches,
    draw_params,
    gan_losses,
    run,
)

torch = pytest.importorskip("torch", reason="compares with PyTorch")

from parity_tests.updates._torch_two_model import run_gan  # noqa: E402


@pytest.mark.parametrize(
    ("optimizers", "dtype", "tolerance"), [RUNS["mixed64"], RUNS["adam32"]], ids=["mixed64", "adam32"]
)
def test_parameters_and_losses(optimizers, dtype, tolerance):
    players = {
        "discriminator": jf.Player(OPTAX[optimizers[1]](), loss="d", wrt="discriminator"),
        "generator": jf.Player(OPTAX[optimizers[0]](), loss="g", wrt="generator"),
    }
    update = jf.multi_update(gan_losses, players, order="alternating")
    state, metrics = run(update, draw_params(GAN, dtype), draw_gan_batches(dtype))
    params, losses = run_gan(draw_params(GAN, dtype), optimizers, draw_gan_batches(dtype))
    assert distance(state.params, params) < tolerance
    assert distance({name: metrics[name] for name in losses}, losses) < tolerance
