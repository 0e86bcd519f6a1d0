"""WGAN-GP: five critic steps, each on images of its own, with the gradient penalty; then the generator."""

import jax
import numpy as np
import pytest

import jaxfocal as jf
from benchmarks._program_losses import PENALTY, wgan_gp
from parity_tests.updates._two_model import GAN, STEPS, apply, distance, draw_params

torch = pytest.importorskip("torch", reason="compares with PyTorch")
from parity_tests.updates._torch_two_model import arrays, module  # noqa: E402
from parity_tests.updates.programs._program import (  # noqa: E402
    adam,
    assert_same,
    jax_run,
    stacked,
    tensors,
    torch_adam,
)
from torchref.adversarial import wgan_gp_step  # noqa: E402

N_CRITIC, BATCH = 5, 8
PARAMS = draw_params(GAN)


def draw_batches():
    """Noise ``(steps, 40, 3)``, real ``(steps, 40, 4)``, and a key for each critic step ``(steps, 5)``."""
    rng = np.random.default_rng(8)
    noise, real = (rng.normal(size=(STEPS, N_CRITIC * BATCH, n)) for n in (3, 4))
    return noise, real, jax.random.split(jax.random.key(9), (STEPS, N_CRITIC))


NOISE, REAL, KEYS = draw_batches()


def losses(params, noise, real, keys):
    def penalty(critic, real, fake):
        return jf.gradient_penalty(critic, real, fake, keys[0])

    return wgan_gp(lambda name, x: apply(params[name], x), noise, real, penalty)


def torch_run(n_critic=N_CRITIC):
    mix = jax.vmap(jax.vmap(lambda key: jax.random.uniform(key, (BATCH,))))(KEYS)  # (steps, 5, 8)
    generator, critic = module(PARAMS["generator"]), module(PARAMS["discriminator"])
    optimizers = torch_adam(1e-2, generator), torch_adam(2e-2, critic)
    history = []
    for batch in tensors((NOISE, REAL, np.asarray(mix.swapaxes(1, 2).reshape(STEPS, -1)))):
        g, c = wgan_gp_step(generator, critic, *optimizers, *batch, n_critic=n_critic, penalty=PENALTY)
        history.append({"g": g, "d": c})
    return {"generator": arrays(generator), "discriminator": arrays(critic)}, stacked(history)


def test_parameters_and_losses():
    players = {
        "critic": jf.Player(adam(2e-2), loss="d", wrt="discriminator", n_steps=N_CRITIC),
        "generator": jf.Player(adam(1e-2), loss="g", wrt="generator"),
    }
    state, metrics = jax_run(jf.multi_update(losses, players, order="alternating"), PARAMS, (NOISE, REAL, KEYS))
    assert_same(state.params, metrics, *torch_run())


def test_one_critic_step_on_everything_is_another_algorithm():
    assert distance(torch_run(n_critic=1)[0], torch_run()[0]) > 1e-2
