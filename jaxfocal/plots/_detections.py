"""Figures of detectors: how precise they are, and what they find."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from ._drawing import COLORS, draw_losses, legend_above, styles

FOUND, TRUE = COLORS[1], COLORS[5]


def precision_figure(
    precisions: Mapping[str, ArrayLike], *, losses: Mapping[str, ArrayLike] | None = None, title: str = ""
) -> Figure:
    """Precision against recall, beside the losses over the training steps if there are any.

    Args:
      precisions: label to precision ``(n,)`` at n recalls evenly from 0 to 1; its mean stands in the legend.
      losses: label to losses ``(steps,)``, each drawn faintly with its moving mean on top.
      title: over the whole figure.

    Returns:
      A figure of one axes, or of two.
    """
    figure = Figure(figsize=(11 if losses else 6, 4.2), layout="constrained")
    figure.suptitle(title)
    *others, right = figure.subplots(1, 2 if losses else 1, squeeze=False).flat
    for axes in others:
        draw_losses(axes, losses or {})
    for (color, dashes), (label, values) in zip(styles(), precisions.items(), strict=False):
        values = np.asarray(values)
        recalls = np.linspace(0, 1, len(values))
        right.plot(recalls, values, color=color, linestyle=dashes, label=f"{label} ({values.mean():.2f})")
    right.set_xlim(0, 1)
    right.set_ylim(0, 1.02)
    right.set_xlabel("recall")
    right.set_ylabel("precision")
    right.grid(alpha=0.3)
    legend_above(right)
    return figure


def detections_figure(
    images: ArrayLike,
    boxes: Sequence[ArrayLike],
    found: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    *,
    title: str = "",
) -> Figure:
    """Grey images with their true boxes, dashed, and those that were found, with their scores.

    Args:
      images: ``(n, height, width)``, in [0, 1].
      boxes: for each image the true ones ``(k, 4)``, corners ``(x1, y1, x2, y2)``.
      found: for each image those found ``(m, 4)``.
      scores: for each image those of the found ones ``(m,)``.
      title: over the whole figure.

    Returns:
      A figure of an axes an image, three in a row.

    Raises:
      ValueError: unless there are boxes, found boxes and scores for each image.
    """
    if {len(boxes), len(found), len(scores)} != {len(np.asarray(images))}:
        raise ValueError(
            f"boxes, found and scores must be of {len(np.asarray(images))} images, "
            f"got {len(boxes)}, {len(found)} and {len(scores)}"
        )
    rows = -(-len(np.asarray(images)) // 3)
    figure = Figure(figsize=(10.5, 0.5 + 3.5 * rows), layout="constrained")
    figure.suptitle(title)
    all_axes = figure.subplots(rows, 3, squeeze=False).flat
    for axes in all_axes:
        axes.set_axis_off()
    for axes, image, true, seen, score in zip(figure.axes, np.asarray(images), boxes, found, scores, strict=False):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        for x1, y1, x2, y2 in np.asarray(true) - 0.5:  # the centre of the first pixel is at 0
            outline = Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color=TRUE, linestyle="dashed", linewidth=2)
            axes.add_patch(outline)
        for (x1, y1, x2, y2), value in zip(np.asarray(seen) - 0.5, np.asarray(score), strict=True):
            axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color=FOUND, linewidth=1.5))
            axes.text(x1, y1 - 2, f"{value:.2f}", color=FOUND, fontsize="small", fontweight="bold")
    return figure
