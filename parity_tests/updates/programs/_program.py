"""What the programs share: batches of both frameworks, equal optimizers, and one comparison."""

from functools import partial
from typing import Any

import jax
import numpy as np
import optax
import torch
from torch import nn

import jaxfocal as jf
from parity_tests.updates._two_model import STEPS, distance

torch.set_num_threads(1)

# The reasoning of _two_model.TOLERANCES: 20 steps round a parameter by 4e-15 in all, the rest is the gradients' share.
TOLERANCE = 1e-12


def adam(learning_rate: float) -> optax.GradientTransformation:
    return optax.adam(learning_rate, b1=0.5, b2=0.9, eps=1e-8)


def torch_adam(learning_rate: float, *models: nn.Module) -> torch.optim.Adam:
    params = [param for model in models for param in model.parameters()]
    return torch.optim.Adam(params, lr=learning_rate, betas=(0.5, 0.9), eps=1e-8)


def by_step(batches: Any) -> list[Any]:
    """A batch a step, of arrays with a leading axis of steps."""
    return [jax.tree.map(lambda array, step=step: array[step], batches) for step in range(STEPS)]


def tensors(batches: Any) -> list[Any]:
    """The same in PyTorch."""
    return jax.tree.map(torch.tensor, by_step(batches))


def stacked(history: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    return jax.tree.map(lambda *values: np.stack(values), *history)


def jax_run(update: jf.MultiUpdate, params: Any, batches: tuple[Any, ...], **rest: Any) -> tuple[Any, Any]:
    """The last state, and the metrics stacked over the steps; ``rest`` goes to ``init``."""
    state, history = update.init(params, **rest), []
    step = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})(update.update)
    for batch in by_step(batches):
        state, metrics = step(state, *batch)
        history.append(metrics)
    return state, stacked(history)


def assert_same(ours: Any, metrics: dict[str, Any], theirs: Any, losses: dict[str, Any]) -> None:
    """Parameters (and whatever is beside them) at the end, and the losses of every step."""
    assert distance(ours, theirs) < TOLERANCE
    assert distance({name: metrics[name] for name in losses}, losses) < TOLERANCE
