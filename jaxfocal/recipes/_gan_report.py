"""What the GAN recipe leaves behind: files, and a table on stdout."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from jaxfocal import plots

from ._run_folder import write_json, write_metrics


class Run(NamedTuple):
    """A finished run.

    Attributes:
      metrics: ``(steps,)`` by name.
      distances: Fréchet distance to the held-out digits by step.
      samples: images ``(n, 64)`` of the same noise by step.
      digits: some of the training images ``(n, 64)``.
      summary: what ``summary.json`` says.
    """

    metrics: dict[str, np.ndarray]
    distances: dict[int, float]
    samples: dict[int, np.ndarray]
    digits: np.ndarray
    summary: dict[str, Any]


def save_run(run: Run, folder: Path) -> None:
    """``metrics.jsonl`` (a line a step), ``samples.png``, ``gan.png`` and ``summary.json``."""
    write_metrics(folder / "metrics.jsonl", run.metrics)
    rows = {f"step {step:,}": run.samples[step].reshape(-1, 8, 8) for step in doublings(list(run.samples))}
    rows["real digits"] = run.digits.reshape(-1, 8, 8)
    title = _setting(run.summary)
    plots.samples_figure(rows, title=f"Samples of the averaged generator, {title}").savefig(
        folder / "samples.png", dpi=150
    )
    frechet = run.summary["frechet"]
    figure = plots.distances_figure(
        {"d: discriminator": run.metrics["d"], "g: generator": run.metrics["g"]},
        {"averaged generator": run.distances},
        {name: frechet[name] for name in ("uniform noise", "training images")},
        title=title,
        distances_label="Fréchet distance to the held-out digits",
    )
    figure.savefig(folder / "gan.png", dpi=150)
    write_json(folder / "summary.json", {**run.summary, "frechet_by_step": run.distances})


def doublings(steps: list[int]) -> list[int]:
    """The first of the ascending steps, each that is at least twice the one before it, and the last."""
    kept = steps[:2]
    for step in steps[2:]:
        if step >= 2 * kept[-1]:
            kept.append(step)
    return kept if kept[-1] == steps[-1] else [*kept, steps[-1]]


def print_results(run: Run, out: Path) -> None:
    """One table of distances, and where the files are."""
    summary = run.summary
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("Fréchet distance to the held-out digits", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    for name, distance in summary["frechet"].items():
        table.add_row(name, f"{distance:.3f}")
    table.add_row("seconds", f"{summary['duration_seconds']:.1f}")

    console = Console()
    images, nearest = summary["images"], summary["nearest_training_image"]
    console.print(f"gan, {_setting(summary)}", soft_wrap=True, highlight=False)
    console.print(table)
    console.print(
        f"{images['samples']} samples, {images['held out']} held-out digits; how near real digits come shows in the "
        f"{images['training']} training images.\n"
        f"The nearest training image is {nearest['samples']:.2f} from a sample and {nearest['held-out digits']:.2f} "
        "from a held-out digit.",
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"wrote {out}", soft_wrap=True, highlight=False, markup=False)


def _setting(summary: dict[str, Any]) -> str:
    config = summary["config"]
    return (
        f"{config['loss']}, {config['steps']} {config['order']} steps, n_critic {config['n_critic']}, "
        f"seed {config['seed']}"
    )
