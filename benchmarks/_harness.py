"""Providers to rows: start each, ask for its memory, then time all of them interleaved."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._case import Case, Outputs, Program, Provider
from ._rows import Environment, Error, Measurement, Quartiles, Row, Status, Traffic
from ._timing import Clock, Effort, interleaved_seconds, median_ratio

NO_TIME_LEFT = "the time for a whole run was over"


@dataclass(frozen=True)
class _Started:
    program: Program
    first_seconds: float
    errors: dict[str, Error]
    temp_bytes: int | None
    peak_growth_bytes: int | None


@dataclass(frozen=True)
class _Absent:
    status: Status
    reason: str


def measure(
    case: Case,
    effort: Effort,
    environment: Environment,
    *,
    clock: Clock = time.perf_counter,
    deadline: float = math.inf,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> list[Row]:
    """One row a provider, in the case's order; one that cannot be measured has a row that says why.

    No provider is started after ``deadline``.
    """
    on_stage("float64")
    reference = case.reference() if clock() < deadline else {}
    entries: dict[str, _Started | _Absent] = {}
    for provider in case.providers:
        on_stage(provider.name)
        in_time = clock() < deadline
        entries[provider.name] = _start(provider, reference, clock) if in_time else _Absent("skipped", NO_TIME_LEFT)
    started = {name: entry for name, entry in entries.items() if isinstance(entry, _Started)}
    copies = _start_copies(case.copies) if started else {}

    on_stage("timing")
    programs = {name: entry.program for name, entry in started.items()} | copies
    seconds = interleaved_seconds(
        {name: program.repeat for name, program in programs.items()}, case.effort or effort, clock
    )
    copied = {name: seconds[name] for name in copies}

    def row(name: str, entry: _Started | _Absent) -> Row:
        if isinstance(entry, _Absent):
            return Row(case.suite, case.name, name, entry.status, environment, entry.reason, growth=case.growth)
        measurement = Measurement(
            seconds=Quartiles.of(seconds[name]),
            rounds=len(seconds[name]),
            steps=case.steps,
            time_over={other: median_ratio(seconds[name], seconds[other]) for other in started if other != name},
            compile_seconds=_compile_seconds(entry, seconds[name]),
            temp_bytes=entry.temp_bytes,
            peak_growth_bytes=entry.peak_growth_bytes,
            errors=entry.errors,
            traffic=_traffic(case.bytes_moved, seconds[name], copied),
        )
        return Row(case.suite, case.name, name, "measured", environment, None, measurement, case.growth)

    return [row(name, entry) for name, entry in entries.items()]


def _start(provider: Provider, reference: Outputs, clock: Clock) -> _Started | _Absent:
    """Build, call once, compare with float64, and measure the memory of later calls."""
    if provider.skip is not None:
        return _Absent("skipped", provider.skip)
    try:
        program = provider.build()
        start = clock()
        returned = program.call()
        first_seconds = clock() - start
        outputs = program.outputs(returned)
        errors = {name: _error(outputs[name], right) for name, right in reference.items()}
        del returned, outputs
        return _Started(program, first_seconds, errors, program.temp_bytes(), program.peak_growth(program.call))
    except ImportError as error:
        return _Absent("missing", _first_line(error))
    except Exception as error:  # a peer may fail in any way (no compiler, out of memory), and the others go on
        return _Absent("failed", f"{type(error).__name__}: {_first_line(error)}")


def _start_copies(copies: tuple[Provider, ...]) -> dict[str, Program]:
    programs = {}
    for provider in copies:
        try:
            programs[provider.name] = provider.build()
        except ImportError:
            continue  # the framework is listed as missing already, and another one copies
    return programs


def _compile_seconds(entry: _Started, seconds: np.ndarray) -> float | None:
    return max(entry.first_seconds - float(np.median(seconds)), 0.0) if entry.program.compiles else None


def _traffic(bytes_moved: int | None, seconds: np.ndarray, copied: dict[str, np.ndarray]) -> Traffic | None:
    if bytes_moved is None or not copied:
        return None
    fastest = min(copied, key=lambda name: float(np.median(copied[name])))
    return Traffic(
        bytes_moved=bytes_moved,
        bytes_per_second=bytes_moved / float(np.median(seconds)),
        copy_bytes_per_second=bytes_moved / float(np.median(copied[fastest])),
        copy_by=fastest,
        copy_fraction=median_ratio(copied[fastest], seconds),
    )


def _error(output: np.ndarray, right: np.ndarray) -> Error:
    difference = np.asarray(output, np.float64) - right
    normal = np.abs(right) >= np.finfo(np.float32).tiny
    if not np.any(normal):
        return Error(None, None)
    return Error(
        overall=_finite(float(np.linalg.norm(difference) / np.linalg.norm(right))),
        elementwise=_finite(float(np.max(np.abs(difference[normal] / right[normal])))),
    )


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"
