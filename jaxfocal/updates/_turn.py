"""One player's turn: its moves in one step, and what they leave.

A move is gradient, optimizer and average. Around it stand, where the player asks for them, the skip of gradients that
are not finite, the moves over sub-batches, and the steps at which the player stays.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ._convolutions import body
from ._gradients import Gradient
from ._player import Params, Player
from ._state import MultiState, wide
from ._subbatches import merge_batches, split_batches


class Own(NamedTuple):
    """What a player's moves change; what a player does not have is None.

    ``seen`` are its parameters where the next gradient is taken, ``params`` those that the next update is added to:
    in simultaneous order they differ where a player before it in the same step moved them too.
    """

    seen: Any
    params: Any
    opt_state: Any
    model_state: Any
    ema: Any
    skipped: Any


class Report(NamedTuple):
    """What a turn says of itself: the losses and aux of its forward pass, and the norm of its gradient."""

    values: dict[str, Array]
    aux: Any
    grad_norm: Array


def own_of(name: str, player: Player, at: Params, state: MultiState) -> Own:
    """A player's part of the state, its first gradient to be taken at the parameters ``at``."""
    return Own(
        seen=player.take(at),
        params=player.take(state.params),
        opt_state=state.opt_states[name],
        model_state=state.model_state,
        ema=state.ema.get(name),
        skipped=state.skipped.get(name),
    )


def with_own(name: str, player: Player, own: Own, state: MultiState) -> MultiState:
    """``state`` with a player's part of it replaced."""
    return state._replace(
        params=player.put(state.params, own.params),
        opt_states={**state.opt_states, name: own.opt_state},
        model_state=own.model_state,
        ema={**state.ema, name: own.ema} if name in state.ema else state.ema,
        skipped={**state.skipped, name: own.skipped} if name in state.skipped else state.skipped,
    )


# From the player's own parameters, model state, key and batch.
GradientFn = Callable[..., Gradient]


def take_turn(
    player: Player, gradient: GradientFn, own: Own, step: Array, key: Any, args: tuple[Any, ...]
) -> tuple[Own, Report]:
    """All the moves of a player in one step."""

    def turn(own: Own) -> tuple[Own, Report]:
        if player.n_steps > 1:
            return _moves(player, gradient, own, key, args)
        return _move(player, gradient, own, key, args)

    return _at_its_steps(player, step, turn, own) if player.every > 1 else turn(own)


def _at_its_steps(
    player: Player, step: Array, turn: Callable[[Own], tuple[Own, Report]], own: Own
) -> tuple[Own, Report]:
    """The turn at every so many steps; else nothing moves, and the report is zeros. It holds the player's own loss."""

    def move(own: Own) -> tuple[Own, Report]:
        own, report = turn(own)
        return own, report._replace(values={player.loss: report.values[player.loss]}, aux=None)

    def stay(own: Own) -> tuple[Own, Report]:
        return own, jax.tree.map(lambda of: jnp.zeros(of.shape, of.dtype), jax.eval_shape(move, own)[1])

    return jax.lax.cond(moves_at(player, step), body(move), stay, own)


def moves_at(player: Player, step: Array) -> Array:
    """Whether the player moves at this step."""
    return step % player.every == 0


def _moves(player: Player, gradient: GradientFn, own: Own, key: Any, args: tuple[Any, ...]) -> tuple[Own, Report]:
    """One move after the other, a sub-batch each, compiled once; the report is that of the last."""
    parts, whole = split_batches(args, player.n_steps)

    def inner(own: Own, part: tuple[Array, Any]) -> tuple[Own, Report]:
        number, rows = part
        inner_key = None if key is None else jax.random.fold_in(key, number)
        return _move(player, gradient, own, inner_key, merge_batches(rows, whole, number))

    own, reports = jax.lax.scan(body(inner), own, (jnp.arange(player.n_steps), parts))
    return own, jax.tree.map(lambda stacked: stacked[-1], reports)


def _move(player: Player, gradient: GradientFn, own: Own, key: Any, args: tuple[Any, ...]) -> tuple[Own, Report]:
    grads, forward = gradient(own.seen, own.model_state, key, *args)

    def apply(own: Own) -> Own:
        optimizer = optax.with_extra_args_support(player.optimizer)
        value = forward.values[player.loss]
        try:
            updates, opt_state = optimizer.update(grads, own.opt_state, own.params, value=value)
        except TypeError as error:
            if "required keyword-only" not in str(error):
                raise
            raise ValueError(
                f"the optimizer down loss {player.loss!r} must do with gradients, parameters and value=: {error}"
            ) from error
        params = optax.apply_updates(own.params, updates)
        return own._replace(
            seen=params,
            params=params,
            opt_state=opt_state,
            model_state=forward.model_state if player.updates_state else own.model_state,
            ema=None if player.ema is None else _averaged(player.ema, own.ema, params),
        )

    def skip(own: Own) -> Own:
        return own._replace(seen=own.params, skipped=own.skipped + 1)

    if player.skip_nonfinite:
        finite = jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(grads)]).all()
        own = jax.lax.cond(finite, apply, skip, own)
    else:
        own = apply(own)
    return own, Report(forward.values, forward.aux, optax.tree.norm(wide(grads)))


def _averaged(decay: float, average: Any, params: Any) -> Any:
    return jax.tree.map(lambda old, new: decay * old + (1 - decay) * new.astype(old.dtype), average, params)
