"""One player of a multi-model update: an optimizer, the loss it minimises, and the parameters it moves."""

from dataclasses import KW_ONLY, dataclass
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

    Raises:
      ValueError: where one of them is not of that form.

    >>> import optax
    >>> generator = Player(optax.adam(2e-4, b1=0.5), loss="g", wrt="generator")
    >>> generator.groups
    ('generator',)
    """

    optimizer: optax.GradientTransformation
    _: KW_ONLY
    loss: str
    wrt: str | tuple[str, ...]

    def __post_init__(self):
        if not (hasattr(self.optimizer, "init") and hasattr(self.optimizer, "update")):
            raise ValueError(f"optimizer must be an optax gradient transformation, got {self.optimizer!r}")
        if not isinstance(self.loss, str):
            raise ValueError(f"loss must be the name of one loss, got {self.loss!r}")
        groups = self.groups
        if not groups or not all(isinstance(group, str) for group in groups):
            raise ValueError(f"wrt must be a key of params or a tuple of keys, got {self.wrt!r}")
        if len(set(groups)) < len(groups):
            raise ValueError(f"wrt names a parameter group twice: {self.wrt!r}")

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
