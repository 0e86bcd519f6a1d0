"""What the two-model recipe leaves behind: files, and a table on stdout."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxfocal import plots

from ._run_folder import write_json, write_metrics


class Run(NamedTuple):
    """A finished run: metrics ``(steps,)`` by name, and what ``summary.json`` says."""

    metrics: dict[str, np.ndarray]
    summary: dict[str, Any]


def save_run(run: Run, folder: Path) -> None:
    """``metrics.jsonl`` (a line a step), ``two_model.png`` and ``summary.json``."""
    folder.mkdir(exist_ok=True)
    write_metrics(folder / "metrics.jsonl", run.metrics)
    summary = run.summary
    figure = plots.training_figure(
        {"l1: model1, the digit": run.metrics["l1"], "l2: model2, tail or not": run.metrics["l2"]},
        summary["recall"],
        summary["train_counts"],
        tail=summary["tail_classes"],
        title=f"{summary['config']['loss']} loss, {_setting(summary)}",
    )
    figure.savefig(folder / "two_model.png", dpi=150)
    write_json(folder / "summary.json", summary)


def save_comparison(runs: list[Run], folder: Path) -> None:
    """A folder for each loss, ``comparison.png``, and ``comparison.json`` with the summaries by loss."""
    summaries = {run.summary["config"]["loss"]: run.summary for run in runs}
    for run, loss in zip(runs, summaries, strict=True):
        save_run(run, folder / loss)
    first = runs[0].summary
    figure = plots.comparison_figure(
        {loss: summary["recall"] for loss, summary in summaries.items()},
        first["train_counts"],
        {loss: _on_lines(summary["tail_detector"]) for loss, summary in summaries.items()},
        tail=first["tail_classes"],
        title=f"Three losses, {_setting(first)}",
        scores_label="tail detector, scores on the test split",
    )
    figure.savefig(folder / "comparison.png", dpi=150)
    write_json(folder / "comparison.json", summaries)


def print_results(runs: list[Run], out: Path) -> None:
    """One table with a column a run, and where the files are."""
    summaries = [run.summary for run in runs]
    first = summaries[0]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("test split", no_wrap=True)
    table.add_column("training images", justify="right", no_wrap=True)
    for summary in summaries:
        table.add_column(summary["config"]["loss"], justify="right", no_wrap=True)

    def add(label: str, images: int | str, values: list[float | None]) -> None:
        table.add_row(label, str(images), *("-" if value is None else f"{value:.3f}" for value in values))

    add("accuracy", sum(first["train_counts"]), [summary["accuracy"] for summary in summaries])
    add("macro recall", "", [summary["macro_recall"] for summary in summaries])
    for c, count in enumerate(first["train_counts"]):
        tail = ", tail" if c in first["tail_classes"] else ""
        add(f"recall of {c}{tail}", count, [summary["recall"][c] for summary in summaries])
    for score in first["tail_detector"]:
        values = [summary["tail_detector"][score] for summary in summaries]
        add(f"tail detector, {score.replace('_', ' ')}", "", values)
    table.add_row("seconds", "", *(f"{summary['duration_seconds']:.1f}" for summary in summaries))

    console = Console()
    console.print(f"two-model, {_setting(first)}", soft_wrap=True, highlight=False)
    console.print(table)
    per_class = first["test_counts"][0]
    console.print(
        f"Accuracy and macro recall agree: the test split has {per_class} images of each digit.\n"
        f"One seed; the recall of a class has a standard error of up to {0.5 / per_class**0.5:.2f}.",
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"wrote {out}", soft_wrap=True, highlight=False, markup=False)


def _setting(summary: dict[str, Any]) -> str:
    config = summary["config"]
    return f"imbalance {config['imbalance']:g}, {config['steps']} {config['order']} steps, seed {config['seed']}"


def _on_lines(scores: dict[str, float | None]) -> dict[str, float | None]:
    return {name.replace("_", "\n"): value for name, value in scores.items()}
