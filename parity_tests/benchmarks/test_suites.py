"""Every suite from end to end, tiny: who is measured is right, and who is not there is listed."""

import importlib.util
from dataclasses import replace

import pytest

from benchmarks import detection, linear, losses, programs, segmentation, updates
from benchmarks._detector import Detector
from benchmarks._device import choose_device
from benchmarks._harness import measure
from benchmarks._programs import Training
from benchmarks._timing import Effort

TINY = Effort(rounds=3, sample_seconds=0.0, most_seconds=0.0)
SETUPS = {
    "sigmoid, hard": losses.SigmoidSetup(64, "uint8", torch_compile=False),
    "sigmoid, soft": losses.SigmoidSetup(64, "float32", torch_compile=False),
    "cross-entropy": losses.SoftmaxSetup(8, 5, gamma=0.0, torch_compile=False),
    "linear": linear.LinearSetup(16, 4, 10, torch_compile=False),
    "segmentation": segmentation.DiceSetup(1, 8, 3),
    "updates": updates.UpdatesSetup(batch=4, hidden=8, steps=3),
    **{
        kind: programs.ProgramSetup(Training(kind, batch=4, hidden=8, steps=3), torch_compile=False)
        for kind in programs.NAMES
    },
    "detect": detection.DetectionSetup(Detector("inference", 64, 96, batch=2, depth=18)),
    "train a detector": detection.DetectionSetup(Detector("train step", 64, 96, batch=2, depth=18)),
    "held": programs.HeldSetup(batch=4, hidden=8),
}
PEERS_IN_TORCH = ("torch", "PyTorch", "MONAI")


def installed(package):
    return importlib.util.find_spec(package) is not None


def expected_status(provider):
    if provider in (losses.COMPILED, linear.COMPILED, programs.COMPILED):
        return "skipped"
    package = {"torchvision": "torchvision", "MONAI, PyTorch": "monai"}.get(provider, "torch")
    return "missing" if provider.startswith(PEERS_IN_TORCH) and not installed(package) else "measured"


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_suite(setup, environment):
    rows = measure(setup.case(choose_device("cpu")), TINY, environment)
    assert {row.provider: row.status for row in rows} == {row.provider: expected_status(row.provider) for row in rows}
    for row in rows:
        if row.measurement is None:
            continue
        assert row.measurement.seconds.median > 0
        assert (row.measurement.compile_seconds is None) == row.provider.startswith(PEERS_IN_TORCH)
        if setup != SETUPS["held"]:
            assert (row.measurement.temp_bytes is None) == row.provider.startswith(PEERS_IN_TORCH)
        for name, error in row.measurement.errors.items():
            assert error.overall < (1e-3 if name == "parameter change" else 1e-5), (row.provider, name)


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize("name", ["sigmoid, hard", "cross-entropy", "updates"])
def test_without_torch(name, environment):
    """Those in JAX are left out here, which cannot tell the difference."""
    case = SETUPS[name].case(choose_device("cpu"))
    in_torch = tuple(p for p in case.providers if p.name.startswith(PEERS_IN_TORCH) and p.name != losses.COMPILED)
    rows = measure(replace(case, providers=in_torch, reference=dict), TINY, environment)
    assert [row.provider for row in rows] == [provider.name for provider in in_torch] != []
    reason = "PyTorch is not installed: pip install 'jaxfocal[torch]'"
    assert {(row.status, row.reason) for row in rows} == {("missing", reason)}


def test_bytes_moved_are_logits_labels_and_gradient():
    case = SETUPS["cross-entropy"].case(choose_device("cpu"))
    assert case.bytes_moved == 8 * 5 * 4 + 8 * 4 + 8 * 5 * 4


def test_quick_setups_compile_in_torch_twice_at_most():
    assert sum(setup.torch_compile for setup in losses.setups(quick=True)) <= 2
    assert all(setup.torch_compile for setup in losses.setups(quick=False))


def test_detection_covers_sizes_batches_and_dtypes():
    seen = {(d.task, d.height, d.width, d.batch, d.dtype) for d in (s.detector for s in detection.setups(quick=False))}
    tasks, sizes, dtypes = ("inference", "train step"), ((256, 256), (800, 1088)), ("float32", "bfloat16")
    assert seen == {(t, *size, batch, dtype) for t in tasks for size in sizes for batch in (1, 2) for dtype in dtypes}
