"""Figures of losses and class weights themselves."""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ._drawing import styles

Curve = Callable[[np.ndarray], ArrayLike]


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
    for (color, dashes), (label, values) in zip(styles(), weights.items(), strict=False):
        axes.plot(counts, values, color=color, linestyle=dashes, marker=".", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("training examples of the class")
    axes.set_ylabel("weight of the class")
    axes.grid(alpha=0.3)
    axes.legend(framealpha=1)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Curve], p_t: np.ndarray) -> None:
    for (color, dashes), (label, curve) in zip(styles(), curves.items(), strict=False):
        axes.plot(p_t, np.asarray(curve(p_t)), color=color, linestyle=dashes, label=label)
    axes.set_xlim(0, 1)
    axes.set_xlabel("probability $p_t$ of the right answer")
    axes.grid(alpha=0.3)
