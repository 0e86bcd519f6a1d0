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

from jaxfocal import MultiUpdate, Player, gradient_penalty, multi_update, scan_updates, sigmoid_focal_loss

from ._case import Outputs

Nets = dict[str, list[tuple[Any, Any]]]
Batch = dict[str, Any]
Kind = Literal["gan", "wgan-gp", "actor-critic", "td3"]

LEARNING_RATE = 1e-4
NUM_PIXELS, NUM_LATENT = 64, 16
NUM_OBSERVED, NUM_ACTIONS = 16, 4
N_CRITIC, PENALTY = 5, 10.0
ENTROPY, VALUE_WEIGHT = 0.01, 0.5
TAU, DISCOUNT, POLICY_DELAY, NOISE_CLIP = 0.005, 0.99, 2, 0.5
TARGETS = {"actor": "actor_target", "critic1": "critic1_target", "critic2": "critic2_target"}


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

    def update(self, penalty: Callable[..., jax.Array] | None = None) -> MultiUpdate:
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


def _gan(nets: Nets, batch: Batch) -> dict[str, jax.Array]:
    def cross_entropy(images: jax.Array, label: float) -> jax.Array:
        logits = mlp(nets["discriminator"], images)
        return sigmoid_focal_loss(logits, jnp.full_like(logits, label), gamma=0.0, reduction="mean")

    fake = mlp(nets["generator"], batch["noise"])
    caught = cross_entropy(jax.lax.stop_gradient(fake), 0.0)
    return {"d": cross_entropy(batch["real"], 1.0) + caught, "g": cross_entropy(fake, 1.0)}


def _wgan_gp(penalty: Callable[..., jax.Array], nets: Nets, batch: Batch) -> dict[str, jax.Array]:
    score = partial(mlp, nets["discriminator"])
    fake = mlp(nets["generator"], batch["noise"])
    constant = jax.lax.stop_gradient(fake)
    distance = jnp.mean(score(batch["real"])) - jnp.mean(score(constant))
    return {"d": PENALTY * penalty(score, constant, batch) - distance, "g": -jnp.mean(score(fake))}


def _own_penalty(score: Callable[[jax.Array], jax.Array], fake: jax.Array, batch: Batch) -> jax.Array:
    return gradient_penalty(score, batch["real"], fake, batch["key"][0])


def _plain_penalty(score: Callable[[jax.Array], jax.Array], fake: jax.Array, batch: Batch) -> jax.Array:
    """At the same points in any precision; the numbers that a key draws depend on it."""
    mix = batch["mix"][:, None]
    gradients = jax.grad(lambda x: jnp.sum(score(x)))(mix * batch["real"] + (1 - mix) * fake)
    return jnp.mean((jnp.sqrt(jnp.sum(gradients**2, axis=1)) - 1) ** 2)


def _actor_critic(nets: Nets, batch: Batch) -> dict[str, jax.Array]:
    features = mlp(nets["trunk"], batch["observation"])
    log_p = jax.nn.log_softmax(mlp(nets["policy"], features))
    values = mlp(nets["value"], features)[:, 0]
    advantage = jax.lax.stop_gradient(batch["return"] - values)
    chosen = jnp.take_along_axis(log_p, batch["action"][:, None], axis=1)[:, 0]
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_p) * log_p, axis=1))
    policy = -jnp.mean(advantage * chosen) - ENTROPY * entropy
    return {"total": policy + VALUE_WEIGHT * jnp.mean((values - batch["return"]) ** 2)}


def _td3(nets: Nets, batch: Batch) -> dict[str, jax.Array]:
    def score(critic: str, observation: jax.Array, action: jax.Array) -> jax.Array:
        return mlp(nets[critic], jnp.concatenate([observation, action], axis=1))[:, 0]

    def act(actor: str, observation: jax.Array) -> jax.Array:
        return jnp.tanh(mlp(nets[actor], observation))

    noise = jnp.clip(batch["noise"], -NOISE_CLIP, NOISE_CLIP)
    following = batch["next_observation"]
    next_action = jnp.clip(act("actor_target", following) + noise, -1, 1)
    q = jnp.minimum(*(score(critic, following, next_action) for critic in ("critic1_target", "critic2_target")))
    target = jax.lax.stop_gradient(batch["reward"] + DISCOUNT * (1 - batch["done"]) * q)
    observation = batch["observation"]
    errors = (score(critic, observation, batch["action"]) - target for critic in ("critic1", "critic2"))
    return {
        "critic": sum(jnp.mean(error**2) for error in errors),
        "actor": -jnp.mean(score("critic1", observation, act("actor", observation))),
        "targets": sum(_half_squared_distance(nets[target], nets[name]) for name, target in TARGETS.items()),
    }


def _half_squared_distance(copy: Any, original: Any) -> jax.Array:
    squares = jax.tree.map(lambda c, o: jnp.sum((c - jax.lax.stop_gradient(o)) ** 2), copy, original)
    return sum(jax.tree.leaves(squares)) / 2
