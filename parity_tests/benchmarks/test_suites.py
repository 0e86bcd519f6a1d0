"""Every suite from end to end, tiny: who is measured is right, and who is not there is listed."""

import importlib.util
from dataclasses import replace

import pytest

from benchmarks import detection, linear, losses, memory, programs, scaling, segmentation, softmax, updates
from benchmarks._chain import Chain
from benchmarks._cli import SUITES
from benchmarks._detector import Detector
from benchmarks._device import choose_device
from benchmarks._harness import measure
from benchmarks._programs import Training
from benchmarks._timing import Effort

TINY = Effort(rounds=3, sample_seconds=0.0, most_seconds=0.0)
SETUPS = {
    "sigmoid, hard": losses.SigmoidSetup(64, "uint8", torch_compile=False),
    "sigmoid, soft": losses.SigmoidSetup(64, "float32", torch_compile=False),
    "second derivative": losses.CurvatureSetup(64),
    "softmax": softmax.SoftmaxSetup(8, 5, torch_compile=False),
    "cross-entropy": softmax.SoftmaxSetup(8, 5, gamma=0.0, torch_compile=False),
    "linear": linear.LinearSetup(16, 4, 10, torch_compile=False),
    "segmentation": segmentation.DiceSetup(1, 8, 3),
    "updates": updates.UpdatesSetup(Chain(batch=4, hidden=8, steps=3)),
    "updates of linear layers": updates.UpdatesSetup(replace(updates.TWO_LINEAR_LAYERS, steps=3)),
    "elements": scaling.ElementsSetup(100, torch_compile=False),
    "players": scaling.PlayersSetup(3, steps=3),
    **{
        kind: programs.ProgramSetup(Training(kind, batch=4, hidden=8, steps=3), torch_compile=False)
        for kind in programs.NAMES
    },
    "detect": detection.DetectionSetup(Detector("inference", 64, 96, batch=2, depth=18)),
    "train a detector": detection.DetectionSetup(Detector("train step", 64, 96, batch=2, depth=18)),
    "held": memory.HeldSetup(batch=4, hidden=8),
}
COMPILED = {losses.COMPILED, softmax.COMPILED, softmax.COMPILED_TORCH, linear.COMPILED, programs.COMPILED}
PEERS_IN_TORCH = ("torch", "PyTorch", "MONAI")


def installed(package):
    return importlib.util.find_spec(package) is not None


def expected_status(provider):
    if provider in COMPILED:
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
@pytest.mark.parametrize("name", ["sigmoid, hard", "second derivative", "cross-entropy", "updates"])
def test_without_torch(name, environment):
    """Those in JAX are left out here, which cannot tell the difference."""
    case = SETUPS[name].case(choose_device("cpu"))
    in_torch = tuple(p for p in case.providers if p.name.startswith(PEERS_IN_TORCH) and p.name not in COMPILED)
    rows = measure(replace(case, providers=in_torch, reference=dict), TINY, environment)
    assert [row.provider for row in rows] == [provider.name for provider in in_torch] != []
    reason = "PyTorch is not installed: pip install 'jaxfocal[torch]'"
    assert {(row.status, row.reason) for row in rows} == {("missing", reason)}


def test_bytes_moved_are_logits_labels_and_gradient():
    case = SETUPS["cross-entropy"].case(choose_device("cpu"))
    assert case.bytes_moved == 8 * 5 * 4 + 8 * 4 + 8 * 5 * 4


def test_quick_setups_compile_in_torch_twice_at_most():
    setups = [setup for suite in SUITES.values() for setup in suite(quick=True)]
    assert sum(getattr(setup, "torch_compile", False) for setup in setups) <= 2
    of_losses = [*losses.setups(quick=False), *softmax.setups(quick=False), *linear.setups(quick=False)]
    assert all(setup.torch_compile for setup in of_losses if not isinstance(setup, losses.CurvatureSetup))


def test_detection_covers_sizes_batches_and_dtypes():
    seen = {(d.task, d.height, d.width, d.batch, d.dtype) for d in (s.detector for s in detection.setups(quick=False))}
    tasks, sizes, dtypes = ("inference", "train step"), ((256, 256), (800, 1088)), ("float32", "bfloat16")
    assert seen == {(t, *size, batch, dtype) for t in tasks for size in sizes for batch in (1, 2) for dtype in dtypes}


def test_full_rows_cover_the_shapes_that_are_compared_in_public():
    sigmoid = [s for s in losses.setups(quick=False) if isinstance(s, losses.SigmoidSetup)]
    assert [(s.label_dtype, s.gamma, s.data()[0].shape) for s in sigmoid[:1]] == [("uint8", 2.0, (2, 120087, 80))]
    assert [(s.label_dtype, s.gamma) for s in sigmoid] == [("uint8", 2.0), ("float32", 1.5)]
    shapes = {(s.rows, s.classes, s.gamma) for s in softmax.setups(quick=False)}
    assert shapes == {(*shape, g) for shape in ((200_000, 21), (8192, 1000), (1024, 50_257)) for g in (0.0, 2.0)}
    assert linear.LinearSetup(4096, 768, 50_257) in linear.setups(quick=False)
    assert losses.CurvatureSetup(1_000_000) in losses.setups(quick=False)


@pytest.mark.parametrize("quick", [True, False])
def test_curves(quick):
    setups = scaling.setups(quick)
    elements = [s.elements for s in setups if isinstance(s, scaling.ElementsSetup)]
    classes = [s.classes for s in setups if isinstance(s, softmax.SoftmaxSetup)]
    players = [s.players for s in setups if isinstance(s, scaling.PlayersSetup)]
    assert elements == [10**n for n in range(4, 7 if quick else 9)]
    assert (classes[0], classes[-1]) == (1000, 8192 if quick else 131_072)
    assert players == ([1, 2] if quick else [1, 2, 4, 8])
