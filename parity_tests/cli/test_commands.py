"""The command ``jaxfocal``: what it prints and what it writes."""

import json
import subprocess

import pytest

import jaxfocal
from jaxfocal.recipes import _progress, detector, gan, two_model
from parity_tests.cli.running import command, exit_status

FIGURES = ["focal_curves.png", "weighting.png", "class_weights.png"]


def test_version(capsys):
    assert exit_status("--version") == 0
    assert capsys.readouterr().out == f"jaxfocal {jaxfocal.__version__}\n"


def test_help_names_every_option(capsys):
    assert exit_status("--help") == 0
    text = capsys.readouterr().out
    assert "train" in text
    assert "figures" in text
    assert exit_status("figures", "--help") == 0
    text = capsys.readouterr().out
    assert "--out PATH" in text
    assert "runs/figures" in text
    assert exit_status("train", "--help") == 0
    assert "two-model" in capsys.readouterr().out
    assert exit_status("train", "two-model", "--help") == 0
    text = capsys.readouterr().out
    for option in ("--loss {focal,balanced,ce}", "--order", "--steps", "--imbalance", "--seed", "--out", "--compare"):
        assert option in text
    assert exit_status("train", "gan", "--help") == 0
    text = capsys.readouterr().out
    for option in ("--loss {bce,wgan-gp}", "--order", "--n-critic", "--steps", "--seed", "--ema", "runs/gan"):
        assert option in text
    assert exit_status("train", "detector", "--help") == 0
    text = capsys.readouterr().out
    for option in (
        "--loss {focal,balanced,ohem,ce}",
        "--steps",
        "--seed",
        "--batch-size",
        "--compare",
        "runs/detector",
    ):
        assert option in text


def test_a_run_from_the_command_line(tmp_path):
    out = tmp_path / "run"
    args = command("train", "two-model", "--loss", "balanced", "--steps", "50", "--seed", "3", "--out", str(out))
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["metrics.jsonl", "summary.json", "two_model.png"]
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["config"]["loss"], summary["config"]["seed"]) == ("balanced", 3)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 50

    for row in ("accuracy", "macro recall", *(f"recall of {digit}" for digit in range(10))):
        assert row in done.stdout
    assert f"{summary['accuracy']:.3f}" in done.stdout
    assert "balanced: step 50/50" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_shows_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with _progress.progress("focal", 100) as on_chunk:
        on_chunk(50, {"l1": 0.125, "l2": 0.5, "grad_norm/model1": 7.0})
    shown = capsys.readouterr().err
    assert "\x1b" in shown
    assert "50/100" in shown
    assert "l1 0.12  l2 0.5" in shown
    assert "grad_norm" not in shown


def test_the_gan_runs_with_the_options_given(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(gan, "main", lambda config, out: asked.append((config, out)))
    args = ("--loss", "wgan-gp", "--n-critic", "3", "--order", "simultaneous", "--seed", "4", "--out", str(tmp_path))
    assert exit_status("train", "gan", *args) == 0
    assert asked == [(gan.GanConfig(loss="wgan-gp", n_critic=3, order="simultaneous", seed=4), tmp_path)]


@pytest.mark.parametrize(("args", "function"), [([], "main"), (["--compare"], "compare")])
def test_the_detector_runs_with_the_options_given(tmp_path, monkeypatch, args, function):
    asked = []
    monkeypatch.setattr(detector, function, lambda config, out: asked.append((config, out)))
    options = ("--loss", "ohem", "--steps", "9", "--batch-size", "2", "--seed", "4", "--out", str(tmp_path))
    assert exit_status("train", "detector", *options, *args) == 0
    assert asked == [(detector.DetectorConfig(loss="ohem", steps=9, batch_size=2, seed=4), tmp_path)]


def test_figures_say_where_they_are(tmp_path, capsys):
    out = tmp_path / "new" / "figures"
    assert exit_status("figures", "--out", str(out)) == 0
    printed, message = capsys.readouterr()
    assert message == ""
    assert printed.splitlines() == [f"wrote {out / name}" for name in FIGURES]
    assert sorted(path.name for path in out.iterdir()) == sorted(FIGURES)


def test_compare_runs_the_comparison(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(two_model, "compare", lambda config, out: asked.append((config, out)))
    assert exit_status("train", "two-model", "--compare", "--steps", "7", "--out", str(tmp_path)) == 0
    assert asked == [(two_model.TwoModelConfig(steps=7), tmp_path)]
