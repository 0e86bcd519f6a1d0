"""One program, given the way a framework calls its models: two chained linear models, five steps."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal as jf
from parity_tests.updates._two_model import SHALLOW, distance, draw_batches, draw_params, run

WEIGHTS = {name: layers[0] for name, layers in draw_params(SHALLOW).items()}
BATCHES = draw_batches(steps=5)
PLAYERS = {
    "model2": jf.Player(optax.adamw(1e-2), loss="l2", wrt=("model1", "model2")),
    "model1": jf.Player(optax.adam(1e-2), loss="l1", wrt="model1"),
}

# Five steps, each rounding sums of ten products a few times.
TOLERANCE = 1e-13


def apply_plain(name, params, x):
    weight, bias = params
    return x @ weight.T + bias[None, :]


def two_losses(apply):
    """The losses function of models called as ``apply(name, params[name], x)``."""

    def losses(params, x, y1, y2):
        a = apply("model1", params["model1"], x)
        b = apply("model2", params["model2"], jnp.tanh(a))
        return {
            "l1": jf.softmax_focal_loss(a, y1, reduction="mean"),
            "l2": jf.softmax_focal_loss(b, y2, reduction="mean"),
        }

    return losses


@cache
def plain_run():
    """The parameters after five steps in plain arrays, and the metrics of every step."""
    state, metrics = run(jf.multi_update(two_losses(apply_plain), PLAYERS), WEIGHTS, BATCHES)
    return state.params, metrics


def check_against_plain(apply, params, weight_of):
    """Runs the program in a framework, compares the weights and every metric, and returns the parameters."""
    expected_params, expected_metrics = plain_run()
    state, metrics = run(jf.multi_update(two_losses(apply), PLAYERS), params, BATCHES)
    for name in WEIGHTS:
        np.testing.assert_allclose(weight_of(state.params[name]), expected_params[name][0], rtol=0, atol=TOLERANCE)
    assert distance(metrics, expected_metrics) < TOLERANCE
    return state.params
