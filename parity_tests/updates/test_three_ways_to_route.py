"""Detach in PyTorch, one gradient of ``l1 + l2`` under stop_gradient, and routed players: the same gradients."""

import jax
import optax
import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import (
    DEEPER,
    chain_losses,
    detached_losses,
    distance,
    draw_batches,
    draw_params,
)

torch = pytest.importorskip("torch", reason="compares with PyTorch")

from parity_tests.updates._torch_two_model import two_models  # noqa: E402

# One forward and one backward pass: a few dozen roundings of 2.2e-16, relative to the largest gradient.
TOLERANCE = 1e-14


def by_detach(batch):
    pair = two_models(draw_params(DEEPER))
    l1, l2 = pair.losses(*map(torch.tensor, batch), detach=True)
    l2.backward()
    l1.backward()
    return {name: gradients(getattr(pair, name)) for name in ("model1", "model2")}


def gradients(model):
    linears = [layer for layer in model if isinstance(layer, torch.nn.Linear)]
    return [(linear.weight.grad.numpy(), linear.bias.grad.numpy()) for linear in linears]


def by_players(losses, params, batch):
    """The gradients as ``optax.trace`` keeps them."""
    trace = optax.trace(decay=0.0)
    players = {f"model{i}": jf.Player(trace, loss=f"l{i}", wrt=f"model{i}") for i in (2, 1)}
    update = jf.multi_update(losses, players)
    state, _ = update.update(update.init(params), *batch)
    return {name: opt_state.trace for name, opt_state in state.opt_states.items()}


def by_sum(losses, params, batch):
    return jax.grad(lambda params: losses(params, *batch)["total"])(params)


@pytest.fixture(scope="module")
def ways():
    batch = [array[0] for array in draw_batches(steps=1)]

    @jax.jit
    def compiled(params, batch):
        return {
            "players": by_players(chain_losses, params, batch),
            "players with stop_gradient": by_players(detached_losses, params, batch),
            "sum": by_sum(chain_losses, params, batch),
            "sum with stop_gradient": by_sum(detached_losses, params, batch),
        }

    return {"detach": by_detach(batch), **compiled(draw_params(DEEPER), batch)}


@pytest.mark.parametrize("way", ["players", "players with stop_gradient", "sum with stop_gradient"])
def test_as_detach(ways, way):
    assert distance(ways[way], ways["detach"]) < TOLERANCE


def test_the_sum_without_stop_gradient_gives_model1_another_gradient(ways):
    assert distance(ways["sum"]["model2"], ways["detach"]["model2"]) < TOLERANCE
    assert distance(ways["sum"]["model1"], ways["detach"]["model1"]) > 1e-2
