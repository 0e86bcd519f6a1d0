"""The losses of four training programs in JAX: timed by the suite ``programs``, and tested against PyTorch.

A net is called as ``net(name, x)``, so that parameters and layers are the caller's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from jaxfocal import sigmoid_focal_loss

Net = Callable[[str, Array], Array]
Losses = dict[str, Array]

PENALTY = 10.0
ENTROPY, VALUE_WEIGHT = 0.01, 0.5
DISCOUNT, NOISE_CLIP = 0.99, 0.5
TARGETS = {"actor": "actor_target", "critic1": "critic1_target", "critic2": "critic2_target"}


def gan(net: Net, noise: Array, real: Array, *, gamma: float = 0.0) -> Losses:
    """``d``: the discriminator on real images and on what the generator makes; ``g``: the generator through it."""

    def criterion(logits: Array, label: float) -> Array:
        return sigmoid_focal_loss(logits, jnp.full_like(logits, label), gamma=gamma, reduction="mean")

    discriminate = partial(net, "discriminator")
    fake = net("generator", noise)
    caught = discriminate(jax.lax.stop_gradient(fake))  # PyTorch: fake.detach()
    return {
        "d": criterion(discriminate(real), 1.0) + criterion(caught, 0.0),
        "g": criterion(discriminate(fake), 1.0),
    }


def wgan_gp(
    net: Net, noise: Array, real: Array, penalty: Callable[[Callable[[Array], Array], Array, Array], Array]
) -> Losses:
    """``d``: the critic's scores and ``penalty(critic, real, fake)``; ``g``: the generator through the critic."""
    score = partial(net, "discriminator")
    fake = net("generator", noise)
    constant = jax.lax.stop_gradient(fake)
    distance = jnp.mean(score(real)) - jnp.mean(score(constant))
    return {"d": PENALTY * penalty(score, real, constant) - distance, "g": -jnp.mean(score(fake))}


def actor_critic(net: Net, observation: Array, action: Array, returns: Array) -> Losses:
    """Policy and value on one trunk; the advantage is a constant to the policy."""
    features = net("trunk", observation)
    log_p = jax.nn.log_softmax(net("policy", features))
    values = net("value", features)[:, 0]
    advantage = jax.lax.stop_gradient(returns - values)
    chosen = jnp.take_along_axis(log_p, action[:, None], axis=1)[:, 0]
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_p) * log_p, axis=1))
    policy = -jnp.mean(advantage * chosen) - ENTROPY * entropy
    value = jnp.mean((values - returns) ** 2)
    return {"policy": policy, "value": value, "total": policy + VALUE_WEIGHT * value}


def td3(net: Net, batch: dict[str, Array]) -> Losses:
    """Twin critics against the smaller of their slow copies; an actor that asks the first critic alone."""

    def score(critic: str, observation: Array, action: Array) -> Array:
        return net(critic, jnp.concatenate([observation, action], axis=1))[:, 0]

    def act(actor: str, observation: Array) -> Array:
        return jnp.tanh(net(actor, observation))

    observation, following = batch["observation"], batch["next_observation"]
    noise = jnp.clip(batch["noise"], -NOISE_CLIP, NOISE_CLIP)
    next_action = jnp.clip(act("actor_target", following) + noise, -1, 1)
    q = jnp.minimum(*(score(TARGETS[critic], following, next_action) for critic in ("critic1", "critic2")))
    target = jax.lax.stop_gradient(batch["reward"] + DISCOUNT * (1 - batch["done"]) * q)
    errors = (score(critic, observation, batch["action"]) - target for critic in ("critic1", "critic2"))
    return {
        "critic": sum(jnp.mean(error**2) for error in errors),
        "actor": -jnp.mean(score("critic1", observation, act("actor", observation))),
    }


def half_squared_distance(copies: Any, originals: Any) -> Array:
    """Of copies to originals, which are constants: a step of size tau down it is ``tau original + (1 - tau) copy``."""
    squares = jax.tree.map(lambda copy, o: jnp.sum((copy - jax.lax.stop_gradient(o)) ** 2), copies, originals)
    return sum(jax.tree.leaves(squares)) / 2
