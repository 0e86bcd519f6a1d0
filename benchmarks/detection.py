"""Suite ``detection``: RetinaNet beside torchvision's, eager, on the same weights.

Inference goes from normalised, padded images to boxes after suppression; resizing and copies to the device are in
neither. jaxfocal's is one compiled program. A train step is forward, losses, backward and SGD, BatchNorm in training,
and moves parameters in place in both.

In bfloat16 parameters, statistics of BatchNorm and losses are float32: jaxfocal's model has ``dtype=bfloat16``,
torchvision's runs under autocast.
"""

from dataclasses import dataclass, replace
from functools import cache, partial

from ._case import Case, Outputs, Program, Provider, Setup
from ._detector import Detector, Task
from ._device import Device
from ._timing import Effort

SUITE = "detection"
SIZES = ((256, 256), (800, 1088))
LARGE = 512 * 512  # pixels, from which float64 takes a minute, and a call on a CPU seconds
EFFORT = Effort(rounds=9, sample_seconds=0.05, most_seconds=8.0)
SLOW_EFFORT = Effort(rounds=9, sample_seconds=0.0, most_seconds=8.0, warm_up=False)


@dataclass(frozen=True)
class DetectionSetup:
    """A detector at work."""

    detector: Detector

    def case(self, device: Device) -> Case:
        d = self.detector
        large, training, on_cpu = d.height * d.width > LARGE, d.task == "train step", device.jax.platform == "cpu"
        return Case(
            suite=SUITE,
            name=f"RetinaNet, ResNet-{d.depth}, {d.task}, {d.batch} x {d.height} x {d.width} pixels, {d.dtype}",
            providers=(
                Provider("jaxfocal", partial(d.program, device)),
                Provider("torchvision", partial(_in_torchvision, d, device)),
            ),
            reference=dict if large else partial(_float64_outputs, replace(d, dtype="float32")),
            steps=1 if training else None,
            effort=SLOW_EFFORT if on_cpu and (large or training) else EFFORT,
        )


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    tasks: tuple[Task, ...] = ("inference", "train step")
    if quick:
        return [DetectionSetup(Detector(task, 128, 128, batch=1)) for task in tasks]
    return [
        DetectionSetup(Detector(task, *size, batch, dtype))
        for size in SIZES
        for task in tasks
        for batch in (1, 2)
        for dtype in ("float32", "bfloat16")
    ]


def _in_torchvision(detector: Detector, device: Device) -> Program:
    from ._detector_torch import program

    return program(detector, device)


@cache
def _float64_outputs(detector: Detector) -> Outputs:
    """torchvision's; none where that is not installed."""
    try:
        from ._detector_torch import float64_outputs
    except ImportError:
        return {}
    return float64_outputs(detector)
