"""optimizer2 over both models, a deeper model1: the two versions that PyTorch computes when they are written out."""

from functools import cache

import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import (
    DEEPER,
    TOLERANCES,
    chain_losses,
    chain_players,
    distance,
    draw_batches,
    draw_params,
    run_side_by_side,
)

torch = pytest.importorskip("torch", reason="compares with PyTorch")

from parity_tests.updates._torch_two_model import run_pair, two_models  # noqa: E402


def take_step(optimizer, params, gradients):
    for param, gradient in zip(params, gradients, strict=True):
        param.grad = gradient
    optimizer.step()


def simultaneous_step(pair, x, y1, y2):
    """Both gradients before either optimizer steps."""
    l1, l2 = pair.losses(x, y1, y2)
    model1 = list(pair.model1.parameters())
    both = [*model1, *pair.model2.parameters()]
    gradients1 = torch.autograd.grad(l1, model1, retain_graph=True)
    gradients2 = torch.autograd.grad(l2, both)
    take_step(pair.optimizer2, both, gradients2)
    take_step(pair.optimizer1, model1, gradients1)
    return l1.detach(), l2.detach()


def alternating_step(pair, x, y1, y2):
    """A forward pass of its own for either optimizer, at what the one before left."""
    model1 = list(pair.model1.parameters())
    both = [*model1, *pair.model2.parameters()]
    _, l2 = pair.losses(x, y1, y2)
    take_step(pair.optimizer2, both, torch.autograd.grad(l2, both))
    l1, _ = pair.losses(x, y1, y2)
    take_step(pair.optimizer1, model1, torch.autograd.grad(l1, model1))
    return l1.detach(), l2.detach()


STEPS = {"simultaneous": simultaneous_step, "alternating": alternating_step}


@cache
def torch_run(order, dtype="float64"):
    pair = two_models(draw_params(DEEPER, dtype), optimizer2_over_both=True)
    return run_pair(STEPS[order], pair, draw_batches(dtype))


@cache
def jax_runs(dtype):
    players = chain_players(wrt2=("model1", "model2"))
    updates = {order: jf.multi_update(chain_losses, players, order=order) for order in STEPS}
    return run_side_by_side(updates, draw_params(DEEPER, dtype), draw_batches(dtype))


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)
@pytest.mark.parametrize("order", STEPS)
def test_parameters_and_losses(order, dtype, tolerance):
    state, metrics = jax_runs(dtype)[order]
    params, losses = torch_run(order, dtype)
    assert distance(state.params, params) < tolerance
    assert distance({name: metrics[name] for name in losses}, losses) < tolerance


def test_the_two_orders_are_two_algorithms():
    assert 1e-4 < distance(*(torch_run(order)[0] for order in STEPS)) < 1e-2
