"""Figures: arrays in, a matplotlib Figure out, with no global state."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

# Okabe and Ito's, told apart by the colour-blind too
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", (0, (6, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (9, 2, 1, 2, 1, 2)), (0, (9, 3)))

Curve = Callable[[np.ndarray], ArrayLike]


def training_figure(
    losses: Mapping[str, ArrayLike],
    recall: ArrayLike,
    counts: ArrayLike,
    *,
    tail: Sequence[int] = (),
    title: str = "",
) -> Figure:
    """Losses over the training steps, beside the recall of each class.

    Args:
      losses: label to losses ``(steps,)``, each drawn faintly with its moving mean on top.
      recall: ``(classes,)``, in [0, 1].
      counts: ``(classes,)``, training examples a class.
      tail: classes to shade.
      title: over the whole figure.

    Returns:
      A figure of two axes.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _draw_losses(left, losses)
    _draw_class_recall(right, {"recall": recall}, counts, tail)
    return figure


def comparison_figure(
    recalls: Mapping[str, ArrayLike],
    counts: ArrayLike,
    scores: Mapping[str, Mapping[str, float | None]],
    *,
    tail: Sequence[int] = (),
    title: str = "",
    scores_label: str = "",
) -> Figure:
    """The recall of each class under several losses, beside other scores of the same runs.

    Args:
      recalls: loss to recalls ``(classes,)``, in [0, 1].
      counts: ``(classes,)``, training examples a class.
      scores: loss to scores by name, each in [0, 1]; None where a score is undefined.
      tail: classes to shade.
      title: over the whole figure.
      scores_label: what the scores are about.

    Returns:
      A figure of two axes.
    """
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2, width_ratios=(3, 1))
    _draw_class_recall(left, recalls, counts, tail)
    names = list(next(iter(scores.values())))
    _draw_bars(right, {loss: np.array([row[name] for name in names], np.float64) for loss, row in scores.items()})
    right.set_xticks(range(len(names)), names)
    right.set_ylabel(scores_label)
    return figure


