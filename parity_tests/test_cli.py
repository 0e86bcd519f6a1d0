"""The command ``jaxfocal``: what it prints, what it writes, and how it says no."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jaxfocal
from jaxfocal import cli
from jaxfocal.recipes import _progress, detector, gan, two_model

FIGURES = ["focal_curves.png", "weighting.png", "class_weights.png"]


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "jaxfocal", *args]


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def exit_status(*args: str) -> int | str | None:
    """Of the command run in this process, whether it returns it or tyro exits with it."""
    try:
        return cli.main(args)
    except SystemExit as error:
        return error.code


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


def test_importing_is_light():
    heavy = ["flax", "matplotlib", "pycocotools", "sklearn", "rich", "tyro", "torch"]
    done = python(f"import sys, jaxfocal, jaxfocal.cli\nprint([m for m in {heavy} if m in sys.modules])")
    assert done.stdout == "[]\n"


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


@pytest.mark.parametrize(
    ("args", "given", "expected"),
    [
        (["--loss", "hinge"], "'hinge'", "focal"),
        (["--order", "random"], "'random'", "alternating"),
        (["--steps", "many"], "'many'", "int"),
        (["--stps", "5"], "--stps", "--steps"),
        (["--steps", "0"], "0", "error: steps must be an integer of at least 1"),
        (["--imbalance", "0.5"], "0.5", "error: imbalance must be finite and at least 1"),
        (["--imbalance", "nan"], "nan", "error: imbalance must be finite and at least 1"),
        (["--seed", "-1"], "-1", "error: seed must be an integer in [0, 2**31)"),
        (["--learning-rate", "0"], "0.0", "error: learning_rate must be finite and above 0"),
        (["--batch-size", "0"], "0", "error: batch_size must be an integer of at least 1"),
    ],
)
def test_bad_options_give_one_message_and_status_2(tmp_path, monkeypatch, capsys, args, given, expected):
    monkeypatch.chdir(tmp_path)
    assert exit_status("train", "two-model", *args) == 2
    printed, message = capsys.readouterr()
    assert printed == ""
    assert given in message
    assert expected in message
    assert "Traceback" not in message
    assert len(message.splitlines()) == 1 or "For full helptext" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "{train, figures}"),
        (["train"], "{two-model, gan, detector}"),
        (["trian"], "Available subcommands: train, figures"),
        (["train", "two"], "two-model"),
        (["figures", "two-model"], "Unrecognized options: two-model"),
    ],
)
def test_a_command_that_is_none_gives_status_2(capsys, args, expected):
    assert exit_status(*args) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert "Traceback" not in message


def test_a_bad_option_in_a_process_of_its_own(tmp_path):
    args = command("train", "two-model", "--steps", "-5", "--out", str(tmp_path / "run"))
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: steps must be an integer of at least 1, got -5\n"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--loss", "hinge"], "wgan-gp"),
        (["--n-critic", "0"], "error: n_critic must be an integer of at least 1, got 0\n"),
        (["--ema", "1"], "error: ema must be in [0, 1), got 1.0\n"),
    ],
)
def test_bad_options_of_the_gan(tmp_path, monkeypatch, capsys, args, expected):
    monkeypatch.chdir(tmp_path)
    assert exit_status("train", "gan", *args) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert "Traceback" not in message
    assert not list(tmp_path.iterdir())


def test_the_gan_runs_with_the_options_given(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(gan, "main", lambda config, out: asked.append((config, out)))
    args = ("--loss", "wgan-gp", "--n-critic", "3", "--order", "simultaneous", "--seed", "4", "--out", str(tmp_path))
    assert exit_status("train", "gan", *args) == 0
    assert asked == [(gan.GanConfig(loss="wgan-gp", n_critic=3, order="simultaneous", seed=4), tmp_path)]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--loss", "hinge"], "ohem"),
        (["--steps", "0"], "error: steps must be an integer of at least 1, got 0\n"),
        (["--learning-rate", "inf"], "error: learning_rate must be finite and above 0, got inf\n"),
        (["--learning-rate", "nan"], "error: learning_rate must be finite and above 0, got nan\n"),
        (["--batch-size", "0"], "error: batch_size must be an integer of at least 1, got 0\n"),
        (["--seed", "-1"], "error: seed must be an integer in [0, 2**31), got -1\n"),
    ],
)
def test_bad_options_of_the_detector(tmp_path, monkeypatch, capsys, args, expected):
    monkeypatch.chdir(tmp_path)
    assert exit_status("train", "detector", *args) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert "Traceback" not in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("args", "function"), [([], "main"), (["--compare"], "compare")])
def test_the_detector_runs_with_the_options_given(tmp_path, monkeypatch, args, function):
    asked = []
    monkeypatch.setattr(detector, function, lambda config, out: asked.append((config, out)))
    options = ("--loss", "ohem", "--steps", "9", "--batch-size", "2", "--seed", "4", "--out", str(tmp_path))
    assert exit_status("train", "detector", *options, *args) == 0
    assert asked == [(detector.DetectorConfig(loss="ohem", steps=9, batch_size=2, seed=4), tmp_path)]


@pytest.mark.parametrize("compare", [[], ["--compare"]])
def test_out_that_cannot_be_written_is_said_before_training(tmp_path, monkeypatch, capsys, compare):
    monkeypatch.setattr(two_model, "run", lambda config: pytest.fail("trained before looking at --out"))
    out = tmp_path / "file" / "run"
    out.parent.touch()
    assert exit_status("train", "two-model", "--out", str(out), *compare) == 2
    message = capsys.readouterr().err
    assert message == f"error: out must be a folder that can be written, got '{out}' (Not a directory)\n"


def test_figures_say_where_they_are(tmp_path, capsys):
    out = tmp_path / "new" / "figures"
    assert exit_status("figures", "--out", str(out)) == 0
    printed, message = capsys.readouterr()
    assert message == ""
    assert printed.splitlines() == [f"wrote {out / name}" for name in FIGURES]
    assert sorted(path.name for path in out.iterdir()) == sorted(FIGURES)


def test_figures_that_cannot_be_written(tmp_path, capsys):
    out = tmp_path / "file" / "figures"
    out.parent.touch()
    assert exit_status("figures", "--out", str(out)) == 2
    printed, message = capsys.readouterr()
    assert printed == ""
    assert message == f"error: out must be a folder that can be written, got '{out}' (Not a directory)\n"


def test_training_that_diverges_gives_status_2_and_no_files(tmp_path, monkeypatch, capsys):
    def diverge(config: two_model.TwoModelConfig) -> two_model.Run:
        raise FloatingPointError("training diverged: l1 is nan at step 7")

    monkeypatch.setattr(two_model, "run", diverge)
    assert exit_status("train", "two-model", "--out", str(tmp_path / "run")) == 2
    assert capsys.readouterr().err == "error: training diverged: l1 is nan at step 7\n"
    assert not list(tmp_path.iterdir())


def test_compare_runs_the_comparison(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(two_model, "compare", lambda config, out: asked.append((config, out)))
    assert exit_status("train", "two-model", "--compare", "--steps", "7", "--out", str(tmp_path)) == 0
    assert asked == [(two_model.TwoModelConfig(steps=7), tmp_path)]


MISSING = """
import sys
from jaxfocal import cli

