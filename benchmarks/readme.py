"""``python -m benchmarks.readme [FOLDER]`` writes README's figures from the rows in a folder of results."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ._curves import curves
from ._plots import growth_file_name
from ._report import overview, slower
from ._results import REPORT, ROWS
from ._rows import Row, rows_from_json

ROOT = Path(__file__).parent.parent
RESULTS = Path("benchmarks/results")
SHOWN = ("losses", "softmax", "linear", "segmentation", "updates", "detection")  # the other suites are in the report
BEGIN, END = "<!-- figures from {}, by python -m benchmarks.readme -->", "<!-- end of figures -->"
BLOCK = re.compile(BEGIN.format(r"(\S+)") + ".*?" + END, re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Rewrite the figures; from the folder that they come from now unless another one is named."""
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    folder = Path(arguments[0]).resolve().relative_to(ROOT) if arguments else source(text)
    path.write_text(with_figures(text, folder), encoding="utf-8")
    return 0


def source(readme: str) -> Path:
    """The folder that the figures come from."""
    return Path(_block(readme)[1])


def with_figures(readme: str, folder: Path, root: Path = ROOT) -> str:
    """The README with the figures of ``folder``, a path below ``root``."""
    block = _block(readme)
    return readme[: block.start()] + figures(folder, root) + readme[block.end() :]


def figures(folder: Path, root: Path = ROOT) -> str:
    """The block: where and how it was measured, the overview, the curves, and whether there are figures of a GPU."""
    rows = _rows(root / folder)
    run = rows[0].environment
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    report = (folder / REPORT).as_posix()
    parts = [
        BEGIN.format(folder.as_posix()),
        f"Measured on {run.date[:10]}, {run.device}, {run.threads} CPU threads ({versions}). Times are those of value "
        f"and gradient together. All of it, with errors, compile times and copies: [{report}]({report}).",
        overview([row for row in rows if row.suite in SHOWN]),
    ]
    if behind := slower(rows):
        lines = "\n".join(f"- {line}" for line in behind)
        parts.append(f"Where a peer is faster, and its time over jaxfocal's:\n\n{lines}")
    parts += [
        f"![growth of time]({(folder / growth_file_name(suite)).as_posix()})"
        for suite in dict.fromkeys(row.suite for row in rows)
        if curves([row for row in rows if row.suite == suite])
    ]
    parts += [_about_gpus(root), END]
    return "\n\n".join(parts)


def _about_gpus(root: Path) -> str:
    reports = [
        (folder.parent / REPORT).relative_to(root).as_posix()
        for folder in sorted((root / RESULTS).glob(f"*/{ROWS}"))
        if any(row.environment.device.startswith("gpu") and row.measurement is not None for row in _rows(folder.parent))
    ]
    if not reports:
        return "GPU figures are not measured yet."
    return "On a GPU: " + ", ".join(f"[{report}]({report})" for report in reports) + "."


def _rows(folder: Path) -> list[Row]:
    return rows_from_json((folder / ROWS).read_text(encoding="utf-8"))


def _block(readme: str) -> re.Match[str]:
    block = BLOCK.search(readme)
    if block is None:
        raise ValueError(f"README.md has no line {BEGIN.format('FOLDER')}")
    return block


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
