"""Two classifiers that teach each other: what the other says is a constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import STEPS, apply, distance, draw_params

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
from torchref.classifiers import mutual_in_turn_step, mutual_step  # noqa: E402

PARAMS = draw_params({"net1": (6, 8, 4), "net2": (6, 5, 4)})
STEP = {"simultaneous": mutual_step, "alternating": mutual_in_turn_step}


def draw_batches():
    """``x (steps, 8, 6)`` and labels ``(steps, 8)``."""
    rng = np.random.default_rng(4)
    return rng.normal(size=(STEPS, 8, 6)), rng.integers(0, 4, size=(STEPS, 8))


BATCHES = draw_batches()


def losses(params, x, label):
    logits1, logits2 = apply(params["net1"], x), apply(params["net2"], x)

    def loss(own, other):
        taught = jax.lax.stop_gradient(jax.nn.log_softmax(other))
        divergence = jnp.mean(jnp.sum(jnp.exp(taught) * (taught - jax.nn.log_softmax(own)), axis=1))
        return jf.softmax_focal_loss(own, label, gamma=0.0, reduction="mean") + divergence

    return {"l1": loss(logits1, logits2), "l2": loss(logits2, logits1)}


def torch_run(order):
    nets = [module(PARAMS[name]) for name in PARAMS]
    optimizers = torch_adam(1e-2, nets[0]), torch_adam(2e-2, nets[1])
    history = []
    for batch in tensors(BATCHES):
        l1, l2 = STEP[order](*nets, *optimizers, *batch)
        history.append({"l1": l1, "l2": l2})
    return dict(zip(PARAMS, map(arrays, nets), strict=True)), stacked(history)


@pytest.mark.parametrize("order", STEP)
def test_parameters_and_losses(order):
    players = {
        "net1": jf.Player(adam(1e-2), loss="l1", wrt="net1"),
        "net2": jf.Player(adam(2e-2), loss="l2", wrt="net2"),
    }
    state, metrics = jax_run(jf.multi_update(losses, players, order=order), PARAMS, BATCHES)
    assert_same(state.params, metrics, *torch_run(order))


def test_the_two_orders_are_two_algorithms():
    assert distance(torch_run("simultaneous")[0], torch_run("alternating")[0]) > 1e-4
