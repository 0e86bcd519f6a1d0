"""Many steps in one compiled loop."""

from functools import partial
from typing import Any

import jax

from ._convolutions import body
from ._kinds import kind
from ._state import MultiState
from ._step import Metrics, MultiUpdate


def scan_updates(update: MultiUpdate, state: MultiState, *batches: Any) -> tuple[MultiState, Metrics]:
    """``update.update`` over the leading axis of ``batches``, in one compiled ``jax.lax.scan``.

    The numbers are those of a Python loop over the same batches, to rounding. The loop is compiled once for each
    ``update`` object and number of steps: make the update once, and run chunks of one length.

    Args:
      update: made by ``multi_update``.
      state: the state before the first step.
      batches: the arguments of ``update.update`` after the state, each array with a leading axis of n steps.

    Returns:
      The state after n steps, and the metrics of all of them, with a leading axis of n.

    Raises:
      ValueError: where ``update`` is not from ``multi_update``, there is no array in ``batches``, or their leading axes
        differ.

    >>> import jax.numpy as jnp, optax
    >>> from jaxfocal import Player, multi_update
    >>> player = Player(optax.sgd(0.5), loss="l", wrt="w")
    >>> update = multi_update(lambda params, x: {"l": (params["w"] - x) ** 2}, {"w": player})
    >>> state, metrics = scan_updates(update, update.init({"w": jnp.array(0.0)}), jnp.array([1.0, 3.0]))
    >>> print(state.params["w"], metrics["l"])
    3.0 [1. 4.]
    """
    if not isinstance(update, MultiUpdate):
        raise ValueError(f"update must be what multi_update returned, got {kind(update)}")
    leaves = jax.tree_util.tree_leaves_with_path(batches)
    shapes = [jax.numpy.shape(leaf) for _, leaf in leaves]
    if not shapes:
        raise ValueError("scan_updates needs at least one array of batches, got none")
    if () in shapes or len({shape[0] for shape in shapes}) > 1:
        names = [f"batches{jax.tree_util.keystr(path)}" for path, _ in leaves]
        given = ", ".join(f"{name} of shape {shape}" for name, shape in zip(names, shapes, strict=True))
        raise ValueError(f"batches must share one leading axis of steps, got {given}")
    return _scan(update, state, batches)


@partial(jax.jit, static_argnums=0)
def _scan(update: MultiUpdate, state: MultiState, batches: Any) -> tuple[MultiState, Metrics]:
    return jax.lax.scan(body(lambda state, batch: update.update(state, *batch)), state, batches)
