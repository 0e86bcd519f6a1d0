"""One picture for each suite and metric, made from rows alone: a panel a case, a line a provider."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ._curves import OURS, curves, growth_figure
from ._rows import Measurement, Quartiles, Row, is_ours
from ._text import bytes_text, count_text, error_text, seconds_text

PEER, YARDSTICK = "#b8bcc4", "#c0392b"
PANELS_ACROSS = 2
DOTS_AN_INCH = 110


@dataclass(frozen=True)
class Metric:
    """What a picture shows.

    Attributes:
      name: goes into the file's name.
      title: stands above.
      value: None where a measurement has no such number.
      text: says a value in words.
      log: dots on a logarithmic axis, instead of bars from zero.
      yardstick: where to draw a line across all providers of a case.
    """

    name: str
    title: str
    value: Callable[[Measurement], Quartiles | float | None]
    text: Callable[[float], str]
    log: bool = False
    yardstick: Callable[[Measurement], float | None] = lambda m: None


METRICS = (
    Metric(
        "time",
        "Time of a call (less is better; dashed: a copy of as many bytes)",
        lambda m: m.seconds if m.steps is None else None,
        seconds_text,
        yardstick=lambda m: None if m.traffic is None else m.traffic.bytes_moved / m.traffic.copy_bytes_per_second,
    ),
    Metric("speed", "Training steps a second (more is better)", lambda m: m.steps_per_second, count_text),
    Metric(
        "memory",
        "Growth of peak memory over one call, outputs included (less is better)",
        lambda m: m.peak_growth_bytes,
        bytes_text,
    ),
    Metric(
        "error",
        "Largest relative error of one element of the gradient, against float64 (less is better)",
        lambda m: m.errors["gradient"].elementwise if "gradient" in m.errors else None,
        error_text,
        log=True,
    ),
    Metric(
        "scratch",
        "Scratch of one step, or what autograd holds between two backwards (less is better)",
        lambda m: m.temp_bytes if m.steps == 1 else None,
        bytes_text,
    ),
)


def draw_all(rows: Sequence[Row], folder: Path) -> list[str]:
    """Draw every picture that the rows have numbers for; the names of the files."""
    names = []
    for suite in dict.fromkeys(row.suite for row in rows):
        for metric in METRICS:
            of_suite = [row for row in rows if row.suite == suite and row.growth is None]
            values = [(row, value) for row in of_suite if (value := _value(row, metric)) is not None]
            if values:
                names.append(file_name(suite, metric))
                _figure(values, metric).savefig(folder / names[-1], dpi=DOTS_AN_INCH)
        if of_curves := curves([row for row in rows if row.suite == suite]):
            names.append(growth_file_name(suite))
            growth_figure(of_curves).savefig(folder / names[-1], dpi=DOTS_AN_INCH)
    return names


def file_name(suite: str, metric: Metric) -> str:
    """The name of the picture."""
    return f"{suite}_{metric.name}.png"


def growth_file_name(suite: str) -> str:
    """The name of the picture of a suite's curves."""
    return f"{suite}_growth.png"


def _value(row: Row, metric: Metric) -> Quartiles | None:
    """A zero has no place on a logarithmic axis."""
    value = None if row.measurement is None else metric.value(row.measurement)
    if value is None or (metric.log and value == 0):
        return None
    return value if isinstance(value, Quartiles) else Quartiles(value, value, value)


def _figure(values: Sequence[tuple[Row, Quartiles]], metric: Metric) -> Figure:
    cases = list(dict.fromkeys(row.case for row, _ in values))
    across = min(PANELS_ACROSS, len(cases))
    down = math.ceil(len(cases) / across)
    lines = max(sum(row.case == case for row, _ in values) for case in cases)
    figure = Figure(figsize=(7.0 * across, 0.8 + down * (0.9 + 0.34 * lines)), layout="constrained")
    figure.suptitle(metric.title, fontsize=12, fontweight="bold")
    panels = figure.subplots(down, across, squeeze=False).flat
    for case in cases:
        panel = next(panels)
        _panel(panel, case, [(row, value) for row, value in values if row.case == case], metric)
        panel.set_ylim(lines - 0.5, -0.5)
    for unused in panels:
        unused.set_axis_off()
    run = values[0][0].environment
    figure.supxlabel(f"{run.device}, {run.threads} CPU threads, {run.date}", fontsize=8, color="0.4")
    return figure


def _panel(axes: Axes, case: str, values: Sequence[tuple[Row, Quartiles]], metric: Metric) -> None:
    highest = max(value.high for _, value in values)
    if metric.log:
        axes.set_xscale("log")
        axes.set_xlim(min(value.low for _, value in values) / 3, highest * 10)
        axes.grid(axis="x", color="0.9")
    else:
        axes.set_xlim(0, 1.2 * highest or 1)
    for line, (row, value) in enumerate(values):
        color = OURS if is_ours(row) else PEER
        if metric.log:
            axes.plot(value.median, line, "o", color=color)
        else:
            axes.barh(line, value.median, color=color, height=0.7)
        if value.high > value.low:
            whiskers = [[value.median - value.low], [value.high - value.median]]
            axes.errorbar(value.median, line, xerr=whiskers, fmt="none", ecolor="0.25", capsize=2, linewidth=1)
        axes.annotate(
            metric.text(value.median), (value.high, line), (7, 0), textcoords="offset points", va="center", fontsize=9
        )
    example = values[0][0].measurement
    yardstick = None if example is None else metric.yardstick(example)
    if yardstick is not None:
        axes.axvline(yardstick, color=YARDSTICK, linestyle="--", linewidth=1)
    axes.set_title(case, fontsize=10, loc="left")
    axes.set_yticks(range(len(values)), [row.provider for row, _ in values], fontsize=9)
    axes.xaxis.set_major_formatter(lambda value, _: metric.text(value) if value else "0")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
