"""The options of the detector recipe, apart from it so that the command line lists them without loading flax."""

from dataclasses import dataclass
from typing import Literal, get_args

from ._checks import is_int, is_number, require

LossName = Literal["focal", "balanced", "ohem", "ce"]
LOSS_NAMES: tuple[LossName, ...] = get_args(LossName)


@dataclass(frozen=True)
class DetectorConfig:
    """What a detector run depends on; the same values give the same numbers.

    Raises:
      ValueError: for a value out of its range; the message says what was given and what was expected.
    """

    loss: LossName = "focal"
    """focal: gamma 2, alpha 0.25. balanced: cross-entropy, alpha 0.75. ohem: cross-entropy of all positive anchors and
    the three times as many hardest negative ones. ce: plain cross-entropy."""
    steps: int = 600
    """Training steps."""
    seed: int = 0
    """Seed of the scenes, the initial parameters and the batches."""
    learning_rate: float = 3e-3
    """Highest learning rate of Adam: from 0 it rises over the first tenth of the steps, then falls to 0 along a
    cosine."""
    batch_size: int = 8
    """Scenes in a batch."""

    def __post_init__(self) -> None:
        require("loss", self.loss, self.loss in LOSS_NAMES, f"one of {', '.join(LOSS_NAMES)}")
        positive = "an integer of at least 1"
        require("steps", self.steps, is_int(self.steps, 1), positive)
        require("seed", self.seed, is_int(self.seed, 0) and self.seed < 2**31, "an integer in [0, 2**31)")
        rate = self.learning_rate
        require("learning_rate", rate, is_number(rate) and rate > 0, "finite and above 0")
        require("batch_size", self.batch_size, is_int(self.batch_size, 1), positive)
