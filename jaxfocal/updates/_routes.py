"""Which loss reaches which parameters: read off the traced program, without computing anything."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.interpreters import partial_eval

from ._keys import check_key
from ._kinds import ARRAYS, kind
from ._losses import Losses, LossesFn
from ._player import Params, Player

SHOWN = 6


class Routes(dict[str, dict[str, str]]):
    """``{loss: {group: "all" | "some" | "none"}}``; ``str`` makes a table of it, with the leaves behind each "some"."""

    def __init__(self, hits: dict[str, dict[str, dict[str, bool]]]):
        super().__init__(
            {loss: {group: _extent(list(leaves.values())) for group, leaves in of.items()} for loss, of in hits.items()}
        )
        self._hits = hits

    def leaves(self, loss: str, group: str, *, reached: bool) -> list[str]:
        """The names of the floating-point leaves of a group that the gradient of a loss reaches, or does not reach."""
        return [leaf for leaf, hit in self._hits[loss][group].items() if hit == reached]

    def __str__(self) -> str:
        groups = list(dict.fromkeys(group for extents in self.values() for group in extents))
        rows = [["loss", *groups], *([loss, *extents.values()] for loss, extents in self.items())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        for loss, extents in self.items():
            for group in (group for group, extent in extents.items() if extent == "some"):
                hit, missed = (_shown(self.leaves(loss, group, reached=reached)) for reached in (True, False))
                lines.append(f"{loss} reaches {hit} of {group}, not {missed}")
        return "\n".join(lines)


def gradient_routes(
    losses: LossesFn,
    params: Params,
    *args: Any,
    has_aux: bool = False,
    has_model_state: bool = False,
    key: Array | None = None,
) -> Routes:
    """How much of each parameter group the gradient of each loss can reach.

    A leaf is reached if the loss depends on it other than through ``jax.lax.stop_gradient``, integers or comparisons.
    This is a property of the program: a gradient that happens to be zero in value still counts.

    Args:
      losses: ``losses(params, *args)``, returning a dict of scalars, or ``(dict, aux)`` with ``has_aux=True``.
      params: dict of pytrees, one a parameter group. Leaves that are not floating point are left out.
      args: the rest of the arguments of ``losses``, with ``has_model_state`` the model state first.
      has_aux: whether ``losses`` returns an auxiliary value beside the dict.
      has_model_state: whether ``losses`` takes and returns a model state, as in :func:`multi_update`.
      key: a random key for ``losses`` that takes one as ``key=``.

    Returns:
      A dict ``{loss: {group: "all" | "some" | "none"}}``: all, some or none of the group's floating-point leaves are
      reached. Printed, it is a table; ``routes.leaves(loss, group, reached=False)`` names the leaves that are not.

    Raises:
      ValueError: where ``params`` is not a dict, ``losses`` is no function or does not return a dict of scalars, an
        option is no flag, or the model state is missing.

    >>> import jax, jax.numpy as jnp
    >>> def losses(params, x):
    ...     a = params["model1"] * x
    ...     b = params["model2"] * jax.lax.stop_gradient(a)
    ...     return {"l1": jnp.sum(a**2), "l2": jnp.sum(b**2)}
    >>> gradient_routes(losses, {"model1": jnp.ones(3), "model2": jnp.ones(3)}, jnp.arange(3.0))
    {'l1': {'model1': 'all', 'model2': 'none'}, 'l2': {'model1': 'none', 'model2': 'all'}}
    >>> print(gradient_routes(losses, {"model1": jnp.ones(3), "model2": jnp.ones(3)}, jnp.arange(3.0)))
    loss  model1  model2
    l1    all     none
    l2    none    all
    """
    if not callable(losses):
        raise ValueError(f"losses must be a function of params, got {losses!r}")
    for option, value in (("has_aux", has_aux), ("has_model_state", has_model_state)):
        if not isinstance(value, bool):
            raise ValueError(f"{option} must be True or False, got {value!r}")
    if has_model_state and not args:
        raise ValueError("with has_model_state=True the model state must follow params, got nothing there")
    if key is not None:
        check_key(key)
    state, batch = (args[0], args[1:]) if has_model_state and args else (None, args)
    return routes_of(Losses(losses, has_aux, has_model_state, key is not None), params, state, key, *batch)


def routes_of(losses: Losses, params: Params, model_state: Any, key: Any, *args: Any) -> Routes:
    """The routes of a losses function of which all that it takes and returns is known."""
    check_params(params)
    paths_and_leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    floats = {i: leaf for i, (_, leaf) in enumerate(paths_and_leaves) if is_floating(leaf)}

    def values_of(floats: dict[int, Array]) -> dict[str, Array]:
        leaves = [floats.get(i, leaf) for i, (_, leaf) in enumerate(paths_and_leaves)]
        return losses(jax.tree.unflatten(treedef, leaves), model_state, key, *args).values

    names = {i: (path[0].key, jax.tree_util.keystr(path[1:])) for i, (path, _) in enumerate(paths_and_leaves)}
    hits = {
        loss: {
            group: {group + names[i][1]: hit for i, hit in zip(floats, reached, strict=True) if names[i][0] == group}
            for group in params
        }
        for loss, reached in _reached(values_of, floats).items()
    }
    return Routes(hits)


def check_params(params: Any) -> None:
    """ValueError for anything but a dict of parameter groups."""
    if not isinstance(params, dict):
        raise ValueError(f"params must be a dict of parameter groups by name, got {kind(params)}")
    for key in params:
        if not isinstance(key, str):
            raise ValueError(f"the groups of params must be named by strings, got {key!r}")


def check_names(routes: Routes, players: dict[str, Player]) -> None:
    """ValueError for a player whose loss does not exist."""
    for name, player in players.items():
        if player.loss not in routes:
            raise ValueError(f"player {name!r} minimises loss {player.loss!r}, but losses returned {sorted(routes)}")


def check_routes(routes: Routes, players: dict[str, Player]) -> None:
    """ValueError for a player whose loss does not exist, or cannot move what the player is there to move."""
    check_names(routes, players)
    for name, player in players.items():
        for group in player.groups:
            if routes[player.loss][group] == "none":
                raise ValueError(
                    f"player {name!r} moves {group!r}, but no gradient of its loss {player.loss!r} gets there: the "
                    f"optimizer would step on zeros. Remove the stop_gradient between them, or take {group!r} out of "
                    f"wrt. The routes of {player.loss!r}: {routes[player.loss]}"
                )


def moved_by(group: str, players: dict[str, Player]) -> list[str]:
    """The names of the players that move a group."""
    return [name for name, player in players.items() if group in player.groups]


def unmoved_groups(players: dict[str, Player], params: Params) -> list[str]:
    """The groups with something to move that are in no player's ``wrt``."""
    movable = [group for group, value in params.items() if any(map(is_floating, jax.tree.leaves(value)))]
    return [group for group in movable if not moved_by(group, players)]


