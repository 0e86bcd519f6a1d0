"""Chained models, each with its own loss and its own Adam: data, initial parameters, and their training in float64."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ._case import Outputs

Layers = list[tuple[Any, Any]]
Params = dict[str, Layers]


@dataclass(frozen=True)
class Chain:
    """Each of ``players`` models reads what the one before gives, detached.

    Attributes:
      hidden: units of the hidden layer; None: the model is one linear layer.
      gamma: of the softmax focal loss; 0 is cross-entropy.
      b1: of Adam.
    """

    batch: int
    steps: int
    players: int = 2
    features: int = 64
    hidden: int | None = 256
    classes: int = 10
    gamma: float = 2.0
    learning_rate: float = 1e-3
    b1: float = 0.9

    @property
    def models(self) -> list[str]:
        """Their names, in order."""
        return [f"model{i + 1}" for i in range(self.players)]

    def params(self) -> Params:
        """``{model: [(weight (in, out), bias (out,)), ...]}`` in float32."""
        rng = np.random.default_rng(0)

        def layers(*sizes: int) -> Layers:
            return [
                (rng.normal(0, i**-0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32)) for i, o in pairwise(sizes)
            ]

        inside = () if self.hidden is None else (self.hidden,)
        return {
            model: layers(self.classes if i else self.features, *inside, self.classes)
            for i, model in enumerate(self.models)
        }

    def batches(self) -> tuple[np.ndarray, np.ndarray]:
        """``x (steps, batch, features)`` and the labels of all models, ``(steps, players, batch)``."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(self.steps, self.batch, self.features)).astype(np.float32)
        return x, rng.integers(0, self.classes, (self.steps, self.players, self.batch), dtype=np.int32)

    def logits(self, params: Params, x: jax.Array) -> list[jax.Array]:
        """Of all models, one forward pass."""
        outputs: list[jax.Array] = []
        for model in self.models:
            outputs.append(_mlp(params[model], jax.lax.stop_gradient(outputs[-1]) if outputs else x))
        return outputs

    def outputs(self, losses: Any, params: Params) -> Outputs:
        """What is compared: ``losses (steps, players)`` and how far training moved all parameters."""
        change = jax.tree.map(lambda after, before: (np.asarray(after) - before).ravel(), params, self.params())
        return {"losses": np.asarray(losses), "parameter change": np.concatenate(jax.tree.leaves(change))}

    def float64_outputs(self) -> Outputs:
        """One gradient of the sum of all losses and one Adam over all parameters, which is the same as one each."""

        def total(params: Params, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
            losses = jnp.stack([_plain_focal(a, y[i], self.gamma) for i, a in enumerate(self.logits(params, x))])
            return jnp.sum(losses), losses

        def step(carry: Any, batch: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            params, opt_state = carry
            grads, losses = jax.grad(total, has_aux=True)(params, *batch)
            updates, opt_state = optimizer.update(grads, opt_state)
            return (optax.apply_updates(params, updates), opt_state), losses

        optimizer = optax.adam(self.learning_rate, b1=self.b1)
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            params = jax.tree.map(partial(jnp.asarray, dtype=jnp.float64), self.params())
            x, y = self.batches()
            batches = (jnp.asarray(x, jnp.float64), jnp.asarray(y))
            (params, _), losses = jax.jit(partial(jax.lax.scan, step))((params, optimizer.init(params)), batches)
            return self.outputs(losses, params)


def _mlp(layers: Layers, x: jax.Array) -> jax.Array:
    for i, (weight, bias) in enumerate(layers):
        x = (jax.nn.relu(x) if i else x) @ weight + bias[None]
    return x


def _plain_focal(x: jax.Array, y: jax.Array, gamma: float) -> jax.Array:
    log_p = jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1)
    return jnp.mean((1 - jnp.exp(log_p)) ** gamma * -log_p)
