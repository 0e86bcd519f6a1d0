"""Curves of time against size, on logarithmic axes, made from rows alone: a panel a curve, a line a provider."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._rows import Growth, Measurement, Row, is_ours, measured
from ._text import count_text, seconds_text

OURS = "#1f5fbf"
PEERS = ("#c0392b", "#8a8f99", "#d68910")
LINES = ("-", "--")

Curve = Sequence[tuple[Row, Growth, Measurement]]


def curves(rows: Sequence[Row]) -> dict[str, Curve]:
    """The measured points of each curve, sorted by size."""
    points = [(row, row.growth, m) for row, m in measured(rows) if row.growth is not None]
    points.sort(key=lambda point: point[1].size)
    names = dict.fromkeys(row.growth.of for row in rows if row.growth is not None)
    return {of: curve for of in names if (curve := [point for point in points if point[1].of == of])}


def growth_figure(of_curves: Mapping[str, Curve]) -> Figure:
    """All curves side by side."""
    figure = Figure(figsize=(4.8 * len(of_curves), 3.9), layout="constrained")
    panels = figure.subplots(1, len(of_curves), squeeze=False).flat
    for panel, (of, curve) in zip(panels, of_curves.items(), strict=True):
        _panel(panel, of, curve)
    run = next(iter(of_curves.values()))[0][0].environment
    figure.supxlabel(f"{run.device}, {run.threads} CPU threads, {run.date}", fontsize=8, color="0.4")
    return figure


def _panel(axes: Axes, of: str, curve: Curve) -> None:
    _, growth, example = curve[0]
    of_steps = example.steps is not None
    ours, peers = 0, 0
    for provider in dict.fromkeys(row.provider for row, _, _ in curve):
        points = [(g.size, _height(m), row) for row, g, m in curve if row.provider == provider]
        sizes, heights, rows = zip(*points, strict=True)
        if is_ours(rows[0]):
            color, line = OURS, LINES[ours % len(LINES)]
            ours += 1
        else:
            color, line = PEERS[peers % len(PEERS)], "-"
            peers += 1
        axes.plot(sizes, heights, line, color=color, marker="o", markersize=4, label=provider)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"{of}, {'steps a second' if of_steps else 'time of a call'}", fontsize=10, loc="left")
    axes.set_xlabel(growth.against, fontsize=9)
    axes.set_xticks(sorted({g.size for _, g, _ in curve}))
    axes.xaxis.set_major_formatter(lambda size, _: _short(size))
    axes.xaxis.set_minor_formatter(lambda size, _: "")
    axes.yaxis.set_major_formatter(lambda height, _: count_text(height) if of_steps else seconds_text(height))
    axes.tick_params(labelsize=8)
    axes.grid(color="0.9")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _height(m: Measurement) -> float:
    """Seconds of a call, or steps a second."""
    speed = m.steps_per_second
    return m.seconds.median if speed is None else speed.median


def _short(size: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{size / unit:.3g}{name}"
    return f"{size:.3g}"
