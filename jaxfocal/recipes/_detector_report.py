"""What the detector recipe leaves behind: files, and a table on stdout."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxfocal import plots
from jaxfocal.detection import Detections

from ._run_folder import write_json, write_metrics
from ._scenes import Scenes

SCORES = {
    "AP": "AP, IoU 0.5 to 0.95",
    "AP50": "AP, IoU 0.5",
    "AP75": "AP, IoU 0.75",
    "AR": "recall, IoU 0.5 to 0.95",
}
NUM_SHOWN = 6
SHOWN_SCORE = 0.3


class Run(NamedTuple):
    """A finished run.

    Attributes:
      metrics: losses ``(steps,)`` by name.
      precision: ``(101,)`` at the recalls 0 to 1, by IoU.
      scenes: of the test.
      found: what the model finds in them.
      summary: what ``summary.json`` says.
    """

    metrics: dict[str, np.ndarray]
    precision: dict[float, np.ndarray]
    scenes: Scenes
    found: Detections
    summary: dict[str, Any]


def save_run(run: Run, folder: Path) -> None:
    """``metrics.jsonl`` (a line a step), ``detector.png``, ``detections.png`` and ``summary.json``."""
    folder.mkdir(exist_ok=True)
    write_metrics(folder / "metrics.jsonl", run.metrics)
    title = f"{run.summary['config']['loss']} loss, {_setting(run.summary)}"
    curves = {f"IoU {iou:g}": precision for iou, precision in run.precision.items()}
    plots.precision_figure(curves, losses=run.metrics, title=title).savefig(folder / "detector.png", dpi=150)
    boxes, scores, _, valid = map(np.asarray, run.found)
    shown = valid & (scores > SHOWN_SCORE)
    some = range(min(NUM_SHOWN, len(boxes)))
    figure = plots.detections_figure(
        run.scenes.images[:NUM_SHOWN],
        run.scenes.boxes[:NUM_SHOWN],
        [boxes[i][shown[i]] for i in some],
        [scores[i][shown[i]] for i in some],
        title=f"Digits (dashed) and what scores above {SHOWN_SCORE}: {title}",
    )
    figure.savefig(folder / "detections.png", dpi=150)
    write_json(folder / "summary.json", run.summary)


def save_comparison(runs: list[Run], folder: Path) -> None:
    """A folder for each loss, ``comparison.png``, and ``comparison.json`` with the summaries by loss."""
    by_loss = {run.summary["config"]["loss"]: run for run in runs}
    for loss, run in by_loss.items():
        save_run(run, folder / loss)
    curves = {loss: run.precision[0.75] for loss, run in by_loss.items()}
    title = f"IoU 0.75, {_setting(runs[0].summary)}"
    plots.precision_figure(curves, title=title).savefig(folder / "comparison.png", dpi=150)
    write_json(folder / "comparison.json", {loss: run.summary for loss, run in by_loss.items()})


def print_results(runs: list[Run], out: Path) -> None:
    """One table with a column a run, and where the files are."""
    summaries = [run.summary for run in runs]
    first = summaries[0]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(f"{first['scenes']['test']} test scenes, {first['digits']['test']} digits", no_wrap=True)
    for summary in summaries:
        table.add_column(summary["config"]["loss"], justify="right", no_wrap=True)
    for score, label in SCORES.items():
        table.add_row(label, *(f"{summary[score]:.3f}" for summary in summaries))
    table.add_row("seconds", *(f"{summary['duration_seconds']:.1f}" for summary in summaries))

    console = Console()
    console.print(f"detector, {_setting(first)}", soft_wrap=True, highlight=False)
    console.print(table)
    console.print(
        f"One seed. Of {first['anchors']:,} anchors a scene {first['positive_anchors']:.1f} match a digit.",
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"wrote {out}", soft_wrap=True, highlight=False, markup=False)


def _setting(summary: dict[str, Any]) -> str:
    config = summary["config"]
    return f"{config['steps']} steps of {config['batch_size']} scenes, seed {config['seed']}"
