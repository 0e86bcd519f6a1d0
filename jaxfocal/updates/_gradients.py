"""The gradient of each player's own loss with respect to its own parameters."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ._losses import Forward, Losses
from ._player import Params, Player


class Gradient(NamedTuple):
    """A player's gradient, and the forward pass that it was taken through."""

    grads: Any
    forward: Forward


def own_gradient(losses: Losses, player: Player, params: Params, model_state: Any, key: Any, *args: Any) -> Gradient:
    """By a forward pass of its own; all parameters but the player's are constants."""

    def own_loss(own: Any) -> tuple[Array, Forward]:
        forward = losses(player.put(params, own), model_state, key, *args)
        return forward.values[player.loss], forward

    return Gradient(*jax.grad(own_loss, has_aux=True)(player.take(params)))


def shared_gradients(
    losses: Losses, players: dict[str, Player], params: Params, model_state: Any, *args: Any
) -> dict[str, Gradient]:
    """By one forward pass for all ``players``: linearized once, and transposed a loss at a time.

    XLA merges equal forward passes but for the loops in them; here they are one from the start. Each loss is picked out
    before the transposition: a zero cotangent for the others would meet their infinite derivatives, and be NaN.
    """
    moved = {group: params[group] for player in players.values() for group in player.groups}

    def values_of(moved: Params) -> tuple[dict[str, Array], Forward]:
        forward = losses({**params, **moved}, model_state, None, *args)
        return {player.loss: jnp.asarray(forward.values[player.loss]) for player in players.values()}, forward

    values, derivative, forward = jax.linearize(values_of, moved, has_aux=True)

    def gradient(player: Player) -> Gradient:
        transposed = jax.linear_transpose(lambda dots: derivative(dots)[player.loss], moved)
        (cotangents,) = transposed(jnp.ones_like(values[player.loss]))
        return Gradient(player.take(cotangents), forward)

    return {name: gradient(player) for name, player in players.items()}
