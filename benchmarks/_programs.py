"""The training programs of the suite ``programs``: what they start from, what they see, what moves which net."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxfocal import MultiUpdate, Player, gradient_penalty, multi_update, scan_updates

from ._case import Outputs
from ._program_losses import TARGETS, Losses, Net, actor_critic, gan, half_squared_distance, td3, wgan_gp

Nets = dict[str, list[tuple[Any, Any]]]
Batch = dict[str, Any]
Penalty = Callable[..., jax.Array]
Kind = Literal["gan", "wgan-gp", "actor-critic", "td3"]

LEARNING_RATE = 1e-4
NUM_PIXELS, NUM_LATENT = 64, 16
NUM_OBSERVED, NUM_ACTIONS = 16, 4
N_CRITIC = 5
TAU, POLICY_DELAY = 0.005, 2


@dataclass(frozen=True)
class Training:
    """``steps`` updates of MLPs with ``hidden`` units in each of two hidden layers."""

    kind: Kind
    batch: int
    hidden: int
    steps: int

    def nets(self) -> Nets:
        """``{net: [(weight (in, out), bias (out,)), ...]}`` in float32."""
        rng = np.random.default_rng(0)

        def layers(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
            return [
                (rng.normal(0, i**-0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32)) for i, o in pairwise(sizes)
            ]

        h = self.hidden
        if self.kind in ("gan", "wgan-gp"):
            return {"generator": layers(NUM_LATENT, h, h, NUM_PIXELS), "discriminator": layers(NUM_PIXELS, h, h, 1)}
        if self.kind == "actor-critic":
            return {"trunk": layers(NUM_OBSERVED, h, h), "policy": layers(h, NUM_ACTIONS), "value": layers(h, 1)}
        nets = {
            "actor": layers(NUM_OBSERVED, h, h, NUM_ACTIONS),
            "critic1": layers(NUM_OBSERVED + NUM_ACTIONS, h, h, 1),
            "critic2": layers(NUM_OBSERVED + NUM_ACTIONS, h, h, 1),
        }
        return {**nets, **{target: nets[name] for name, target in TARGETS.items()}}

    def batches(self) -> Batch:
        """Arrays ``(steps, n, ...)``; for the penalty keys ``(steps, n_critic)``, and the numbers drawn with them."""
        rng = np.random.default_rng(1)

        def normal(*shape: int) -> np.ndarray:
            return rng.normal(size=(self.steps, n, *shape)).astype(np.float32)

        n = self.batch * (N_CRITIC if self.kind == "wgan-gp" else 1)
        if self.kind == "gan":
            return {"noise": normal(NUM_LATENT), "real": normal(NUM_PIXELS)}
        if self.kind == "wgan-gp":
            keys = jax.random.split(jax.random.key(2), (self.steps, N_CRITIC))
            draw = jax.vmap(jax.vmap(lambda key: jax.random.uniform(key, (self.batch,), jnp.float32)))
            mix = np.asarray(draw(keys)).swapaxes(1, 2).reshape(self.steps, n)
            return {"noise": normal(NUM_LATENT), "real": normal(NUM_PIXELS), "key": keys, "mix": mix}
        if self.kind == "actor-critic":
            actions = rng.integers(0, NUM_ACTIONS, (self.steps, n), dtype=np.int32)
            return {"observation": normal(NUM_OBSERVED), "action": actions, "return": normal()}
        return {
            "observation": normal(NUM_OBSERVED),
            "action": np.tanh(normal(NUM_ACTIONS)),
            "next_observation": normal(NUM_OBSERVED),
            "reward": normal(),
            "done": (normal() > 1).astype(np.float32),
            "noise": 0.2 * normal(NUM_ACTIONS),
        }

    def update(self, penalty: Callable[[Batch], Penalty] | None = None) -> MultiUpdate:
        """The program in jaxfocal, with its own gradient penalty or another."""
        adam = optax.adam(LEARNING_RATE)
        if self.kind == "actor-critic":
            return multi_update(_actor_critic, {"a2c": Player(adam, loss="total", wrt=("trunk", "policy", "value"))})
        if self.kind == "td3":
            players = {
                "critics": Player(adam, loss="critic", wrt=("critic1", "critic2")),
                "actor": Player(adam, loss="actor", wrt="actor", every=POLICY_DELAY),
                "targets": Player(optax.sgd(TAU), loss="targets", wrt=tuple(TARGETS.values()), every=POLICY_DELAY),
            }
            return multi_update(_td3, players, order="alternating")
        n_critic = N_CRITIC if self.kind == "wgan-gp" else 1
        players = {
            "discriminator": Player(adam, loss="d", wrt="discriminator", n_steps=n_critic),
            "generator": Player(adam, loss="g", wrt="generator"),
        }
        losses = _gan if self.kind == "gan" else partial(_wgan_gp, penalty or _own_penalty)
        return multi_update(losses, players, order="alternating")

    def outputs(self, nets: Nets) -> Outputs:
        """What is compared: how far training moved all parameters."""
        change = jax.tree.map(lambda after, before: (np.asarray(after) - before).ravel(), nets, self.nets())
        return {"parameter change": np.concatenate(jax.tree.leaves(change))}

    def float64_outputs(self) -> Outputs:
        """The same program in float64, which the tests hold against PyTorch."""
        with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
            nets, batches = jax.tree.map(_to_float64, (self.nets(), self.batches()))
            update = self.update(_plain_penalty)
            return self.outputs(scan_updates(update, update.init(nets), batches)[0].params)


def _to_float64(array: Any) -> jax.Array:
    return jnp.asarray(array, jnp.float64) if array.dtype == np.float32 else jnp.asarray(array)


def mlp(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """Linear layers with ReLU between."""
    for i, (weight, bias) in enumerate(layers):
        x = (jax.nn.relu(x) if i else x) @ weight + bias[None, :]
    return x


def _gan(nets: Nets, batch: Batch) -> Losses:
    return gan(_net(nets), batch["noise"], batch["real"])


def _wgan_gp(penalty: Callable[[Batch], Penalty], nets: Nets, batch: Batch) -> Losses:
    return wgan_gp(_net(nets), batch["noise"], batch["real"], penalty(batch))


def _own_penalty(batch: Batch) -> Penalty:
    return lambda score, real, fake: gradient_penalty(score, real, fake, batch["key"][0])


def _plain_penalty(batch: Batch) -> Penalty:
    """At the same points in any precision; the numbers that a key draws depend on it."""

    def penalty(score: Callable[[jax.Array], jax.Array], real: jax.Array, fake: jax.Array) -> jax.Array:
        mix = batch["mix"][:, None]
        gradients = jax.grad(lambda x: jnp.sum(score(x)))(mix * real + (1 - mix) * fake)
        return jnp.mean((jnp.sqrt(jnp.sum(gradients**2, axis=1)) - 1) ** 2)

    return penalty


def _actor_critic(nets: Nets, batch: Batch) -> Losses:
    return actor_critic(_net(nets), batch["observation"], batch["action"], batch["return"])


def _td3(nets: Nets, batch: Batch) -> Losses:
    copies, originals = ([nets[name] for name in names] for names in (TARGETS.values(), TARGETS))
    return td3(_net(nets), batch) | {"targets": half_squared_distance(copies, originals)}


def _net(nets: Nets) -> Net:
    return lambda name, x: mlp(nets[name], x)
