"""Bad options, folders that cannot be written, training that diverges: one message, status 2 and no files."""

import subprocess

import pytest

from jaxfocal.recipes import two_model
from parity_tests.cli.running import command, exit_status


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


@pytest.mark.parametrize("compare", [[], ["--compare"]])
def test_out_that_cannot_be_written_is_said_before_training(tmp_path, monkeypatch, capsys, compare):
    monkeypatch.setattr(two_model, "run", lambda config: pytest.fail("trained before looking at --out"))
    out = tmp_path / "file" / "run"
    out.parent.touch()
    assert exit_status("train", "two-model", "--out", str(out), *compare) == 2
    message = capsys.readouterr().err
    assert message == f"error: out must be a folder that can be written, got '{out}' (Not a directory)\n"


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
