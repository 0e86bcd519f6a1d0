"""One player of a multi-model update: an optimizer, the loss it minimises, and the parameters it moves."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any

import optax

Params = dict[str, Any]


@dataclass(frozen=True)
class Player:
    """An optimizer that moves the parameter groups ``wrt`` down the gradient of ``loss``; the rest is constant to it.

    Args:
      optimizer: an optax gradient transformation. It may take the loss as ``value=`` (``reduce_on_plateau``), but not
        the function (``lbfgs``).
      loss: a key of the dict that the losses function returns. A sum of two losses is a key of its own there.
      wrt: a key of the parameters, or a tuple of keys. The optimizer sees ``params[wrt]`` for a key, and the dict
        ``{key: params[key]}`` for a tuple: ``itertools.chain`` of a PyTorch optimizer.
      every: the player moves at the steps 0, every, 2 every, ... In between nothing of it moves (parameters, optimizer
        state, average, count, model state), and its gradient is not computed.
      n_steps: how many times the player moves in one step, each time on another part of the batch: move j gets the rows
        j, j + n_steps, j + 2 n_steps, ... of the leading axis of every array in it, so that no row of a sharded batch
        leaves its device. Scalars go to each move, a random key (``jax.random.key``) folded with j. The other players'
        parameters are constant meanwhile.
      ema: None, or a decay in [0, 1): ``state.ema[name]`` becomes ``ema * average + (1 - ema) * parameters`` after each
        move, from the first parameters on; in float32 where they have fewer bits. Model state is not averaged: evaluate
        an average with ``state.model_state``.
      skip_nonfinite: whether a gradient with a NaN or an infinity moves nothing of this player, its model state
        included, but adds one to ``state.skipped[name]``. The others go on.
      updates_state: whether the model state that this player's forward pass returns is kept.

    Raises:
      ValueError: where one of them is not of that form.

    >>> import optax
    >>> generator = Player(optax.adam(2e-4, b1=0.5), loss="g", wrt="generator", ema=0.999)
    >>> generator.groups
    ('generator',)
    """

    optimizer: optax.GradientTransformation = field(repr=False)
    _: KW_ONLY
    loss: str
    wrt: str | tuple[str, ...]
    every: int = 1
    n_steps: int = 1
    ema: float | None = None
    skip_nonfinite: bool = False
    updates_state: bool = True

    def __post_init__(self):
        methods = [getattr(self.optimizer, name, None) for name in ("init", "update")]
        if isinstance(self.optimizer, type) or not all(map(callable, methods)):
            raise ValueError(f"optimizer must be an optax gradient transformation, got {self.optimizer!r}")
        if not isinstance(self.loss, str):
            raise ValueError(f"loss must be the name of one loss, got {self.loss!r}")
        groups = self.groups
        if not groups or not all(isinstance(group, str) for group in groups):
            raise ValueError(f"wrt must be a key of params or a tuple of keys, got {self.wrt!r}")
        if len(set(groups)) < len(groups):
            raise ValueError(f"wrt names a parameter group twice: {self.wrt!r}")
        for name in ("every", "n_steps"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, Integral) or not 1 <= int(count) < 2**31:
                raise ValueError(f"{name} must be an integer in [1, 2**31), got {count!r}")
        ema = self.ema
        if ema is not None and (isinstance(ema, bool) or not isinstance(ema, Real) or not 0 <= ema < 1):
            raise ValueError(f"ema must be None or a decay in [0, 1), got {ema!r}")
        for name in ("skip_nonfinite", "updates_state"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")

    @property
    def groups(self) -> tuple[str, ...]:
        """The keys of ``wrt`` as a tuple."""
        return self.wrt if isinstance(self.wrt, tuple) else (self.wrt,)

    def take(self, params: Params) -> Any:
        """The player's own parameters, as its optimizer sees them."""
        return params[self.wrt] if isinstance(self.wrt, str) else {key: params[key] for key in self.groups}

    def put(self, params: Params, own: Any) -> Params:
        """``params`` with the player's own parameters replaced."""
        return {**params, **({self.wrt: own} if isinstance(self.wrt, str) else own)}


def named_players(players: Mapping[str, Player] | Iterable[tuple[str, Player]]) -> dict[str, Player]:
    """The players by name, in their order; ValueError for what is not a dict of players or pairs of that kind."""
    if not isinstance(players, Mapping | Iterable):
        raise ValueError(f"players must be a dict of Player by name, or pairs of both, got {players!r}")
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
    return named
