"""The command line: choose the cases, measure them, publish the results, say what was and was not measured."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import detection, linear, losses, memory, programs, scaling, segmentation, softmax, updates
from ._case import Setup
from ._device import Device, choose_device, describe_environment, set_same_conditions
from ._errors import UsageError
from ._harness import measure
from ._report import absences, overview
from ._results import REPORT, check_writable, publish
from ._rows import Row
from ._timing import FULL, ON_GPU, QUICK, Clock

SUITES = {
    module.SUITE: module.setups
    for module in (losses, softmax, linear, updates, memory, segmentation, scaling, programs, detection)
}
GPU_SECONDS = 270.0  # after which nothing is started any more: with what is under way, a run stays under six minutes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit status is 2 where the command asks for what cannot be had, 1 where jaxfocal itself failed."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped: nothing was written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure jaxfocal beside its peers: time, memory, error; into rows.json, report.md and pictures.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "latest",
        help="folder for the results; what an earlier run left there is replaced (%(default)s)",
    )
    parser.add_argument("--suite", choices=SUITES, nargs="+", default=list(SUITES), help="what to measure (all)")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help="where both frameworks run")
    parser.add_argument(
        "--quick", action="store_true", help="few and small cases: a look that takes five minutes, no result to quote"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    device = choose_device(options.device)
    check_writable(options.out)
    set_same_conditions()
    setups = [setup for suite in options.suite for setup in SUITES[suite](options.quick)]
    rows = measure_all(setups, device, options.quick, begin=begin)
    publish(rows, options.out, list(SUITES))
    _summarize(rows, options.out)
    return int(any(row.provider.startswith("jaxfocal") and row.status == "failed" for row in rows))


def measure_all(
    setups: Sequence[Setup], device: Device, quick: bool, *, begin: float, clock: Clock = time.perf_counter
) -> list[Row]:
    """The rows of all cases; on a GPU, what does not start in time has rows that say so. Progress goes to stderr."""
    environment = describe_environment(device)
    on_gpu = device.jax.platform == "gpu"
    effort = QUICK if quick else ON_GPU if on_gpu else FULL
    deadline = begin + GPU_SECONDS if on_gpu else math.inf
    rows: list[Row] = []
    for number, setup in enumerate(setups, 1):
        case = setup.case(device)
        where = f"{number}/{len(setups)} {case.suite}: {case.name}"

        def show(stage: str, where: str = where) -> None:
            print(f"[{clock() - begin:4.0f} s] {where}: {stage}", file=sys.stderr)

        rows += measure(case, effort, environment, clock=clock, deadline=deadline, on_stage=show)
    return rows


def _summarize(rows: Sequence[Row], out: Path) -> None:
    print(overview(rows))
    for provider, status, reason, cases in absences(rows):
        print(f"{provider}: {status} in {cases} case(s): {reason}")
    print(f"The whole report: {out / REPORT}")