def _reached(
    values_of: Callable[[dict[int, Array]], dict[str, Array]], floats: dict[int, Any]
) -> dict[str, list[bool]]:
    """For each output, which inputs its derivative depends on: dead-code elimination on the jaxpr of the derivative.

    The one place that uses JAX internals (``dce_jaxpr``); an opaque equation counts as depending on all its inputs.
    """

    def tangents_of(floats: dict[int, Array], dots: dict[int, Array]) -> dict[str, Array]:
        return jax.jvp(values_of, (floats,), (dots,))[1]

    closed, shapes = jax.make_jaxpr(tangents_of, return_shape=True)(floats, floats)
    names = sorted(shapes)  # the order in which a dict is flattened
    reached = {}
    for name in names:
        _, used = partial_eval.dce_jaxpr(closed.jaxpr, [name == other for other in names])
        reached[name] = list(used[len(floats) :])
    return reached


def reaches(fn: Callable[[Array], Array], x: Array) -> bool:
    """Whether the derivative of a function of one array depends on it."""
    return _reached(lambda xs: {"value": fn(xs[0])}, {0: x})["value"][0]


def _shown(leaves: list[str]) -> str:
    more = f" and {len(leaves) - SHOWN} more" if len(leaves) > SHOWN else ""
    return ", ".join(leaves[:SHOWN]) + more


def _extent(hits: list[bool]) -> str:
    return "none" if not any(hits) else "all" if all(hits) else "some"


def is_floating(leaf: Any) -> bool:
    """Whether a leaf is floating point: no callable, key, integer, flag, complex number, or name of a dtype."""
    if isinstance(leaf, ARRAYS | jax.ShapeDtypeStruct):
        return jnp.issubdtype(leaf.dtype, jnp.floating)
    return isinstance(leaf, float)
