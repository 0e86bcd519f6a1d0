"""rows.json, report.md and the pictures: from rows alone, all or nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import _results
from benchmarks._case import Provider
from benchmarks._curves import curves
from benchmarks._errors import UsageError
from benchmarks._harness import measure
from benchmarks._report import absences, markdown, overview, slower
from benchmarks._results import check_writable, publish
from benchmarks._rows import Growth, rows_from_json, rows_to_json
from benchmarks._timing import Effort

PNG_HEADER = b"\x89PNG"


@pytest.fixture
def rows(clock, environment, fake_program, fake_case):
    def missing():
        raise ImportError("PyTorch is not installed")

    def case(name, **keywords):
        return fake_case(
            Provider("jaxfocal", lambda: fake_program([0.002], (1.0, 2.0000002), compiles=True, temp_bytes=lambda: 64)),
            Provider("slow | peer", lambda: fake_program([0.005], (1.0, np.nan))),
            Provider("torchref", missing),
            name=name,
            **keywords,
        )

    copies = (Provider("JAX copy", lambda: fake_program([0.001])),)
    cases = case("bound by memory", bytes_moved=4_000_000, copies=copies), case("of steps", steps=10)
    points = [case(f"{size} elements", growth=Growth("loss", "elements", size)) for size in (1000, 100)]
    cases = (*cases, *points)
    effort = Effort(rounds=3, sample_seconds=0.0, most_seconds=np.inf)
    return [row for each in cases for row in measure(each, effort, environment, clock=clock)]


def test_rows_survive_json(rows):
    assert rows_from_json(rows_to_json(rows)) == rows


def test_json_is_strict(rows):
    json.loads(rows_to_json(rows), parse_constant=pytest.fail)


def test_report_is_made_from_rows_alone(rows):
    report = markdown(rows_from_json(rows_to_json(rows)), ["losses_time.png"])
    assert report == markdown(rows, ["losses_time.png"])
    lines = report.splitlines()
    assert "![losses_time.png](losses_time.png)" in lines
    assert any(line.startswith("| slow \\| peer | 5 ms [5 ms, 5 ms] | 2.5 | 20% | - | - | 1 kB |") for line in lines)
    assert any(line.startswith("| jaxfocal | 5,000 [5,000, 5,000] | 1 | 0 µs | 64 B | 1 kB |") for line in lines)
    assert "4 MB to move. The fastest copy of as many bytes (JAX copy) ran at 4 GB a second." in lines
    assert "| torchref | missing | PyTorch is not installed | 4 |" in lines
    assert report.count("not finite") == 4 * 3
    for fact in ("abacus", "torch not installed", "2026-01-01", "highest", "2 CPU threads"):
        assert fact in report


def test_runs_in_the_same_place_share_a_paragraph(rows, environment):
    later = [replace(row, environment=replace(environment, date="2026-01-02", load=1.0)) for row in rows]
    elsewhere = [replace(row, environment=replace(environment, device="cpu: slide rule")) for row in rows]
    report = markdown(rows + later + elsewhere)
    assert report.count("Device: ") == 2
    assert "Measured on 2026-01-01T00:00:00+00:00, 2026-01-02.\nDevice: cpu: abacus" in report
    assert "Load of the whole machine when the run began: 0.5, 1.0." in report


def test_overview(rows):
    lines = overview(rows).splitlines()
    assert lines[2:] == [
        "| bound by memory | 2 ms | slow \\| peer 2.5 | 1 kB | slow \\| peer 1 |",
        "| of steps | 5,000 steps/s | slow \\| peer 2.5 | - | - |",
    ]


def test_where_a_peer_is_faster(rows):
    assert slower(rows) == []
    ours = replace(rows[1], provider="jaxfocal")
    peer = replace(rows[0], provider="peer", measurement=replace(rows[0].measurement, time_over={"jaxfocal": 0.4}))
    assert slower([ours, peer]) == ["bound by memory: peer 0.4"]


def test_curves_are_sorted_and_say_the_ratio(rows):
    (curve,) = curves(rows).values()
    assert [growth.size for _, growth, _ in curve] == [100, 100, 1000, 1000]
    lines = markdown(rows).splitlines()
    assert "| loss: elements | jaxfocal | slow \\| peer |" in lines
    assert "| 1,000 | 2 ms | 5 ms (2.5) |" in lines


def test_a_case_in_which_nobody_was_measured(rows):
    assert "No provider could be measured." in markdown([row for row in rows if row.status == "missing"])


def test_absences_count_cases(rows):
    assert absences(rows) == [("torchref", "missing", "PyTorch is not installed", 4)]


def test_publish_writes_the_whole_set(rows, tmp_path):
    publish(rows, tmp_path, ["losses"])
    names = {
        "rows.json",
        "report.md",
        *(f"losses_{metric}.png" for metric in ("time", "speed", "memory", "error", "growth")),
    }
    assert {path.name for path in tmp_path.iterdir()} == names
    assert rows_from_json((tmp_path / "rows.json").read_text()) == rows
    for picture in tmp_path.glob("*.png"):
        assert picture.read_bytes().startswith(PNG_HEADER)
        assert f"({picture.name})" in (tmp_path / "report.md").read_text()


def test_publish_replaces_an_earlier_run_and_nothing_else(rows, tmp_path):
    for name in ("rows.json", "updates_speed.png", "mine.png"):
        (tmp_path / name).write_text("old")
    publish(rows, tmp_path, ["losses", "updates"])
    assert (tmp_path / "rows.json").read_text() != "old"
    assert not (tmp_path / "updates_speed.png").exists()
    assert (tmp_path / "mine.png").read_text() == "old"


def test_a_report_that_fails_leaves_the_earlier_run(rows, tmp_path, monkeypatch):
    (tmp_path / "rows.json").write_text("old")
    monkeypatch.setattr(_results, "draw_all", lambda *args: [])
    monkeypatch.setattr(_results, "markdown", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish(rows, tmp_path, ["losses"])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_a_move_that_fails_leaves_no_rows(rows, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    (tmp_path / "rows.json").write_text("old")
    monkeypatch.setattr(_results, "draw_all", lambda *args: [])
    monkeypatch.setattr(_results.os, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        publish(rows, tmp_path, ["losses"])
    assert list(tmp_path.iterdir()) == []


def test_check_writable(tmp_path):
    folder = tmp_path / "a" / "b"
    check_writable(folder)
    assert list(folder.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--out .*file"):
        check_writable(tmp_path / "file" / "below")