for module in {modules}:
    loaded = sys.modules.get(module)
    sys.modules[module] = None
    print(cli.main([*{args}, "--out", {out!r}]))
    del sys.modules[module]
    for name in [name for name in sys.modules if name.startswith(("jaxfocal.recipes.", "jaxfocal.plots"))]:
        del sys.modules[name]
"""


@pytest.mark.parametrize(
    ("args", "modules", "packages"),
    [
        (
            ["train", "two-model"],
            ["tyro", "rich", "sklearn", "matplotlib"],
            ["tyro", "rich", "scikit-learn", "matplotlib"],
        ),
        (["train", "detector"], ["pycocotools"], ["pycocotools"]),
        (["figures"], ["tyro", "matplotlib"], ["tyro", "matplotlib"]),
    ],
)
def test_a_missing_library_is_one_sentence_with_the_install_command(tmp_path, args, modules, packages):
    done = python(MISSING.format(modules=modules, args=args, out=str(tmp_path / "run")))
    assert done.stdout.split() == ["2"] * len(modules)
    assert done.stderr.splitlines() == [
        f"error: jaxfocal {args[0]} needs {package}, which is not installed: pip install 'jaxfocal[train]'"
        for package in packages
    ]
    assert not list(tmp_path.iterdir())


def test_a_missing_module_that_no_extra_installs_is_not_hidden(monkeypatch):
    def missing(args: list[str]) -> None:
        raise ModuleNotFoundError("No module named 'antigravity2'", name="antigravity2")

    monkeypatch.setattr(cli, "_parse", missing)
    with pytest.raises(ModuleNotFoundError, match="antigravity2"):
        cli.main([])


def interrupt(process):
    """Ctrl-C, and again where it was lost: Python drops an exception raised in a callback of its garbage collector."""
    while True:
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue


@pytest.fixture
def interruptible():
    """Children hear Ctrl-C even where the tests run in the background, which ignores it, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C reaches a process group there, this test included")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_leaves_nothing_and_exits_130(tmp_path):
    out = tmp_path / "new" / "run"
    args = command("train", "two-model", "--steps", "20000", "--out", str(out))
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "focal: compiling\n"
        assert [path.name[:12] for path in out.iterdir()] == [".incomplete-"]
        printed, message = interrupt(process)
    assert process.returncode == 130
    assert printed == ""
    assert message.splitlines()[-1] == "interrupted"
    assert "Traceback" not in message
    assert not list(Path(tmp_path).iterdir())
