"""The two chained MLPs of the suite ``updates``: data, initial parameters, and their training in float64."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ._case import Outputs

LEARNING_RATE = 1e-3
GAMMA = 2.0
Params = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class TwoMLPs:
    """``model2`` reads what ``model1`` gives, detached; one hidden layer each."""

    batch: int
    hidden: int
    steps: int
    features: int = 64
    classes: int = 10

    def params(self) -> Params:
        """``{model: {w1, b1, w2, b2}}`` in float32, weights (in, out)."""
        rng = np.random.default_rng(0)

        def dense(fan_in: int, fan_out: int) -> np.ndarray:
            return rng.normal(0, fan_in**-0.5, (fan_in, fan_out)).astype(np.float32)

        return {
            model: {
                "w1": dense(fan_in, self.hidden),
                "b1": np.zeros(self.hidden, np.float32),
                "w2": dense(self.hidden, self.classes),
                "b2": np.zeros(self.classes, np.float32),
            }
            for model, fan_in in (("model1", self.features), ("model2", self.classes))
        }

    def batches(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``x (steps, batch, features)``, and the labels ``y1`` and ``y2 (steps, batch)``."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(self.steps, self.batch, self.features)).astype(np.float32)
        y1, y2 = rng.integers(0, self.classes, (2, self.steps, self.batch), dtype=np.int32)
        return x, y1, y2

    def outputs(self, losses: Any, params: Params) -> Outputs:
        """What is compared: ``losses (steps, 2)`` and how far training moved all parameters."""
        change = jax.tree.map(lambda after, before: (np.asarray(after) - before).ravel(), params, self.params())
        return {"losses": np.asarray(losses), "parameter change": np.concatenate(jax.tree.leaves(change))}

    def float64_outputs(self) -> Outputs:
        """One gradient of ``l1 + l2`` and one Adam over all parameters, which is the same as one each."""

        def total(params: Params, *batch: jax.Array) -> tuple[jax.Array, jax.Array]:
            a, b = logits(params, batch[0])
            losses = jnp.stack([_plain_focal(a, batch[1]), _plain_focal(b, batch[2])])
            return jnp.sum(losses), losses

        def step(carry: Any, batch: tuple[jax.Array, ...]) -> tuple[Any, jax.Array]:
            params, opt_state = carry
            grads, losses = jax.grad(total, has_aux=True)(params, *batch)
            updates, opt_state = optimizer.update(grads, opt_state)
            return (optax.apply_updates(params, updates), opt_state), losses

        optimizer = optax.adam(LEARNING_RATE)
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            params = jax.tree.map(partial(jnp.asarray, dtype=jnp.float64), self.params())
            x, y1, y2 = self.batches()
            batches = (jnp.asarray(x, jnp.float64), jnp.asarray(y1), jnp.asarray(y2))
            (params, _), losses = jax.jit(partial(jax.lax.scan, step))((params, optimizer.init(params)), batches)
            return self.outputs(losses, params)


def logits(params: Params, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One forward pass: the logits of both models."""
    a = _mlp(params["model1"], x)
    return a, _mlp(params["model2"], jax.lax.stop_gradient(a))


def _mlp(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jax.nn.relu(x @ p["w1"] + p["b1"][None]) @ p["w2"] + p["b2"][None]


def _plain_focal(x: jax.Array, y: jax.Array) -> jax.Array:
    log_p = jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1)
    return jnp.mean((1 - jnp.exp(log_p)) ** GAMMA * -log_p)
