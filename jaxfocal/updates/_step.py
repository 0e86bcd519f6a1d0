"""Several losses, several optimizers, one pure step."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from ._losses import LossesFn, evaluate
from ._player import Params, Player
from ._routes import check_params, check_routes, gradient_routes, is_floating

ORDERS = ("simultaneous", "alternating")
Metrics = dict[str, Any]


class MultiState(NamedTuple):
    """What a multi-model update carries from step to step, a pytree.

    ``params`` is the dict of parameter groups, ``opt_states`` holds one optimizer state a player by the player's name,
    and ``step`` (int32 scalar) counts the updates.
    """

    step: Array
    params: Params
    opt_states: dict[str, Any]


@dataclass(frozen=True, eq=False)
class MultiUpdate:
    """A pair of pure functions, as an optax optimizer is: ``init(params)`` and ``update(state, *args)``.

    Made by :func:`multi_update`, which says what they compute.
    """

    losses: LossesFn
    players: dict[str, Player]
    order: str
    has_aux: bool

    def init(self, params: Params) -> MultiState:
        """The state before the first step. It holds ``params`` itself: donate the state and they are donated too.

        Raises:
          ValueError: where ``params`` is not a dict, a player's ``wrt`` is no key of it, or a leaf that a player is to
            move is not floating point.
        """
        check_params(params)
        for name, player in self.players.items():
            for group in player.groups:
                if group not in params:
                    raise ValueError(f"player {name!r} has wrt {group!r}, which is no key of params: {sorted(params)}")
                _check_movable(name, group, params[group])
        moved = {group for player in self.players.values() for group in player.groups}
        params = {key: _strongly_typed(value) if key in moved else value for key, value in params.items()}
        opt_states = {name: player.optimizer.init(player.take(params)) for name, player in self.players.items()}
        return MultiState(jnp.zeros((), jnp.int32), params, opt_states)

    def update(self, state: MultiState, *args: Any) -> tuple[MultiState, Metrics]:
        """One step of every player. Pure: put it under ``jax.jit``.

        Returns:
          The new state, and the metrics: each loss under its name (a player's loss at the parameters where the player
          took its gradient, any other at those of the first forward pass), ``grad_norm/<player>``, and, with
          ``has_aux``, the ``aux`` of the last forward pass.

        Raises:
          ValueError: where ``state`` is not one of this update's, ``losses`` does not return what the players need, or
            a player's loss cannot reach the parameters it is there to move.
        """
        if not isinstance(state, MultiState) or state.opt_states.keys() != self.players.keys():
            raise ValueError("state must come from init or update of this multi_update, not from elsewhere")
        check_routes(gradient_routes(self.losses, state.params, *args, has_aux=self.has_aux), self.players)
        params, aux = state.params, None
        opt_states: dict[str, Any] = {}
        metrics: Metrics = {}
        for name, player in self.players.items():
            at = params if self.order == "alternating" else state.params
            grads, values, aux = self._gradient(player, at, *args)
            metrics = {
                **values,
                **metrics,
                player.loss: values[player.loss],
                f"grad_norm/{name}": optax.tree.norm(grads),
            }
            own = player.take(params)
            optimizer = optax.with_extra_args_support(player.optimizer)
            updates, opt_states[name] = optimizer.update(grads, state.opt_states[name], own, value=values[player.loss])
            params = player.put(params, optax.apply_updates(own, updates))
        if self.has_aux:
            metrics["aux"] = aux
        return MultiState(state.step + 1, params, opt_states), metrics

    def _gradient(self, player: Player, params: Params, *args: Any) -> tuple[Any, dict[str, Array], Any]:
        """The gradient of the player's own loss with respect to its own parameters; all others are constants."""

        def own_loss(own: Any) -> tuple[Array, tuple[dict[str, Array], Any]]:
            values, aux = evaluate(self.losses, self.has_aux, player.put(params, own), *args)
            return values[player.loss], (values, aux)

        grads, (values, aux) = jax.grad(own_loss, has_aux=True)(player.take(params))
        return grads, values, aux


