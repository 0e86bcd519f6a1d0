"""Policy and value on one trunk; the advantage is a constant to the policy."""

import numpy as np
import pytest

import jaxfocal as jf
from benchmarks._program_losses import actor_critic
from parity_tests.updates._two_model import STEPS, apply, draw_params

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
from torchref.reinforcement import SharedTrunk, actor_critic_step, actor_then_critic_step  # noqa: E402

PARAMS = draw_params({"trunk": (5, 8, 6), "policy": (6, 3), "value": (6, 1)})


def draw_batches():
    """Observations ``(steps, 8, 5)``, actions ``(steps, 8)`` and returns ``(steps, 8)``."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(STEPS, 8, 5)), rng.integers(0, 3, size=(STEPS, 8)), rng.normal(size=(STEPS, 8))


BATCHES = draw_batches()


def losses(params, observations, actions, returns):
    return actor_critic(lambda name, x: apply(params[name], x), observations, actions, returns)


def torch_run(step, *learning_rates_and_parts):
    model = SharedTrunk(*(module(PARAMS[name]) for name in PARAMS))
    optimizers = [
        torch_adam(learning_rate, *(getattr(model, part) for part in parts))
        for learning_rate, parts in learning_rates_and_parts
    ]
    history = []
    for batch in tensors(BATCHES):
        policy, value = step(model, *optimizers, *batch)
        history.append({"policy": policy, "value": value})
    return {name: arrays(getattr(model, name)) for name in PARAMS}, stacked(history)


def test_one_optimizer_on_the_sum():
    everything = ("trunk", "policy", "value")
    update = jf.multi_update(losses, {"a2c": jf.Player(adam(1e-2), loss="total", wrt=everything)})
    state, metrics = jax_run(update, PARAMS, BATCHES)
    assert_same(state.params, metrics, *torch_run(actor_critic_step, (1e-2, everything)))


def test_an_optimizer_each_and_both_on_the_trunk():
    actor, critic = ("trunk", "policy"), ("trunk", "value")
    players = {
        "actor": jf.Player(adam(1e-2), loss="policy", wrt=actor),
        "critic": jf.Player(adam(2e-2), loss="value", wrt=critic),
    }
    state, metrics = jax_run(jf.multi_update(losses, players, order="alternating"), PARAMS, BATCHES)
    assert_same(state.params, metrics, *torch_run(actor_then_critic_step, (1e-2, actor), (2e-2, critic)))


def test_the_advantage_gives_the_value_head_no_gradient_of_the_policy():
    routes = jf.gradient_routes(losses, PARAMS, *(batch[0] for batch in BATCHES))
    assert routes["policy"] == {"trunk": "all", "policy": "all", "value": "none"}
