"""Ctrl-C while a recipe trains."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from parity_tests.cli.running import command


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
