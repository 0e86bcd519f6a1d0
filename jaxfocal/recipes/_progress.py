"""Progress of a training loop on stderr: a bar in a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

OnChunk = Callable[[int, dict[str, float]], None]


@contextmanager
def progress(label: str, total: int) -> Iterator[OnChunk]:
    """A function ``on_chunk(step, metrics)`` that shows how far training is, and its losses."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def print_line(step: int, metrics: dict[str, float]) -> None:
            console.print(f"{label}: step {step}/{total}  {_losses(metrics)}", soft_wrap=True, highlight=False)

        console.print(f"{label}: compiling", highlight=False)
        yield print_line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=total, losses="compiling")
        yield lambda step, metrics: bar.update(task, completed=step, losses=_losses(metrics))


def _losses(metrics: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.2g}" for name, value in metrics.items() if "/" not in name)
