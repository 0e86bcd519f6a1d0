"""TD3: twin critics with one optimizer, an actor that moves every second step, slow copies of all three.

A slow copy is a player too. Gradient descent with learning rate tau on half its squared distance to the original is
``copy <- tau original + (1 - tau) copy``.
"""

import numpy as np
import optax
import pytest

import jaxfocal as jf
from benchmarks._program_losses import TARGETS as COPIES
from benchmarks._program_losses import half_squared_distance, td3
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
from torchref.reinforcement import TD3, td3_step  # noqa: E402

TAU = 0.05
SIZES = {"actor": (4, 8, 2), "critic1": (6, 8, 1), "critic2": (6, 8, 1)}
PARAMS = draw_params({**SIZES, **{copy: SIZES[name] for name, copy in COPIES.items()}})


def draw_batches():
    """Eight transitions a step, and the noise of the target action."""
    rng = np.random.default_rng(5)

    def normal(*shape):
        return rng.normal(size=(STEPS, 8, *shape))

    done = rng.integers(0, 2, size=(STEPS, 8)).astype("float64")
    batch = {"observation": normal(4), "action": np.tanh(normal(2)), "next_observation": normal(4), "reward": normal()}
    return ({**batch, "done": done, "noise": 0.5 * normal(2)},)


BATCHES = draw_batches()


def losses(params, batch):
    copies, originals = ([params[name] for name in names] for names in (COPIES.values(), COPIES))
    values = td3(lambda name, x: apply(params[name], x), batch)
    return values | {"copies": half_squared_distance(copies, originals)}


def players(every=2):
    return {
        "critics": jf.Player(adam(2e-2), loss="critic", wrt=("critic1", "critic2")),
        "actor": jf.Player(adam(1e-2), loss="actor", wrt="actor", every=every),
        "copies": jf.Player(optax.sgd(TAU), loss="copies", wrt=tuple(COPIES.values()), every=every),
    }


def torch_run(policy_delay=2):
    nets = {name: module(layers) for name, layers in PARAMS.items()}
    for name in ("actor", "actor_target"):
        nets[name].append(torch.nn.Tanh())
    optimizers = torch_adam(1e-2, nets["actor"]), torch_adam(2e-2, nets["critic1"], nets["critic2"])
    agent = TD3(**nets, actor_optimizer=optimizers[0], critic_optimizer=optimizers[1], policy_delay=policy_delay)
    history = [{"critic": td3_step(agent, step, *batch)} for step, batch in enumerate(tensors(BATCHES))]
    return {name: arrays(net) for name, net in nets.items()}, stacked(history)


def test_parameters_and_losses():
    state, metrics = jax_run(jf.multi_update(losses, players(), order="alternating"), PARAMS, BATCHES)
    assert_same(state.params, metrics, *torch_run())


def test_an_actor_that_moves_every_step_is_another_algorithm():
    assert distance(torch_run(policy_delay=1)[0], torch_run()[0]) > 1e-2
