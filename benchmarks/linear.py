"""Suite ``linear``: value and gradients of a large-vocabulary head, product and loss together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import jaxfocal

from ._case import Case, Setup
from ._device import Device
from ._loss_providers import Competitors
from ._reference import linear_softmax_focal_mean

SUITE = "linear"
GAMMA = 2.0
COMPILED = "PyTorch, logits held, torch.compile"


@dataclass(frozen=True)
class LinearSetup:
    """Mean focal loss of ``rows`` hidden states of width ``width`` over ``classes`` words."""

    rows: int
    width: int
    classes: int
    torch_compile: bool = True

    def data(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Hidden states and a kernel that make logits of about unit size."""
        rng = np.random.default_rng(0)
        hidden = rng.normal(0, 1.0, (self.rows, self.width)).astype(np.float32)
        kernel = rng.normal(0, self.width**-0.5, (self.width, self.classes)).astype(np.float32)
        labels = rng.integers(0, self.classes, self.rows, dtype=np.int32)
        return {"hidden gradient": hidden, "kernel gradient": kernel}, labels

    def case(self, device: Device) -> Case:
        make = Competitors(*self.data(), device)
        providers = (
            make.in_jax("jaxfocal", partial(jaxfocal.linear_softmax_focal_loss, gamma=GAMMA, reduction="mean")),
            make.in_jax("JAX, logits held", _held),
            make.in_torch("PyTorch, logits held", _held_in_torch),
            make.under_torch_compile(COMPILED, _held_in_torch, self.torch_compile),
        )
        name = f"linear focal, {self.rows} rows x {self.width} wide x {self.classes} classes"
        return make.case(SUITE, name, providers, linear_softmax_focal_mean, gamma=GAMMA)


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    if quick:
        return [LinearSetup(1024, 128, 8192, torch_compile=False)]
    return [LinearSetup(1024, 128, 8192), LinearSetup(4096, 768, 50_257)]


def _held(hidden: Any, kernel: Any, labels: Any) -> Any:
    return jaxfocal.softmax_focal_loss(hidden @ kernel, labels, gamma=GAMMA, reduction="mean")


def _held_in_torch() -> Callable:
    import torchref

    return partial(torchref.linear_softmax_focal_loss, gamma=GAMMA, reduction="mean")
