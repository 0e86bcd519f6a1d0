"""Which loss reaches which parameters: read off the traced program, without computing anything."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.interpreters import partial_eval

from ._losses import Losses, LossesFn
from ._player import Params, Player

Routes = dict[str, dict[str, str]]


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
      args: the rest of the arguments of ``losses``.
      has_aux: whether ``losses`` returns an auxiliary value beside the dict.

    Returns:
      ``{loss: {group: "all" | "some" | "none"}}``: all, some or none of the group's floating-point leaves are reached.

    Raises:
      ValueError: where ``params`` is not a dict, or ``losses`` does not return a dict of scalars.

    >>> import jax, jax.numpy as jnp
    >>> def losses(params, x):
    ...     a = params["model1"] * x
    ...     b = params["model2"] * jax.lax.stop_gradient(a)
    ...     return {"l1": jnp.sum(a**2), "l2": jnp.sum(b**2)}
    >>> gradient_routes(losses, {"model1": jnp.ones(3), "model2": jnp.ones(3)}, jnp.arange(3.0))
    {'l1': {'model1': 'all', 'model2': 'none'}, 'l2': {'model1': 'none', 'model2': 'all'}}
    """
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

    group_of = [paths_and_leaves[i][0][0].key for i in floats]
    return {
        loss: {group: _extent([hit for hit, of in zip(hits, group_of, strict=True) if of == group]) for group in params}
        for loss, hits in _reached(values_of, floats).items()
    }


def check_params(params: Any) -> None:
    """ValueError for anything but a dict of parameter groups."""
    if not isinstance(params, dict):
        raise ValueError(f"params must be a dict of parameter groups, got {type(params).__name__}")
    for key in params:
        if not isinstance(key, str):
            raise ValueError(f"the groups of params must be named by strings, got {key!r}")


def check_routes(routes: Routes, players: dict[str, Player]) -> None:
    """ValueError for a player whose loss does not exist or cannot move what the player is there to move."""
    for name, player in players.items():
        if player.loss not in routes:
            raise ValueError(f"player {name!r} minimises loss {player.loss!r}, but losses returned {sorted(routes)}")
        for group in player.groups:
            if routes[player.loss][group] == "none":
                raise ValueError(
                    f"player {name!r} moves {group!r}, but no gradient of its loss {player.loss!r} gets there: the "
                    f"optimizer would step on zeros. Remove the stop_gradient between them, or take {group!r} out of "
                    f"wrt. The routes of {player.loss!r}: {routes[player.loss]}"
                )


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


def _extent(hits: list[bool]) -> str:
    return "none" if not any(hits) else "all" if all(hits) else "some"


def is_floating(leaf: Any) -> bool:
    """Whether a leaf is floating point: no callable, key, integer, flag or complex number."""
    try:
        return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    except TypeError:
        return False
