"""Several losses, several optimizers, one pure step."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from ._explain import explain
from ._gradients import Gradient, own_gradient, shared_gradients
from ._keys import check_key
from ._losses import Losses, LossesFn
from ._player import Params, Player, named_players
from ._routes import check_names, check_routes, routes_of, unmoved_groups
from ._state import MultiState, check_declared, check_groups, check_state, initial_state
from ._subbatches import split_batches
from ._turn import Report, moves_at, own_of, take_turn, with_own

ORDERS = ("simultaneous", "alternating")
Metrics = dict[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class MultiUpdate:
    """A pair of pure functions, as an optax optimizer is: ``init(params)`` and ``update(state, *args)``.

    Made by :func:`multi_update`, which says what they compute.
    """

    losses: LossesFn
    players: dict[str, Player]
    order: str
    has_aux: bool
    has_model_state: bool
    has_key: bool
    _warned: list[str] = field(default_factory=list, init=False)

    def __repr__(self) -> str:
        return f"<multi_update of {', '.join(self.players)}, {self.order}>"

    def init(self, params: Params, *, model_state: Any = None, key: Array | None = None) -> MultiState:
        """The state before the first step.

        It holds the arrays it was given, not copies of them: where a state is donated to a step, the ``params``,
        ``model_state`` and ``key`` given here are used up with it. No array is in it twice, so that it can be donated.

        Raises:
          ValueError: where ``params`` is not a dict, a player's ``wrt`` is no key of it, a leaf that a player is to
            move is not floating point, or ``model_state`` or ``key`` is given without being declared or the reverse.
        """
        self._check_given(model_state, key)
        return initial_state(self.players, params, model_state, key)

    def update(self, state: MultiState, *args: Any) -> tuple[MultiState, Metrics]:
        """One step of every player. Pure: put it under ``jax.jit``.

        Returns:
          The new state, and the metrics: each loss under its name, ``grad_norm/<player>``, ``skipped/<player>`` (the
          count so far) for players with ``skip_nonfinite``, and, with ``has_aux``, ``aux``. A loss that a player
          minimises is reported where that player took its gradient, any other where the first player did; ``aux`` is
          that of the last player. Of ``n_steps`` moves the last one reports. Players with ``every`` above 1 report
          their own loss only: at a step that one sits out, that loss is reported as any other is, and its
          ``grad_norm`` is 0. Where no player moves at every step, one forward pass more reports the rest.

        Raises:
          ValueError: where ``state`` is not one of this update's, ``losses`` does not return what the players need, a
            player's loss cannot reach the parameters it is there to move, or ``n_steps`` does not divide the batch.

        Warns:
          UserWarning: once, where nobody moves a group of ``state.params``.
        """
        check_state(state, self.players, self.has_model_state, self.has_key)
        self._check(state, *args)
        shared = self._shared_gradients(state, *args)
        before, reports = state, dict[str, Report]()
        for number, (name, player) in enumerate(self.players.items()):
            at = state.params if self.order == "alternating" else before.params
            gradient = partial(self._gradient, player, at, shared.get(name))
            key = self._key(before, number)
            own, reports[name] = take_turn(player, gradient, own_of(name, player, at, state), before.step, key, args)
            state = with_own(name, player, own, state)
        return state._replace(step=before.step + 1), self._metrics(before, state, reports, *args)

    def explain(self, params: Params, *args: Any, model_state: Any = None, key: Array | None = None) -> str:
        """What a step does, in plain words: order, players, who sees old or new parameters, and the table of routes.

        Args:
          params: as for ``init``; so are ``model_state`` and ``key``.
          args: as for ``update``. Nothing is computed; of ``params`` only shapes and dtypes are read.

        Raises:
          ValueError: as ``init`` and ``update``, but for routes that lead nowhere: they are in the text.
        """
        self._check_given(model_state, key)
        check_groups(self.players, params)
        routes = routes_of(self._losses, params, model_state, key, *args)
        check_names(routes, self.players)
        for player in self.players.values():
            if player.n_steps > 1:
                jax.eval_shape(lambda n=player.n_steps: split_batches(args, n)[0])
        return explain(self.players, self.order, self.has_model_state, routes, params)

    def _check_given(self, model_state: Any, key: Array | None) -> None:
        check_declared("model_state", model_state, self.has_model_state)
        check_declared("key", key, self.has_key)
        if self.has_key:
            check_key(key)

    def _gradient(self, player: Player, at: Params, shared: Gradient | None, seen: Any, *inputs: Any) -> Gradient:
        return shared or own_gradient(self._losses, player, player.put(at, seen), *inputs)

    @property
    def _losses(self) -> Losses:
        return Losses(self.losses, self.has_aux, self.has_model_state, self.has_key)

    def _key(self, state: MultiState, number: int) -> Array | None:
        """The key of a player in this step."""
        return jax.random.fold_in(jax.random.fold_in(state.key, state.step), number) if self.has_key else None

    def _shared_gradients(self, state: MultiState, *args: Any) -> dict[str, Gradient]:
        """The gradients that one forward pass serves: at the old parameters, of one batch, model state and key."""
        if self.order == "alternating" or self.has_key:
            return {}
        at_old_state = {}
        for name, player in self.players.items():
            at_old_state[name] = player
            if self.has_model_state and player.updates_state:
                break
        players = {name: player for name, player in at_old_state.items() if player.every == player.n_steps == 1}
        if len(players) < 2:
            return {}
        return shared_gradients(self._losses, players, state.params, state.model_state, *args)

    def _check(self, state: MultiState, *args: Any) -> None:
        """What shows when a step is traced: routes that lead nowhere, and groups that nobody moves."""
        routes = routes_of(self._losses, state.params, state.model_state, self._key(state, 0), *args)
        check_routes(routes, self.players)
        unmoved = unmoved_groups(self.players, state.params)
        if unmoved and not self._warned:
            self._warned.extend(unmoved)
            warnings.warn(
                f"no player moves {', '.join(map(repr, unmoved))}, which will stay as given. If that is meant, hand it "
                "to losses as an argument of update instead of in params",
                stacklevel=3,
            )

    def _metrics(self, before: MultiState, after: MultiState, reports: dict[str, Report], *args: Any) -> Metrics:
        steady = [reports[name] for name, player in self.players.items() if player.every == 1]
        if steady:
            values, aux = steady[0].values, steady[-1].aux
        else:
            values, _, aux = self._losses(before.params, before.model_state, self._key(before, len(reports)), *args)
        metrics: Metrics = dict(values)
        for name, player in self.players.items():
            loss = reports[name].values[player.loss]
            if player.every > 1:
                loss = jnp.where(moves_at(player, before.step), loss, metrics[player.loss])
            metrics |= {player.loss: loss, f"grad_norm/{name}": reports[name].grad_norm}
        metrics |= {f"skipped/{name}": count for name, count in after.skipped.items()}
        return metrics | ({"aux": aux} if self.has_aux else {})


def multi_update(
    losses: LossesFn,
    players: Mapping[str, Player] | Iterable[tuple[str, Player]],
    *,
    order: Literal["simultaneous", "alternating"] = "simultaneous",
    has_aux: bool = False,
    has_model_state: bool = False,
    has_key: bool = False,
) -> MultiUpdate:
    """A training step of several models, each moved by its own optimizer down its own loss.

    With groups ``theta_i = params[wrt_i]``, losses ``l_i`` and optimizers ``U_i``, in the players' order:

        simultaneous    theta_i <- U_i(theta_i, dl_i/dtheta_i at the old parameters of all players)
        alternating     theta_i <- U_i(theta_i, dl_i/dtheta_i at the parameters the players before left)

    A loss moves only the parameters in its player's ``wrt`` and all others are constants to it, whatever else the loss
    depends on: what ``detach``, or ``retain_graph`` with ``zero_grad`` between two ``backward`` calls, does in PyTorch.
    A group may be in the ``wrt`` of two players; each has an optimizer state for it, and the updates apply in order.

    Simultaneous players share one forward pass, through which each loss is differentiated by itself. Those with
    ``every`` or ``n_steps`` above 1 have their own, and so has each player with ``has_key``, which gives each a key (a
    key in the batch is one for all), and each player behind one that moves the model state: those with
    ``updates_state=False`` come first.

    Args:
      losses: ``losses(params, *args)``, pure: one forward pass that returns a dict of scalar losses, alone or as a
        tuple with what is declared below: ``(dict, model_state, aux)``.
      players: a dict of :class:`Player` by name, or pairs of both. Their order is the order of the updates.
      order: "simultaneous", or "alternating" (a fresh forward pass for each player).
      has_aux: whether ``losses`` returns an auxiliary value, to be found in ``metrics["aux"]``.
      has_model_state: whether ``losses`` is ``losses(params, model_state, *args)`` and returns the new model state
        (BatchNorm statistics). It goes from player to player in their order, under "simultaneous" too: each forward
        pass starts from what the one before left.
      has_key: whether ``losses`` takes a random key as ``key=``: that of the state, folded with step, player and move.

    Returns:
      The pair ``init(params, *, model_state=None, key=None) -> state`` and
      ``update(state, *args) -> (state, metrics)``.

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
    named = named_players(players)
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
    for option, value in (("has_aux", has_aux), ("has_model_state", has_model_state), ("has_key", has_key)):
        if not isinstance(value, bool):
            raise ValueError(f"{option} must be True or False, got {value!r}")
    return MultiUpdate(losses, named, order, has_aux, has_model_state, has_key)
