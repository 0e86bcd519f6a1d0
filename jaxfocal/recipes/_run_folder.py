"""Files of a run that appear complete or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def run_folder(out: Path) -> Iterator[Path]:
    """A hidden folder inside ``out`` to write a run into; when the block ends well its files move to ``out``.

    The JSON files, which say that a run is complete, move last, and those of an earlier run go first. When the block
    fails or is interrupted nothing of the run stays, and neither do folders made for it.

    Raises:
      OSError: on entry, where ``out`` is no folder that can be written.
    """
    made: list[Path] = []
    try:
        made = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".incomplete-", dir=out))
    except OSError as error:
        _remove_empty(made)
        raise OSError(f"out must be a folder that can be written, got {str(out)!r} ({error.strerror})") from error
    try:
        yield staging
        _publish(staging, out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        _remove_empty(made)


def write_json(path: Path, value: Any) -> None:
    """``value`` as indented JSON."""
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def write_json_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """One line of JSON a row."""
    path.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8")


def write_metrics(path: Path, metrics: dict[str, np.ndarray]) -> None:
    """A line of JSON a step, of metrics ``(steps,)`` by name: the losses first."""
    names = sorted(metrics, key=lambda name: ("/" in name, name))
    columns = {name: metrics[name].tolist() for name in names}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    write_json_lines(path, ({"step": step, **row} for step, row in enumerate(rows, 1)))


def _publish(staging: Path, out: Path) -> None:
    files = [path.relative_to(staging) for path in staging.rglob("*") if path.is_file()]
    files.sort(key=lambda path: (path.suffix == ".json", -len(path.parts), path))
    for path in files:
        if path.suffix == ".json":
            (out / path).unlink(missing_ok=True)
    for path in files:
        (out / path).parent.mkdir(exist_ok=True)
        os.replace(staging / path, out / path)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
