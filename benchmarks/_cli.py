"""The command line: choose the cases, measure them, publish the results, say what was and was not measured."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from . import detection, linear, losses, programs, segmentation, updates
from ._case import Setup
from ._device import Device, DeviceKind, choose_device, describe_environment, set_same_conditions
from ._errors import UsageError
from ._harness import measure
from ._report import absences
from ._results import REPORT, check_writable, publish
from ._rows import Row, measured
from ._text import count_text, seconds_text
from ._timing import FULL, QUICK

SUITES = {module.SUITE: module.setups for module in (losses, linear, segmentation, updates, programs, detection)}


@dataclass(frozen=True)
class Options:
    """Measure jaxfocal beside its peers: time, memory and error, into rows.json, report.md and pictures."""

    out: Path = Path(__file__).parent / "results" / "latest"
    """The folder for the results; what an earlier run left there is replaced."""
    suite: Literal["losses", "linear", "segmentation", "updates", "programs", "detection", "all"] = "all"
    """Which computations to measure."""
    device: DeviceKind = "cpu"
    """Where both frameworks run."""
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Few and small cases: a look that takes two minutes at most, no result to quote."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 2 where the command asks for what cannot be had, 1 where jaxfocal itself failed."""
    options = tyro.cli(Options, prog="python -m benchmarks", args=arguments)
    try:
        return _run(options)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: nothing was written", file=sys.stderr)
        return 130


def _run(options: Options) -> int:
    device = choose_device(options.device)
    check_writable(options.out)
    set_same_conditions()
    suites = list(SUITES) if options.suite == "all" else [options.suite]
    rows = _measure_all([setup for suite in suites for setup in SUITES[suite](options.quick)], device, options.quick)
    publish(rows, options.out, list(SUITES))
    _summarize(rows, options.out)
    return int(any(row.provider.startswith("jaxfocal") and row.status == "failed" for row in rows))


def _measure_all(setups: Sequence[Setup], device: Device, quick: bool) -> list[Row]:
    environment = describe_environment(device)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    rows: list[Row] = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(setups))
        for setup in setups:
            case = setup.case(device)

            def show(stage: str, name: str = case.name) -> None:
                progress.update(task, description=f"{name}: {stage}")

            rows += measure(case, QUICK if quick else FULL, environment, on_stage=show)
            progress.advance(task)
        progress.update(task, description="done")
    return rows


def _summarize(rows: Sequence[Row], out: Path) -> None:
    console = Console()
    for case in dict.fromkeys(row.case for row in rows):
        console.print(f"\n{case}", soft_wrap=True, markup=False)
        table = Table("provider")
        table.add_column("time of a call", justify="right")
        table.add_column("ratio to the first", justify="right")
        lines = measured([row for row in rows if row.case == case])
        for row, m in lines:
            ratio = m.time_relative_to(lines[0][0].provider)
            table.add_row(row.provider, seconds_text(m.seconds.median), count_text(ratio))
        console.print(table)
    for provider, status, reason, cases in absences(rows):
        console.print(
            f"{provider}: {status} in {cases} case(s): {reason}", style="yellow", soft_wrap=True, markup=False
        )
    console.print(f"The whole report: {out / REPORT}", soft_wrap=True, markup=False)
