"""A GAN, given the way a framework calls its models: two linear layers each with tanh between, 20 alternating steps."""

from functools import cache
from typing import Any

import jax.numpy as jnp

import jaxfocal as jf
from parity_tests.updates._two_model import GAN, OPTAX, distance, draw_gan_batches, draw_params, gan_losses_of, run

LAYERS = draw_params(GAN)
BATCHES = draw_gan_batches()
PLAYERS = {
    "discriminator": jf.Player(OPTAX["adam"](), loss="d", wrt="discriminator"),
    "generator": jf.Player(OPTAX["adam"](), loss="g", wrt="generator"),
}

# What the frameworks may differ in is the order in which a product is summed; 20 steps round a parameter by 4e-15.
TOLERANCE = 1e-13


def apply_plain(_, params, x):
    (w1, b1), (w2, b2) = params
    return jnp.tanh(x @ w1.T + b1[None, :]) @ w2.T + b2[None, :]


@cache
def plain_run():
    """The parameters after 20 steps in plain arrays, and the metrics of every step."""
    return _run(apply_plain, LAYERS)


def check_against_plain(call: Any, params: dict[str, Any], layers_of: Any) -> None:
    """Runs the program in a framework; ``layers_of(params[name])`` are the weights and biases as PyTorch has them."""
    expected_params, expected_metrics = plain_run()
    params, metrics = _run(call, params)
    assert distance({name: layers_of(params[name]) for name in LAYERS}, expected_params) < TOLERANCE
    assert distance(metrics, expected_metrics) < TOLERANCE


def _run(call: Any, params: dict[str, Any]) -> tuple[Any, Any]:
    update = jf.multi_update(gan_losses_of(call), PLAYERS, order="alternating")
    state, metrics = run(update, params, BATCHES)
    return state.params, metrics