def samples_figure(rows: Mapping[str, ArrayLike], *, title: str = "") -> Figure:
    """Rows of small grey images, dark where they are 1.

    Args:
      rows: label to images ``(n, height, width)``, in [0, 1].
      title: over the whole figure.

    Returns:
      A figure of an axes a row.
    """
    strips = {label: _side_by_side(np.asarray(images)) for label, images in rows.items()}
    height, width = next(iter(strips.values())).shape
    row_height = 9.0 * height / width
    figure = Figure(figsize=(10.5, 0.6 + 1.1 * row_height * len(strips)), layout="constrained")
    figure.suptitle(title)
    for axes, (label, strip) in zip(figure.subplots(len(strips), squeeze=False).flat, strips.items(), strict=True):
        axes.imshow(strip, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_ylabel(label, rotation="horizontal", ha="right", va="center")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    return figure


def distances_figure(
    losses: Mapping[str, ArrayLike],
    distances: Mapping[str, Mapping[int, float]],
    references: Mapping[str, float],
    *,
    title: str = "",
    distances_label: str = "",
) -> Figure:
    """Losses over the training steps, beside a distance measured now and then.

    Args:
      losses: label to losses ``(steps,)``, each drawn faintly with its moving mean on top; they may be negative.
      distances: label to distances by step, each > 0.
      references: label to distances > 0 to compare with, dashed.
      title: over the whole figure.
      distances_label: what the distances are.

    Returns:
      A figure of two axes.
    """
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _draw_losses(left, losses, scale="linear")
    for color, (label, by_step) in zip(cycle(COLORS), distances.items(), strict=False):
        right.plot(list(by_step), list(by_step.values()), color=color, marker=".", label=label)
    for dashes, (label, distance) in zip(DASHES[1:], references.items(), strict=False):
        right.axhline(distance, color="0.45", linestyle=dashes, label=label)
    right.set_yscale("log")
    right.set_xlabel("training step")
    right.set_ylabel(distances_label)
    right.grid(alpha=0.3)
    _legend_above(right)
    return figure


def focal_curves_figure(curves: Mapping[str, Curve], *, well_classified: float = 0.6, title: str = "") -> Figure:
    """Losses against the probability of the right answer, as in figure 1 of the focal loss paper.

    Args:
      curves: label to a function from ``p_t (n,)``, in (0, 1), to the loss ``(n,)``.
      well_classified: shaded from here to 1.
      title: over the whole figure.

    Returns:
      A figure of one axes.
    """
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots()
    _draw_curves(axes, curves, np.linspace(0, 1, 501)[1:-1])
    axes.axvspan(well_classified, 1, color="0.94", zorder=0)
    axes.text((1 + well_classified) / 2, 1.5, "well-classified\nexamples", ha="center", va="center", color="0.35")
    axes.set_ylim(0, 5)
    axes.set_ylabel("loss")
    axes.legend(loc="upper right", framealpha=1)
    return figure


def weighting_figure(gradients: Mapping[str, Curve], *, title: str = "") -> Figure:
    """How much an example weighs in training: the size of its gradient against the probability of the right answer.

    Args:
      gradients: label to a function from ``p_t (n,)``, in (0, 1), to the absolute gradient by the logit ``(n,)``.
      title: over the whole figure.

    Returns:
      A figure of two axes with the same curves, on a linear and on a logarithmic scale.
    """
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    figure.suptitle(title)
    linear, logarithmic = figure.subplots(1, 2)
    for axes in (linear, logarithmic):
        _draw_curves(axes, gradients, np.linspace(0, 1, 501)[1:-1])
    linear.set_ylim(bottom=0)
    linear.set_ylabel("absolute gradient by the logit")
    logarithmic.set_yscale("log")
    logarithmic.set_ylim(bottom=1e-6)
    logarithmic.set_ylabel("the same, logarithmic")
    figure.legend(*linear.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def class_weights_figure(counts: ArrayLike, weights: Mapping[str, ArrayLike], *, title: str = "") -> Figure:
    """Class weights against the number of training examples of the class.

    Args:
      counts: ``(classes,)``, training examples of each class, > 0.
      weights: label to class weights ``(classes,)``, > 0.
      title: over the whole figure.

    Returns:
      A figure of one axes, logarithmic in both directions.
    """
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots()
    for (color, dashes), (label, values) in zip(_styles(), weights.items(), strict=False):
        axes.plot(counts, values, color=color, linestyle=dashes, marker=".", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("training examples of the class")
    axes.set_ylabel("weight of the class")
    axes.grid(alpha=0.3)
    axes.legend(framealpha=1)
    return figure


def moving_mean(values: ArrayLike, window: int) -> np.ndarray:
    """The mean over ``window`` values around each place, of those there are near the ends."""
    values = np.asarray(values, np.float64)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.arange(len(values)) - (window - 1) // 2
    start, end = np.maximum(first, 0), np.minimum(first + window, len(values))
    return (sums[end] - sums[start]) / (end - start)


def _draw_curves(axes: Axes, curves: Mapping[str, Curve], p_t: np.ndarray) -> None:
    for (color, dashes), (label, curve) in zip(_styles(), curves.items(), strict=False):
        axes.plot(p_t, np.asarray(curve(p_t)), color=color, linestyle=dashes, label=label)
    axes.set_xlim(0, 1)
    axes.set_xlabel("probability $p_t$ of the right answer")
    axes.grid(alpha=0.3)


def _styles() -> Iterator[tuple[str, Any]]:
    """Colour and dashes of one line after the other: the dashes are for prints in grey."""
    return zip(cycle(COLORS), cycle(DASHES), strict=False)


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """One image of all of them, a pixel of white around each."""
    return np.concatenate(list(np.pad(images, ((0, 0), (1, 1), (1, 1)))), axis=1)


def _draw_losses(axes: Axes, losses: Mapping[str, ArrayLike], scale: str = "log") -> None:
    for color, (label, values) in zip(cycle(COLORS), losses.items(), strict=False):
        values = np.asarray(values)
        steps = np.arange(1, len(values) + 1)
        axes.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
        axes.plot(steps, moving_mean(values, max(1, len(values) // 50)), color=color, label=label)
    axes.set_yscale(scale)
    axes.set_xlabel("training step")
    axes.set_ylabel("training loss, each step and moving mean")
    axes.grid(alpha=0.3)
    _legend_above(axes)


def _draw_class_recall(axes: Axes, recalls: Mapping[str, ArrayLike], counts: ArrayLike, tail: Sequence[int]) -> None:
    for index, c in enumerate(tail):
        axes.axvspan(c - 0.5, c + 0.5, color="0.92", zorder=0, label="tail classes" if index == 0 else None)
    _draw_bars(axes, {f"{label} (mean {np.asarray(values).mean():.2f})": values for label, values in recalls.items()})
    ticks = [f"{c}\n{count}" for c, count in enumerate(np.asarray(counts))]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("class, and its number of training images")
    axes.set_ylabel("recall on the test split")
    _legend_above(axes)


def _draw_bars(axes: Axes, groups: Mapping[str, ArrayLike]) -> None:
    """Bars of several series side by side, on a scale from 0 to 1."""
    width = 0.8 / len(groups)
    for index, (color, (label, values)) in enumerate(zip(cycle(COLORS), groups.items(), strict=False)):
        heights = np.asarray(values, np.float64)
        centers = np.arange(len(heights)) + (index - (len(groups) - 1) / 2) * width
        axes.bar(centers, heights, width, color=color, label=label)
        axes.set_xlim(-0.5, len(heights) - 0.5)
    axes.set_ylim(0, 1.02)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _legend_above(axes: Axes) -> None:
    """A legend in one row that hides no data."""
    labels = axes.get_legend_handles_labels()[1]
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(labels), frameon=False)
