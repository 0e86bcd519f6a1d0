"""A run's files appear complete or not at all."""

import json
import os
from pathlib import Path

import pytest

from jaxfocal.recipes._run_folder import run_folder, write_json, write_json_lines


def write_run(folder: Path, value: int) -> None:
    write_json_lines(folder / "metrics.jsonl", iter([{"step": 1, "value": value}]))
    write_json(folder / "summary.json", {"value": value})


def fail_midway(out: Path, error: type[BaseException]) -> None:
    with run_folder(out) as folder:
        write_run(folder, 2)
        raise error


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_appear_when_the_block_ends(tmp_path):
    out = tmp_path / "a" / "b"
    with run_folder(out) as folder:
        write_run(folder, 1)
        (folder / "sub").mkdir()
        write_run(folder / "sub", 2)
        assert not list(out.glob("*.json*"))
    assert names(out) == ["metrics.jsonl", "sub", "sub/metrics.jsonl", "sub/summary.json", "summary.json"]
    assert json.loads((out / "summary.json").read_text()) == {"value": 1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_stays_of_a_run_that_fails(tmp_path, error):
    with pytest.raises(error):
        fail_midway(tmp_path / "a" / "b", error)
    assert names(tmp_path) == []


def test_a_failed_run_leaves_an_earlier_one_and_foreign_files_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with run_folder(tmp_path) as folder:
        write_run(folder, 1)
    with pytest.raises(RuntimeError):
        fail_midway(tmp_path, RuntimeError)
    assert names(tmp_path) == ["metrics.jsonl", "notes.txt", "summary.json"]
    assert json.loads((tmp_path / "summary.json").read_text()) == {"value": 1}


def test_a_new_run_replaces_an_earlier_one(tmp_path):
    for value in (1, 2):
        with run_folder(tmp_path) as folder:
            write_run(folder, value)
    assert json.loads((tmp_path / "summary.json").read_text()) == {"value": 2}
    assert names(tmp_path) == ["metrics.jsonl", "summary.json"]


def test_a_run_that_fails_while_its_files_move_does_not_look_complete(tmp_path, monkeypatch):
    with run_folder(tmp_path) as folder:
        write_run(folder, 1)

    def fail_on_json(source: Path, target: Path) -> None:
        if target.suffix == ".json":
            raise KeyboardInterrupt
        source.rename(target)

    monkeypatch.setattr(os, "replace", fail_on_json)
    with pytest.raises(KeyboardInterrupt), run_folder(tmp_path) as folder:
        write_run(folder, 2)
    assert names(tmp_path) == ["metrics.jsonl"]
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, "value": 2}


def test_what_says_that_a_run_is_complete_moves_last(tmp_path, monkeypatch):
    moved = []

    def record(source: Path, target: Path) -> None:
        moved.append(str(target.relative_to(tmp_path)))
        source.rename(target)

    monkeypatch.setattr(os, "replace", record)
    with run_folder(tmp_path) as folder:
        write_run(folder, 1)
        (folder / "sub").mkdir()
        write_run(folder / "sub", 2)
    assert moved == ["sub/metrics.jsonl", "metrics.jsonl", "sub/summary.json", "summary.json"]


@pytest.mark.parametrize("out", ["file", "file/below", "file/far/below", "new/" + "x" * 300])
def test_out_that_cannot_be_written_is_one_clear_message(tmp_path, out):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^out must be a folder that can be written, got '.*' \(.+\)$"):
        fail_midway(tmp_path / out, AssertionError)
    assert names(tmp_path) == ["file"]


def test_json_that_no_parser_reads_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", float("nan"))
