"""What a multi-model update carries from step to step, and how it begins."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ._keys import check_key, is_key
from ._kinds import ARRAYS, kind
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
        opt_states={name: _optimizer_state(name, player, params) for name, player in players.items()},
        model_state=_strongly_typed(model_state),
        key=key,
        ema={name: wide(player.take(params)) for name, player in players.items() if player.ema is not None},
        skipped={name: jnp.zeros((), jnp.int32) for name, player in players.items() if player.skip_nonfinite},
    )
    return _each_array_once(state)


def _optimizer_state(name: str, player: Player, params: Params) -> Any:
    try:
        return player.optimizer.init(player.take(params))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the optimizer of player {name!r} does not take its parameters: {error}") from error


def check_state(state: Any, players: dict[str, Player], has_model_state: bool, has_key: bool) -> None:
    """ValueError for anything but a state that has what these players and losses need, and no more."""
    must = "state must come from init or update of this multi_update"
    if not isinstance(state, MultiState):
        raise ValueError(f"{must}, got {kind(state)}")
    names = {
        "opt_states": list(players),
        "ema": [name for name, player in players.items() if player.ema is not None],
        "skipped": [name for name, player in players.items() if player.skip_nonfinite],
    }
    for field, of in names.items():
        given = getattr(state, field)
        if not isinstance(given, dict) or given.keys() != set(of):
            got = list(given) if isinstance(given, dict) else kind(given)
            raise ValueError(f"{must}: its {field} must be those of {of}, got {got}")
    is_count = isinstance(state.step, ARRAYS | int) and not jnp.shape(state.step)
    if not (is_count and jnp.issubdtype(jnp.result_type(state.step), jnp.integer)):
        raise ValueError(f"{must}: its step must be an integer scalar, got {kind(state.step)}")
    for field, declared in (("model_state", has_model_state), ("key", has_key)):
        given = getattr(state, field)
        if (given is not None) != declared:
            raise ValueError(f"{must}: with has_{field}={declared} its {field} cannot be {kind(given)}")
    if has_key:
        check_key(state.key)
    check_groups(players, state.params)
    for name, player in players.items():
        own = player.take(state.params)
        if not _same_form(jax.eval_shape(player.optimizer.init, own), state.opt_states[name]):
            raise ValueError(f"{must}: the optimizer state of {name!r} is not of its optimizer and its parameters")
        if player.ema is not None and not _same_form(own, state.ema[name]):
            raise ValueError(f"{must}: the average of {name!r} is not of the structure and shapes of its parameters")


def _same_form(a: Any, b: Any) -> bool:
    """Whether structures and shapes agree; a dtype may have been changed on purpose."""
    trees: list[Any] = [jax.tree.structure(a), jax.tree.structure(b)]
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(tree)] for tree in (a, b)]
    return bool(trees[0] == trees[1]) and shapes[0] == shapes[1]


def check_groups(players: dict[str, Player], params: Params) -> None:
    """ValueError for groups that are not there, or that no optimizer can move."""
    check_params(params)
    for name, player in players.items():
        for group in player.groups:
            if group not in params:
                raise ValueError(f"player {name!r} has wrt {group!r}, which is no key of params: {sorted(params)}")
            _check_movable(name, group, params[group])


def check_declared(name: str, given: Any, declared: bool) -> None:
    """ValueError for a model state or a key that is given without being declared, and the reverse."""
    if declared and given is None:
        raise ValueError(f"with has_{name}=True {name} must be given, got none")
    if given is not None and not declared:
        raise ValueError(f"{name} is for an update with has_{name}=True, got {kind(given)} without it")


def wide(own: Any) -> Any:
    """At least 32 bits: a step of 1e-3 of the way is lost in bfloat16, and the square of 300 in float16 infinite."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32)), own)


def _strongly_typed(tree: Any) -> Any:
    """The same arrays; Python and NumPy numbers as arrays, so that no step changes a type and compiles anew."""

    def typed(path: Any, leaf: Any) -> Any:
        if is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ValueError(f"init takes arrays, got {leaf}: for shapes write jax.eval_shape(update.init, params)")
        if not isinstance(leaf, ARRAYS | bool | int | float | complex):
            raise ValueError(
                f"model_state must hold arrays and numbers only, got {kind(leaf)} at "
                f"model_state{jax.tree_util.keystr(path)}: keep what else there is in losses"
            )
        return jnp.asarray(leaf, jnp.result_type(leaf))

    return jax.tree_util.tree_map_with_path(typed, tree)


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
    leaves = jax.tree_util.tree_leaves_with_path(params)
    if not leaves:
        raise ValueError(f"player {name!r} moves {group!r}, which holds no parameters, got {params!r}")
    for path, leaf in leaves:
        if not is_floating(leaf):
            is_array = isinstance(leaf, ARRAYS | jax.ShapeDtypeStruct)
            raise ValueError(
                f"player {name!r} moves {group!r}, but its leaf {group}{jax.tree_util.keystr(path)} is "
                f"{leaf.dtype if is_array else type(leaf).__name__}, not floating point: keep it in another group, or "
                "out of params"
            )
