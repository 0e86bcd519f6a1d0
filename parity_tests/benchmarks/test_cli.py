"""The command: what it writes, and how it says no."""

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from benchmarks import _cli, softmax
from benchmarks._case import Provider
from benchmarks._device import HUGE_PAGES, Device, choose_device, describe_environment, set_same_conditions
from benchmarks._errors import UsageError
from benchmarks._harness import NO_TIME_LEFT
from benchmarks._rows import rows_from_json
from benchmarks._timing import Effort

WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def exit_status(*args):
    """Of the command run in this process, whether it returns it or argparse exits with it."""
    try:
        return _cli.main(args)
    except SystemExit as error:
        return error.code


class FakeSetup:
    """A case that is there already."""

    def __init__(self, case):
        self.case = lambda device: case


@pytest.fixture
def run_on(monkeypatch):
    """Makes the command measure one setup, shortly; what both frameworks are set to would outlive the test."""

    def replace_suites(setup):
        monkeypatch.setattr(_cli, "SUITES", {"losses": lambda quick: [setup]})
        monkeypatch.setattr(_cli, "QUICK", Effort(rounds=3, sample_seconds=0.0, most_seconds=0.0))
        monkeypatch.setattr(_cli, "set_same_conditions", lambda: None)

    return replace_suites


@pytest.mark.usefixtures("without_torch")
def test_a_tiny_run(run_on, tmp_path, capsys):
    run_on(softmax.SoftmaxSetup(8, 5, torch_compile=False))
    assert exit_status("--quick", "--out", str(tmp_path / "new")) == 0
    rows = rows_from_json((tmp_path / "new" / "rows.json").read_text())
    assert [(row.provider, row.status) for row in rows] == [
        ("jaxfocal", "measured"),
        ("torchref", "missing"),
        (softmax.COMPILED, "skipped"),
    ]
    report = (tmp_path / "new" / "report.md").read_text()
    printed = capsys.readouterr().out
    for row in rows:
        assert row.provider in report
        assert row.provider in printed
    assert "report.md" in printed


@pytest.mark.parametrize(("provider", "status"), [("jaxfocal", 1), ("peer", 0)])
def test_the_status_is_1_where_jaxfocal_itself_fails(
    run_on, tmp_path, capsys, fake_case, fake_program, provider, status
):
    def broken():
        raise RuntimeError("broken")

    run_on(FakeSetup(fake_case(Provider(provider, broken), Provider("another", lambda: fake_program([1.0])))))
    assert exit_status("--quick", "--out", str(tmp_path)) == status
    assert f"{provider}: failed in 1 case(s): RuntimeError: broken" in capsys.readouterr().out


def test_device_gpu_without_a_gpu(tmp_path):
    """In a process of its own, where a traceback would be seen."""
    command = [sys.executable, "-m", "benchmarks", "--device", "gpu", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | WITHOUT_GPU)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: --device gpu: JAX sees no GPU here")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_device_gpu_where_only_jax_sees_one(monkeypatch):
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(jax, "devices", lambda kind: [object()])
    with pytest.raises(UsageError, match="PyTorch sees no GPU here"):
        choose_device("gpu")


@pytest.mark.parametrize("below", ["", "/below"])
def test_bad_out(tmp_path, capsys, below):
    (tmp_path / "file").touch()
    out = f"{tmp_path / 'file'}{below}"
    assert exit_status("--quick", "--out", out) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: --out {out}")
    assert len(captured.err.splitlines()) == 1
    assert captured.out == ""


@pytest.mark.parametrize("option", ["--suite", "--device"])
def test_unknown_choice(capsys, option):
    assert exit_status(option, "unheard") == 2
    error = capsys.readouterr().err
    assert option in error
    assert "unheard" in error
    assert "Traceback" not in error


def test_several_suites(monkeypatch, tmp_path, fake_case, fake_program):
    """In the order in which they are named."""
    cases = {
        suite: FakeSetup(replace(fake_case(Provider("jaxfocal", lambda: fake_program([0.001]))), suite=suite))
        for suite in ("losses", "linear", "updates")
    }
    suites = {suite: lambda quick, setup=setup: [setup] for suite, setup in cases.items()}
    monkeypatch.setattr(_cli, "SUITES", suites)
    monkeypatch.setattr(_cli, "set_same_conditions", lambda: None)
    assert exit_status("--suite", "updates", "losses", "--quick", "--out", str(tmp_path)) == 0
    rows = rows_from_json((tmp_path / "rows.json").read_text())
    assert [row.suite for row in rows] == ["updates", "losses"]


class FakeGPU:
    """What JAX says of one."""

    platform, device_kind = "gpu", "abacus with beads of light"


def on_a_gpu(clock, fake_case, fake_program, seconds_a_call):
    """The rows of three cases on a GPU on which a call takes so long."""
    setups = [
        FakeSetup(fake_case(Provider("jaxfocal", lambda: fake_program([seconds_a_call], in_order=True)), name=str(i)))
        for i in range(3)
    ]
    return _cli.measure_all(setups, Device(FakeGPU(), "cuda"), quick=False, begin=clock(), clock=clock)


def test_what_does_not_start_in_time_on_a_gpu_is_listed(clock, fake_case, fake_program):
    clock.take(50.0)
    rows = on_a_gpu(clock, fake_case, fake_program, _cli.GPU_SECONDS / 12)
    assert [(row.case, row.status, row.reason) for row in rows] == [
        ("0", "measured", None),
        ("1", "measured", None),
        ("2", "skipped", NO_TIME_LEFT),
    ]
    assert {row.environment.device for row in rows} == {"gpu: abacus with beads of light"}


def test_a_gpu_in_time(clock, fake_case, fake_program):
    rows = on_a_gpu(clock, fake_case, fake_program, 0.001)
    assert [row.status for row in rows] == ["measured"] * 3


def test_the_same_conditions_in_both_frameworks(monkeypatch):
    """Full float32 products; PyTorch is a recorder here, since what it is set to would outlive the test."""
    told = {}
    torch = SimpleNamespace(
        set_float32_matmul_precision=lambda precision: told.update(torch=precision),
        backends=SimpleNamespace(
            cudnn=SimpleNamespace(allow_tf32=True), cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
        ),
        set_num_threads=lambda number: told.update(threads=number),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(jax.config, "update", lambda name, value: told.update({name: value}))
    set_same_conditions()
    assert told["torch"] == told["jax_default_matmul_precision"] == "highest"
    assert not torch.backends.cudnn.allow_tf32


def test_packages_that_the_command_does_without():
    """In a process of its own, in which they cannot be imported."""
    program = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"tyro", "sklearn", "monai", "kornia", "timm", "equinox"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hidden())
import benchmarks._cli as cli
cli._parser().parse_args(["--quick"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_interrupted(monkeypatch, tmp_path, capsys):
    def interrupt(kind):
        raise KeyboardInterrupt

    monkeypatch.setattr(_cli, "choose_device", interrupt)
    assert exit_status("--out", str(tmp_path)) == 130
    assert capsys.readouterr().err == "stopped: nothing was written\n"


@pytest.mark.parametrize(
    ("tunables", "huge"),
    [
        ("glibc.malloc.hugetlb=1", True),
        ("glibc.malloc.check=3:glibc.malloc.hugetlb=2", True),
        ("glibc.malloc.hugetlb=0", False),
        ("", False),
    ],
)
def test_rows_say_whether_malloc_has_huge_pages(tunables, huge, monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", tunables)
    environment = describe_environment(Device(jax.devices("cpu")[0], "cpu"))
    assert environment.device.endswith(HUGE_PAGES) == huge
