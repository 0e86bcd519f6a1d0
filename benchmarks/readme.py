"""``python -m benchmarks.readme [FOLDER]`` writes README's figures from the rows in a folder of results."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ._curves import curves
from ._device import HUGE_PAGES
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
    parts += [*_with_huge_pages(root), _about_gpus(root), END]
    return "\n\n".join(parts)


def _with_huge_pages(root: Path) -> list[str]:
    """For each folder of rows measured with them, where and why, and the overview."""
    parts = []
    for folder in _folders(root, lambda device: device.endswith(HUGE_PAGES)):
        rows = _rows(folder)
        run = rows[0].environment
        parts += [
            f"Measured on {run.date[:10]}, {run.device}, as `GLIBC_TUNABLES` had it: memory that is new to the process "
            f"costs both frameworks less. {_link(folder, root)}:",
            overview([row for row in rows if row.suite in SHOWN]),
        ]
    return parts


def _about_gpus(root: Path) -> str:
    reports = [_link(folder, root) for folder in _folders(root, lambda device: device.startswith("gpu"))]
    return f"On a GPU: {', '.join(reports)}." if reports else "GPU figures are not measured yet."


def _folders(root: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Those with rows that were measured on such a device."""

    def measured(row: Row) -> bool:
        return wanted(row.environment.device) and row.measurement is not None

    folders = [path.parent for path in sorted((root / RESULTS).glob(f"*/{ROWS}"))]
    return [folder for folder in folders if any(map(measured, _rows(folder)))]


def _link(folder: Path, root: Path) -> str:
    report = (folder / REPORT).relative_to(root).as_posix()
    return f"[{report}]({report})"


def _rows(folder: Path) -> list[Row]:
    return rows_from_json((folder / ROWS).read_text(encoding="utf-8"))


def _block(readme: str) -> re.Match[str]:
    block = BLOCK.search(readme)
    if block is None:
        raise ValueError(f"README.md has no line {BEGIN.format('FOLDER')}")
    return block


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
