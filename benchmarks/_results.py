"""The folder of results: rows.json, report.md and pictures, all of one run or none."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from ._errors import UsageError
from ._plots import METRICS, draw_all, file_name, growth_file_name
from ._report import markdown
from ._rows import Row, rows_to_json

ROWS, REPORT = "rows.json", "report.md"


def check_writable(folder: Path) -> None:
    """Make the folder; UsageError where nothing can be written there."""
    with _usage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def publish(rows: Sequence[Row], folder: Path, suites: Sequence[str]) -> None:
    """Write everything aside, then move it into place, rows.json last: where it is, the rest belongs to it.

    The pictures that an earlier run of any of ``suites`` left are removed.
    """
    with _usage_errors(folder), TemporaryDirectory(dir=folder, prefix=".unfinished-") as unfinished:
        aside = Path(unfinished)
        plots = draw_all(rows, aside)
        (aside / REPORT).write_text(markdown(rows, plots), encoding="utf-8")
        (aside / ROWS).write_text(rows_to_json(rows), encoding="utf-8")
        pictures = [file_name(suite, metric) for suite, metric in product(suites, METRICS)]
        for old in (ROWS, REPORT, *pictures, *(growth_file_name(suite) for suite in suites)):
            (folder / old).unlink(missing_ok=True)
        for name in (*plots, REPORT, ROWS):
            os.replace(aside / name, folder / name)


@contextmanager
def _usage_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out {folder}: no results can be written there ({error.strerror})") from None
