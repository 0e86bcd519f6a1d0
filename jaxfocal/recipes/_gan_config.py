"""The options of the GAN recipe, apart from it so that the command line lists them without loading flax."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ._checks import is_int, require

LossName = Literal["bce", "wgan-gp"]
Order = Literal["alternating", "simultaneous"]


@dataclass(frozen=True)
class GanConfig:
    """What a GAN run depends on; the same values give the same numbers.

    Raises:
      ValueError: for a value out of its range; the message says what was given and what was expected.
    """

    loss: LossName = "bce"
    """bce: cross-entropy, non-saturating for the generator. wgan-gp: Wasserstein with gradient penalty."""
    order: Order = "alternating"
    """alternating: the generator learns from the updated discriminator. simultaneous: from the one before the step."""
    n_critic: int | None = None
    """Discriminator steps before each generator step, each on images of its own; by default 1, and 5 for wgan-gp."""
    steps: int = 12000
    """Generator steps."""
    seed: int = 0
    """Seed of the split, the initial parameters, the batches and the noise."""
    learning_rate: float = 5e-4
    """Learning rate of both Adam optimizers."""
    batch_size: int = 64
    """Images in a discriminator step."""
    ema: float = 0.999
    """Decay of the average of the generator's parameters that the samples are drawn from."""

    def __post_init__(self) -> None:
        require("loss", self.loss, self.loss in get_args(LossName), f"one of {', '.join(get_args(LossName))}")
        require("order", self.order, self.order in get_args(Order), f"one of {', '.join(get_args(Order))}")
        positive = "an integer of at least 1"
        require("n_critic", self.n_critic, self.n_critic is None or _is_positive(self.n_critic), positive)
        require("steps", self.steps, _is_positive(self.steps), positive)
        require("seed", self.seed, is_int(self.seed) and 0 <= self.seed < 2**31, "an integer in [0, 2**31)")
        require("learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf, "finite and above 0")
        require("batch_size", self.batch_size, _is_positive(self.batch_size), positive)
        require("ema", self.ema, 0 <= self.ema < 1, "in [0, 1)")

    @property
    def discriminator_steps(self) -> int:
        """``n_critic``, or what the loss is usually trained with."""
        return self.n_critic or (5 if self.loss == "wgan-gp" else 1)


def _is_positive(value: int) -> bool:
    return is_int(value) and value >= 1
