"""The options of the two-model recipe, apart from it so that the command line lists them without loading flax."""

from dataclasses import dataclass
from typing import Literal, get_args

from ._checks import is_int, is_number, require

LossName = Literal["focal", "balanced", "ce"]
Order = Literal["simultaneous", "alternating"]
LOSS_NAMES: tuple[LossName, ...] = get_args(LossName)


@dataclass(frozen=True)
class TwoModelConfig:
    """What a two-model run depends on; the same values give the same numbers.

    Raises:
      ValueError: for a value out of its range; the message says what was given and what was expected.
    """

    loss: LossName = "focal"
    """focal: gamma 2, and alpha 0.25 for the tail. balanced: cross-entropy weighted by inverse frequency. ce: plain
    cross-entropy."""
    order: Order = "simultaneous"
    """simultaneous: both gradients at the old parameters. alternating: model2 sees model1 already updated."""
    steps: int = 1000
    """Training steps."""
    imbalance: float = 100.0
    """Training images of the most frequent digit for each one of the rarest; 1 is balanced."""
    seed: int = 0
    """Seed of the split, the initial parameters and the batches."""
    learning_rate: float = 1e-3
    """Learning rate of both Adam optimizers."""
    batch_size: int = 64
    """Images in a batch."""

    def __post_init__(self) -> None:
        require("loss", self.loss, self.loss in LOSS_NAMES, f"one of {', '.join(LOSS_NAMES)}")
        require("order", self.order, self.order in get_args(Order), f"one of {', '.join(get_args(Order))}")
        positive = "an integer of at least 1"
        require("steps", self.steps, is_int(self.steps, 1), positive)
        imbalance, rate = self.imbalance, self.learning_rate
        require("imbalance", imbalance, is_number(imbalance) and imbalance >= 1, "finite and at least 1")
        require("seed", self.seed, is_int(self.seed, 0) and self.seed < 2**31, "an integer in [0, 2**31)")
        require("learning_rate", rate, is_number(rate) and rate > 0, "finite and above 0")
        require("batch_size", self.batch_size, is_int(self.batch_size, 1), positive)
