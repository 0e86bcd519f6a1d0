"""What figures share: colours and dashes, losses over the steps, legends."""

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

# Okabe and Ito's, told apart by the colour-blind too
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", (0, (6, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (9, 2, 1, 2, 1, 2)), (0, (9, 3)))


def moving_mean(values: ArrayLike, window: int) -> np.ndarray:
    """The mean over ``window`` values around each place, of those there are near the ends."""
    values = np.asarray(values, np.float64)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.arange(len(values)) - (window - 1) // 2
    start, end = np.maximum(first, 0), np.minimum(first + window, len(values))
    return (sums[end] - sums[start]) / (end - start)


def styles() -> Iterator[tuple[str, Any]]:
    """Colour and dashes of one line after the other: the dashes are for prints in grey."""
    return zip(cycle(COLORS), cycle(DASHES), strict=False)


def draw_losses(axes: Axes, losses: Mapping[str, ArrayLike], scale: str = "log") -> None:
    """Each faintly, its moving mean on top."""
    for color, (label, values) in zip(cycle(COLORS), losses.items(), strict=False):
        values = np.asarray(values)
        steps = np.arange(1, len(values) + 1)
        axes.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
        axes.plot(steps, moving_mean(values, max(1, len(values) // 50)), color=color, label=label)
    axes.set_yscale(scale)
    axes.set_xlabel("training step")
    axes.set_ylabel("training loss, each step and moving mean")
    axes.grid(alpha=0.3)
    legend_above(axes)


def legend_above(axes: Axes) -> None:
    """A legend in one row that hides no data."""
    labels = axes.get_legend_handles_labels()[1]
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(labels), frameon=False)
