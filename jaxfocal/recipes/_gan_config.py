"""The options of the GAN recipe, apart from it so that the command line lists them without loading flax."""

from dataclasses import dataclass
from typing import Literal, get_args

from ._checks import is_int, is_number, require

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
        require("n_critic", self.n_critic, self.n_critic is None or is_int(self.n_critic, 1), positive)
        require("steps", self.steps, is_int(self.steps, 1), positive)
        require("seed", self.seed, is_int(self.seed, 0) and self.seed < 2**31, "an integer in [0, 2**31)")
        rate = self.learning_rate
        require("learning_rate", rate, is_number(rate) and rate > 0, "finite and above 0")
        require("batch_size", self.batch_size, is_int(self.batch_size, 1), positive)
        require("ema", self.ema, is_number(self.ema) and 0 <= self.ema < 1, "in [0, 1)")

    @property
    def discriminator_steps(self) -> int:
        """``n_critic``, or what the loss is usually trained with."""
        return self.n_critic or (5 if self.loss == "wgan-gp" else 1)
