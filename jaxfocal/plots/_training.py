"""Figures of training runs: losses over the steps, scores, samples."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ._drawing import COLORS, DASHES, draw_losses, legend_above


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
    draw_losses(left, losses)
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
    draw_losses(left, losses, scale="linear")
    for color, (label, by_step) in zip(cycle(COLORS), distances.items(), strict=False):
        right.plot(list(by_step), list(by_step.values()), color=color, marker=".", label=label)
    for dashes, (label, distance) in zip(DASHES[1:], references.items(), strict=False):
        right.axhline(distance, color="0.45", linestyle=dashes, label=label)
    right.set_yscale("log")
    right.set_xlabel("training step")
    right.set_ylabel(distances_label)
    right.grid(alpha=0.3)
    legend_above(right)
    return figure


def _side_by_side(images: np.ndarray) -> np.ndarray:
    """One image of all of them, a pixel of white around each."""
    return np.concatenate(list(np.pad(images, ((0, 0), (1, 1), (1, 1)))), axis=1)


def _draw_class_recall(axes: Axes, recalls: Mapping[str, ArrayLike], counts: ArrayLike, tail: Sequence[int]) -> None:
    for index, c in enumerate(tail):
        axes.axvspan(c - 0.5, c + 0.5, color="0.92", zorder=0, label="tail classes" if index == 0 else None)
    _draw_bars(axes, {f"{label} (mean {np.asarray(values).mean():.2f})": values for label, values in recalls.items()})
    ticks = [f"{c}\n{count}" for c, count in enumerate(np.asarray(counts))]
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_xlabel("class, and its number of training images")
    axes.set_ylabel("recall on the test split")
    legend_above(axes)


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
