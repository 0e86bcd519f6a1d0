"""A convolutional GAN with BatchNorm in both models, alternating: D(real), D(fake.detach()), step D, D(fake), step G.

D sees real and fake images in two forward passes, each with its own batch statistics, and its running statistics move
in that order. PyTorch's third pass, for the generator's loss, moves them once more, unless it is told not to; in
training mode nothing reads them. Both can be said here: a generator with ``updates_state=False`` leaves them, and a
model state that counts turns knows which passes are to move them.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import STEPS, distance
from parity_tests.updates.programs._batch_norm import batch_norm, draw_norm

torch = pytest.importorskip("torch", reason="compares with PyTorch")
from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from parity_tests.updates.programs._program import (  # noqa: E402
    adam,
    assert_same,
    jax_run,
    stacked,
    tensors,
    torch_adam,
)
from parity_tests.updates.programs._torch_batch_norm import norm_arrays, norm_module, statistics  # noqa: E402
from torchref.two_model import gan_step  # noqa: E402

SLOPE = 0.2


def draw():
    """Parameters, statistics, and batches: noise ``(steps, 4, 3, 1, 1)`` and images ``(steps, 4, 1, 8, 8)``."""
    rng = np.random.default_rng(7)

    def kernel(*shape):
        return 0.3 * rng.normal(size=shape)

    g_norm, g_statistics = draw_norm(6)
    d_norm, d_statistics = draw_norm(5)
    params = {
        "generator": {"first": kernel(3, 6, 4, 4), "norm": g_norm, "last": kernel(6, 1, 4, 4)},
        "discriminator": {"first": kernel(4, 1, 4, 4), "middle": kernel(5, 4, 3, 3), "norm": d_norm}
        | {"last": kernel(1, 5, 4, 4)},
    }
    batches = rng.normal(size=(STEPS, 4, 3, 1, 1)), np.tanh(rng.normal(size=(STEPS, 4, 1, 8, 8)))
    return params, {"generator": g_statistics, "discriminator": d_statistics}, batches


PARAMS, STATISTICS, BATCHES = draw()


def conv(x, kernel, stride, padding):
    """``nn.Conv2d``: ``x (n, in, h, w)``, ``kernel (out, in, h, w)``."""
    return jax.lax.conv(x, kernel, (stride, stride), [(padding, padding)] * 2)


def conv_transpose(x, kernel, stride, padding):
    """``nn.ConvTranspose2d``: ``kernel (in, out, h, w)``."""
    turned = jnp.flip(kernel, (2, 3)).swapaxes(0, 1)
    pads = [(side - 1 - padding,) * 2 for side in kernel.shape[2:]]
    return jax.lax.conv_general_dilated(x, turned, (1, 1), pads, lhs_dilation=(stride, stride))


def generate(params, statistics, noise):
    x, statistics = batch_norm(params["norm"], statistics, conv_transpose(noise, params["first"], 1, 0))
    return jnp.tanh(conv_transpose(jax.nn.relu(x), params["last"], 2, 1)), statistics


def discriminate(params, statistics, x):
    x = jax.nn.leaky_relu(conv(x, params["first"], 2, 1), SLOPE)
    x, statistics = batch_norm(params["norm"], statistics, conv(x, params["middle"], 1, 1))
    return conv(jax.nn.leaky_relu(x, SLOPE), params["last"], 1, 0)[:, 0, 0, 0], statistics


def passes(params, statistics, noise, real):
    """The losses, the statistics after D(real) and D(fake.detach()), and those of D after D(fake) alone."""

    def criterion(logits, label):
        return jf.sigmoid_focal_loss(logits, jnp.full_like(logits, label), gamma=0.0, reduction="mean")

    fake, g_statistics = generate(params["generator"], statistics["generator"], noise)
    of_real, d_statistics = discriminate(params["discriminator"], statistics["discriminator"], real)
    caught, d_statistics = discriminate(params["discriminator"], d_statistics, jax.lax.stop_gradient(fake))
    fooled, third = discriminate(params["discriminator"], statistics["discriminator"], fake)
    values = {"d": criterion(of_real, 1.0) + criterion(caught, 0.0), "g": criterion(fooled, 1.0)}
    return values, {"generator": g_statistics, "discriminator": d_statistics}, third


def losses(params, statistics, noise, real):
    values, moved, _ = passes(params, statistics, noise, real)
    return values, moved


def losses_by_turn(params, state, noise, real):
    """In the discriminator's turn the first two passes move statistics, in the generator's the third."""
    values, in_turn_of_d, third = passes(params, state["statistics"], noise, real)
    in_turn_of_g = {**state["statistics"], "discriminator": third}
    statistics = jax.tree.map(partial(jnp.where, state["turn"] == 0), in_turn_of_d, in_turn_of_g)
    return values, {"statistics": statistics, "turn": 1 - state["turn"]}


def torch_models():
    generator, discriminator = PARAMS["generator"], PARAMS["discriminator"]

    def with_kernel(layer, kernel):
        layer.weight = nn.Parameter(torch.tensor(kernel))
        return layer

    return nn.Sequential(
        with_kernel(nn.ConvTranspose2d(3, 6, 4, 1, 0, bias=False), generator["first"]),
        norm_module(generator["norm"], nn.BatchNorm2d),
        nn.ReLU(),
        with_kernel(nn.ConvTranspose2d(6, 1, 4, 2, 1, bias=False), generator["last"]),
        nn.Tanh(),
    ), nn.Sequential(
        with_kernel(nn.Conv2d(1, 4, 4, 2, 1, bias=False), discriminator["first"]),
        nn.LeakyReLU(SLOPE),
        with_kernel(nn.Conv2d(4, 5, 3, 1, 1, bias=False), discriminator["middle"]),
        norm_module(discriminator["norm"], nn.BatchNorm2d),
        nn.LeakyReLU(SLOPE),
        with_kernel(nn.Conv2d(5, 1, 4, 1, 0, bias=False), discriminator["last"]),
        nn.Flatten(0),
    )


def torch_run(*, third_pass_moves_statistics):
    generator, discriminator = torch_models()
    optimizers = torch_adam(1e-2, generator), torch_adam(1e-2, discriminator)
    norm, passes = discriminator[3], []

    def set_momentum(*_):
        passes.append(None)
        norm.momentum = 0.0 if len(passes) % 3 == 0 and not third_pass_moves_statistics else 0.1

    discriminator.register_forward_pre_hook(set_momentum)
    history = []
    for batch in tensors(BATCHES):
        g, d = gan_step(generator, discriminator, *optimizers, binary_cross_entropy_with_logits, *batch)
        history.append({"g": g, "d": d})

    def arrays(model, first, norm, last):
        kernels = {"first": model[first].weight, "last": model[last].weight}
        return {**{name: k.detach().numpy() for name, k in kernels.items()}, "norm": norm_arrays(model[norm])}

    params = {
        "generator": arrays(generator, 0, 1, 3),
        "discriminator": arrays(discriminator, 0, 3, 5) | {"middle": discriminator[2].weight.detach().numpy()},
    }
    return {
        "params": params,
        "statistics": {"generator": statistics(generator[1]), "discriminator": statistics(norm)},
    }, stacked(history)


def jax_run_of(losses, model_state, *, generator_updates_state):
    players = {
        "discriminator": jf.Player(adam(1e-2), loss="d", wrt="discriminator"),
        "generator": jf.Player(adam(1e-2), loss="g", wrt="generator", updates_state=generator_updates_state),
    }
    update = jf.multi_update(losses, players, order="alternating", has_model_state=True)
    state, metrics = jax_run(update, PARAMS, BATCHES, model_state=model_state)
    return state.params, state.model_state, metrics


def test_parameters_statistics_and_losses():
    params, statistics, metrics = jax_run_of(losses, STATISTICS, generator_updates_state=False)
    expected = torch_run(third_pass_moves_statistics=False)
    assert_same({"params": params, "statistics": statistics}, metrics, *expected)


def test_the_third_pass_moves_the_statistics_once_more():
    start = {"statistics": STATISTICS, "turn": 0}
    params, model_state, metrics = jax_run_of(losses_by_turn, start, generator_updates_state=True)
    expected = torch_run(third_pass_moves_statistics=True)
    assert_same({"params": params, "statistics": model_state["statistics"]}, metrics, *expected)


def test_the_statistics_of_the_third_pass_change_no_parameter_and_no_loss():
    (with_it, losses), (without, same_losses) = (
        torch_run(third_pass_moves_statistics=moves) for moves in (True, False)
    )
    assert distance(with_it["params"], without["params"]) == distance(losses, same_losses) == 0
    assert distance(with_it["statistics"]["generator"], without["statistics"]["generator"]) == 0
    assert distance(with_it["statistics"]["discriminator"], without["statistics"]["discriminator"]) > 1e-3
