"""README's figures are those of the rows that it names."""

import json

import pytest

from benchmarks import readme
from benchmarks._device import HUGE_PAGES
from benchmarks._rows import rows_from_json

TEXT = (readme.ROOT / "README.md").read_text(encoding="utf-8")


def test_the_figures_are_those_of_the_rows():
    assert readme.with_figures(TEXT, readme.source(TEXT)) == TEXT, "run python -m benchmarks.readme"


def test_what_the_figures_link_to_is_there():
    figures = readme.figures(readme.source(TEXT))
    links = [part.partition(")")[0] for part in figures.split("](")[1:]]
    assert links
    for link in links:
        assert (readme.ROOT / link).is_file(), link


@pytest.fixture
def root(tmp_path):
    """A checkout with the results of one run."""
    folder = tmp_path / readme.RESULTS / "a-run"
    folder.mkdir(parents=True)
    (folder / "rows.json").write_text((readme.ROOT / readme.source(TEXT) / "rows.json").read_text())
    return tmp_path


def test_another_number_in_the_rows_is_another_figure(root):
    folder = readme.RESULTS / "a-run"
    before = readme.figures(folder, root)
    rows = json.loads((root / folder / "rows.json").read_text())
    ours = next(row for row in rows if row["provider"].startswith("jaxfocal") and row.get("growth") is None)
    ours["measurement"]["seconds"]["median"] = 1234.0
    ours["measurement"]["steps"] = None
    (root / folder / "rows.json").write_text(json.dumps(rows))
    after = readme.figures(folder, root)
    assert "1,234 s" not in before
    assert "1,234 s" in after


def write_rows_of(root, device):
    """The same rows once more, as of that device."""
    rows = json.loads((root / readme.RESULTS / "a-run" / "rows.json").read_text())
    for row in rows:
        row["environment"]["device"] = device
    (root / readme.RESULTS / "b-run").mkdir()
    (root / readme.RESULTS / "b-run" / "rows.json").write_text(json.dumps(rows))


def test_what_is_said_of_gpus_depends_on_the_rows(root):
    assert "GPU figures are not measured yet." in readme.figures(readme.RESULTS / "a-run", root)
    write_rows_of(root, "gpu: abacus")
    figures = readme.figures(readme.RESULTS / "a-run", root)
    assert "not measured yet" not in figures
    assert "On a GPU: [benchmarks/results/b-run/report.md](benchmarks/results/b-run/report.md)." in figures


def test_rows_with_huge_pages_have_a_table_of_their_own(root):
    before = readme.figures(readme.RESULTS / "a-run", root)
    write_rows_of(root, "cpu: abacus" + HUGE_PAGES)
    after = readme.figures(readme.RESULTS / "a-run", root)
    assert "huge pages" not in before
    assert "cpu: abacus, malloc with huge pages" in after
    assert after.count("| case |") == before.count("| case |") + 1


def test_a_text_without_figures():
    with pytest.raises(ValueError, match=r"README\.md has no line"):
        readme.source("# jaxfocal")


def test_rows_of_an_older_run_can_be_read():
    """Without the key ``growth``."""
    rows = json.loads((readme.ROOT / readme.source(TEXT) / "rows.json").read_text())
    for row in rows:
        row.pop("growth", None)
    assert rows_from_json(json.dumps(rows))
