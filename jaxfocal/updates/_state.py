"""What a multi-model update carries from step to step, and how it begins."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ._player import Params, Player
from ._routes import check_params, is_floating


class MultiState(NamedTuple):
    """What a multi-model update carries from step to step, a pytree.

    ``step`` (int32 scalar) counts the updates, ``params`` is the dict of parameter groups, and ``opt_states`` holds one
    optimizer state a player by the player's name. ``model_state`` and ``key`` are None where the losses take none.
    ``ema`` holds the averaged parameters of the players that have a decay, as their optimizers see them, and
    ``skipped`` (int32 scalars) how often the players with ``skip_nonfinite`` met a gradient that was not finite.
    """

    step: Array
    params: Params
    opt_states: dict[str, Any]
    model_state: Any
    key: Any
    ema: dict[str, Any]
    skipped: dict[str, Array]


def initial_state(players: dict[str, Player], params: Params, model_state: Any, key: Any) -> MultiState:
    """The state before the first step; no two of its leaves are one array, so that it can be donated."""
    check_groups(players, params)
    moved = {group for player in players.values() for group in player.groups}
    params = {group: _strongly_typed(value) if group in moved else value for group, value in params.items()}
    state = MultiState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_states={name: player.optimizer.init(player.take(params)) for name, player in players.items()},
        model_state=_strongly_typed(model_state),
        key=key,
        ema={name: _wide(player.take(params)) for name, player in players.items() if player.ema is not None},
        skipped={name: jnp.zeros((), jnp.int32) for name, player in players.items() if player.skip_nonfinite},
    )
    return _each_array_once(state)


def fits(state: MultiState, players: dict[str, Player], has_model_state: bool, has_key: bool) -> bool:
    """Whether a state has what these players and losses need, and no more."""
    names = {
        "opt_states": players.keys(),
        "ema": {name for name, player in players.items() if player.ema is not None},
        "skipped": {name for name, player in players.items() if player.skip_nonfinite},
    }
    declared = ((state.model_state is not None) == has_model_state, (state.key is not None) == has_key)
    return all(declared) and all(getattr(state, field).keys() == of for field, of in names.items())


def check_groups(players: dict[str, Player], params: Params) -> None:
    """ValueError for groups that are not there, or that no optimizer can move."""
    check_params(params)
    for name, player in players.items():
        for group in player.groups:
            if group not in params:
                raise ValueError(f"player {name!r} has wrt {group!r}, which is no key of params: {sorted(params)}")
            _check_movable(name, group, params[group])


def _strongly_typed(tree: Any) -> Any:
    """The same arrays; Python and NumPy numbers as arrays, so that no step changes a type and compiles anew."""

    def typed(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        return jnp.asarray(leaf, jnp.result_type(leaf))

    return jax.tree.map(typed, tree)


def _wide(own: Any) -> Any:
    """Averages of at least 32 bits: in bfloat16 a step of 1e-3 of the way would be rounded off."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)), own)


def _each_array_once(state: MultiState) -> MultiState:
    """Copies of the arrays that occur again: an average starts as the parameters, and no buffer is donated twice."""
    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and id(leaf) in seen:
            leaf = jnp.copy(leaf)
        seen.add(id(leaf))
        return leaf

    return jax.tree.map(own, state)


def _check_movable(name: str, group: str, params: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not is_floating(leaf):
            raise ValueError(
                f"player {name!r} moves {group!r}, but its leaf {group}{jax.tree_util.keystr(path)} is "
                f"{getattr(leaf, 'dtype', type(leaf).__name__)}, not floating point: keep it in another group, or "
                "out of params"
            )
