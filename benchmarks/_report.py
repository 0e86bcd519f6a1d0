"""The Markdown report, made from rows alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from ._curves import Curve, curves
from ._rows import Environment, Measurement, Row, is_ours, measured
from ._text import bytes_text, count_text, error_text, seconds_text

Column = tuple[str, Callable[[Measurement], str]]

HOW_TO_READ = """\
- time: of one call until its outputs are ready, median [lower, upper quartile] over the rounds. All providers of a case
  take a turn in each round. A call is value and gradient together, but for second derivatives; under `detection` it
  begins with normalised, padded images, and inference ends with the boxes that suppression leaves. On a GPU calls are
  started one after the other, as in training, and the last is waited for.
- ratio: the provider's time over jaxfocal's, in the same round; the median over the rounds. 2 means that the provider
  takes twice as long, 0.5 that it takes half as long.
- of copy speed: the bytes that nobody can avoid moving (inputs read, outputs written) in a second, over those that a
  copy moves in a second in the same run. Training steps have none: they are not bound by memory.
- compile: the first call less a later one.
- scratch: memory that the compiled program takes beside inputs and outputs, as XLA states it; under `memory` PyTorch's
  is what autograd holds between the two backwards.
- peak growth: by how much one call raised the peak memory, outputs included.
- error: against a float64 computation, Euclidean norm of the error over that of the right values. Worst element: the
  largest relative error of one element of the gradient. Training steps amplify rounding, so that the change of the
  parameters may differ by more."""


def markdown(rows: Sequence[Row], plots: Sequence[str] = ()) -> str:
    """A table a case, the plots (file names) of each suite, and who could not be measured."""
    parts = ["# Benchmarks: jaxfocal beside its peers"]
    parts += _environments(_distinct([row.environment for row in rows]))
    parts.append(HOW_TO_READ)
    if any(row.growth is None for row, _ in measured(rows)):
        parts += ["## Overview", overview(rows)]
    for suite in _distinct([row.suite for row in rows]):
        parts.append(f"## {suite}")
        parts += [f"![{name}]({name})" for name in plots if name.startswith(f"{suite}_")]
        of_suite = [row for row in rows if row.suite == suite]
        parts += [_growth_table(curve) for curve in curves(of_suite).values()]
        for case in _distinct([row.case for row in of_suite]):
            parts.append(f"### {case}")
            parts.append(_case_table([row for row in of_suite if row.case == case]))
    absent = [row for row in rows if row.status != "measured"]
    if absent:
        parts += ["## Not measured", _absent_table(absent)]
    return "\n\n".join(parts) + "\n"


def overview(rows: Sequence[Row]) -> str:
    """A line for each case, and each way in which jaxfocal does it; the points of curves have tables of their own."""
    header = ["case", "jaxfocal", "times as long", "jaxfocal: peak growth", "times as much"]
    body = []
    for row, m in measured(rows):
        if row.growth is not None or not is_ours(row):
            continue
        peers = [(r.provider, of_peer) for r, of_peer in measured(rows) if r.case == row.case and not is_ours(r)]
        times = [f"{name} {count_text(of_peer.time_relative_to(row.provider))}" for name, of_peer in peers]
        memory = [f"{name} {count_text(ratio)}" for name, of_peer in peers if (ratio := _memory_ratio(of_peer, m))]
        body.append([_way(row), _speed(m), _listed(times), _growth_of_peak(m), _listed(memory)])
    return _table(header, body, numbers="---")


def slower(rows: Sequence[Row]) -> list[str]:
    """``case: peer`` wherever a peer takes less time than jaxfocal, by more than a twentieth."""
    lines = measured(rows)
    return [
        f"{row.case}: {other.provider} {count_text(ratio)}"
        for row, _ in lines
        if is_ours(row)
        for other, m in lines
        if other.case == row.case and not is_ours(other) and (ratio := m.time_relative_to(row.provider)) < 0.95
    ]


def absences(rows: Sequence[Row]) -> list[tuple[str, str, str, int]]:
    """``(provider, status, reason, number of cases)`` of what was not measured."""

    def key(row: Row) -> tuple[str, str, str]:
        return row.provider, row.status, row.reason or ""

    absent = sorted((row for row in rows if row.status != "measured"), key=key)
    return [(*what, len(list(of_it))) for what, of_it in groupby(absent, key)]


def _case_table(rows: Sequence[Row]) -> str:
    lines = measured(rows)
    if not lines:
        return "No provider could be measured."
    first, example = lines[0]
    (speed, speed_text), *others = _columns(example)
    header = ["provider", speed, f"ratio to {first.provider}", *(title for title, _ in others)]
    body = []
    for row, m in lines:
        ratio = count_text(m.time_relative_to(first.provider))
        body.append([row.provider, speed_text(m), ratio, *(text(m) for _, text in others)])
    return _table(header, body) + _copy_line(example)


def _growth_table(curve: Curve) -> str:
    """A line a size, a column a provider, in brackets its time over that of the first."""
    providers = _distinct([row.provider for row, _, _ in curve])
    body = []
    for size in _distinct([growth.size for _, growth, _ in curve]):
        of_size = {row.provider: m for row, growth, m in curve if growth.size == size}
        cells = [_speed_beside(of_size[p], providers[0]) if p in of_size else "-" for p in providers]
        body.append([f"{size:,}", *cells])
    growth = curve[0][1]
    return _table([f"{growth.of}: {growth.against}", *providers], body) + "\n\nIn brackets: the ratio."


def _speed_beside(m: Measurement, provider: str) -> str:
    return _speed(m) + (f" ({count_text(m.time_over[provider])})" if provider in m.time_over else "")


def _speed(m: Measurement) -> str:
    speed = m.steps_per_second
    return seconds_text(m.seconds.median) if speed is None else f"{count_text(speed.median)} steps/s"


def _way(row: Row) -> str:
    """The case, and how jaxfocal does it where there is more than one way."""
    return row.case + row.provider.removeprefix("jaxfocal").replace(",", ":", 1)


def _listed(texts: Sequence[str]) -> str:
    return "; ".join(texts) or "-"


def _growth_of_peak(m: Measurement) -> str:
    return bytes_text(m.peak_growth_bytes) if m.steps is None else "-"


def _memory_ratio(peer: Measurement, ours: Measurement) -> float | None:
    """None for training steps, whose peak is that of the losses read, and where nothing was counted."""
    if ours.steps is not None or not ours.peak_growth_bytes or peer.peak_growth_bytes is None:
        return None
    return peer.peak_growth_bytes / ours.peak_growth_bytes


def _columns(example: Measurement) -> list[Column]:
    columns: list[Column] = [("time", _time) if example.steps is None else ("steps a second", _steps_a_second)]
    if example.traffic is not None:
        columns.append(("of copy speed", _of_copy_speed))
    columns += [
        ("compile", lambda m: "-" if m.compile_seconds is None else seconds_text(m.compile_seconds)),
        ("scratch", lambda m: bytes_text(m.temp_bytes)),
        ("peak growth", lambda m: bytes_text(m.peak_growth_bytes)),
    ]
    columns += [(f"{name} error", partial(_error, name)) for name in example.errors]
    if "gradient" in example.errors:
        columns.append(("worst element", lambda m: error_text(m.errors["gradient"].elementwise)))
    return columns


def _time(m: Measurement) -> str:
    low, median, high = (seconds_text(q) for q in (m.seconds.low, m.seconds.median, m.seconds.high))
    return f"{median} [{low}, {high}]"


def _steps_a_second(m: Measurement) -> str:
    speed = m.steps_per_second
    return "-" if speed is None else f"{count_text(speed.median)} [{count_text(speed.low)}, {count_text(speed.high)}]"


def _of_copy_speed(m: Measurement) -> str:
    return "-" if m.traffic is None else f"{100 * m.traffic.copy_fraction:.2g}%"


def _error(name: str, m: Measurement) -> str:
    return error_text(m.errors[name].overall)


def _copy_line(m: Measurement) -> str:
    if m.traffic is None:
        return ""
    moved, speed = bytes_text(m.traffic.bytes_moved), bytes_text(m.traffic.copy_bytes_per_second)
    return f"\n\n{moved} to move. The fastest copy of as many bytes ({m.traffic.copy_by}) ran at {speed} a second."


def _environments(runs: Sequence[Environment]) -> list[str]:
    """A paragraph for each environment; runs that differ in their beginning alone share one."""
    places = _distinct([replace(run, date="", load=None) for run in runs])
    return [_environment([run for run in runs if replace(run, date="", load=None) == place]) for place in places]


def _environment(runs: Sequence[Environment]) -> str:
    run = runs[0]
    loads = [f"{run.load:.1f}" for run in runs if run.load is not None]
    lines = [
        f"Measured on {', '.join(run.date for run in runs)}.",
        f"Device: {run.device}; {run.threads} CPU threads in each framework, OpenMP waiting {run.openmp_waiting}.",
        f"Matmul precision: {run.matmul_precision}.",
        f"Versions: {', '.join(f'{name} {version}' for name, version in run.versions.items())}.",
    ]
    if loads:
        lines.append(f"Load of the whole machine when the run began: {', '.join(loads)}.")
    return "\n".join(lines)


def _absent_table(rows: Sequence[Row]) -> str:
    body = [[provider, status, reason, str(cases)] for provider, status, reason, cases in absences(rows)]
    return _table(["provider", "status", "reason", "cases"], body, numbers="---")


def _table(header: Sequence[str], body: Sequence[Sequence[str]], numbers: str = "---:") -> str:
    """Names in the first column on the left; ``numbers`` aligns the others, on the right."""
    rule = ["---", *(numbers for _ in header[1:])]
    lines = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in (header, rule, *body)]
    return "\n".join(f"| {line} |" for line in lines)


def _distinct(items: Sequence) -> list:
    """Without repeats, in order."""
    return [item for i, item in enumerate(items) if item not in items[:i]]