def _strongly_typed(params: Any) -> Any:
    """The same arrays; Python and NumPy numbers as arrays, so that no step changes a type and compiles anew."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), params)


def _check_movable(name: str, group: str, params: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not is_floating(leaf):
            raise ValueError(
                f"player {name!r} moves {group!r}, but its leaf {group}{jax.tree_util.keystr(path)} is "
                f"{getattr(leaf, 'dtype', type(leaf).__name__)}, not floating point: keep it in another group, or "
                "out of params"
            )


def multi_update(
    losses: LossesFn,
    players: Mapping[str, Player] | Iterable[tuple[str, Player]],
    *,
    order: Literal["simultaneous", "alternating"] = "simultaneous",
    has_aux: bool = False,
) -> MultiUpdate:
    """A training step of several models, each moved by its own optimizer down its own loss.

    With groups ``theta_i = params[wrt_i]``, losses ``l_i`` and optimizers ``U_i``, in the players' order:

        simultaneous    theta_i <- U_i(theta_i, dl_i/dtheta_i at the old parameters of all players)
        alternating     theta_i <- U_i(theta_i, dl_i/dtheta_i at the parameters the players before left)

    A loss moves only the parameters in its player's ``wrt`` and all others are constants to it, whatever else the loss
    depends on: what ``detach``, or ``retain_graph`` with ``zero_grad`` between two ``backward`` calls, does in PyTorch.
    A group may be in the ``wrt`` of two players; each has an optimizer state for it, and the updates apply in order.

    Args:
      losses: ``losses(params, *args)``, pure: one forward pass that returns a dict of scalar losses; with
        ``has_aux=True`` a tuple of that dict and anything else.
      players: a dict of :class:`Player` by name, or pairs of both. Their order is the order of the updates.
      order: "simultaneous", or "alternating" (a fresh forward pass for each player).
      has_aux: whether ``losses`` returns an auxiliary value, to be found in ``metrics["aux"]``.

    Returns:
      The pair ``init(params) -> state`` and ``update(state, *args) -> (state, metrics)``.

    Raises:
      ValueError: for an unknown order, no player, something that is no player, two players of one name, or ``losses``
        that cannot be called.

    >>> import jax, jax.numpy as jnp, optax
    >>> def losses(params, x):
    ...     a = params["model1"] * x
    ...     b = params["model2"] * jax.lax.stop_gradient(a)
    ...     return {"l1": jnp.mean((a - 1) ** 2), "l2": jnp.mean((b - 2) ** 2)}
    >>> update = multi_update(losses, {
    ...     "first": Player(optax.sgd(0.1), loss="l1", wrt="model1"),
    ...     "second": Player(optax.adam(0.1), loss="l2", wrt="model2"),
    ... })
    >>> state = update.init({"model1": jnp.array(0.5), "model2": jnp.array(1.0)})
    >>> state, metrics = jax.jit(update.update)(state, jnp.array([1.0, 2.0]))
    >>> {name: round(float(value), 2) for name, value in sorted(metrics.items())}
    {'grad_norm/first': 0.5, 'grad_norm/second': 1.75, 'l1': 0.12, 'l2': 1.62}
    """
    if not callable(losses):
        raise ValueError(f"losses must be a function of params, got {losses!r}")
    named: dict[str, Player] = {}
    for pair in players.items() if isinstance(players, Mapping) else players:
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise ValueError(f"players must be a dict of Player by name, or pairs of both, got {pair!r}")
        name, player = pair
        if not isinstance(name, str):
            raise ValueError(f"players must be named by strings, got {name!r}")
        if not isinstance(player, Player):
            raise ValueError(f"players must map names to Player, got {name!r}: {player!r}")
        if name in named:
            raise ValueError(f"two players have the name {name!r}")
        named[name] = player
    if not named:
        raise ValueError("players must hold at least one player, got none")
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    return MultiUpdate(losses, named, order, has_aux)
