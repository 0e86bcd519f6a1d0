"""Suite ``softmax``: value and gradient together of the softmax focal loss, and of cross-entropy, which is gamma=0."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal

from ._case import Case, Provider, Setup
from ._device import Device
from ._loss_providers import Competitors, from_torchref
from ._reference import softmax_focal_mean
from ._rows import Growth

SUITE = "softmax"
COMPILED = "torchref, torch.compile"
COMPILED_TORCH = "torch cross_entropy, torch.compile"


@dataclass(frozen=True)
class SoftmaxSetup:
    """Mean focal loss of integer labels; with ``gamma=0`` it is cross-entropy, and both frameworks have their own."""

    rows: int
    classes: int
    gamma: float = 2.0
    torch_compile: bool = True
    suite: str = SUITE
    growth: Growth | None = None

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Logits among which that of the label stands out, as in training that is under way."""
        rng = np.random.default_rng(0)
        logits = rng.normal(0, 2.0, (self.rows, self.classes)).astype(np.float32)
        labels = rng.integers(0, self.classes, self.rows, dtype=np.int32)
        logits[np.arange(self.rows), labels] += np.float32(4.0)
        return logits, labels

    def case(self, device: Device) -> Case:
        logits, labels = self.data()
        make = Competitors({"gradient": logits}, labels, device)
        in_torchref = from_torchref("softmax_focal_loss", gamma=self.gamma, reduction="mean")
        providers = (
            make.in_jax("jaxfocal", partial(jaxfocal.softmax_focal_loss, gamma=self.gamma, reduction="mean")),
            *self._of_cross_entropy(make),
            make.in_torch("torchref", in_torchref),
            make.under_torch_compile(COMPILED, in_torchref, self.torch_compile),
        )
        name = f"softmax focal, {self.rows} rows x {self.classes} classes, gamma={self.gamma:g}"
        return make.case(self.suite, name, providers, softmax_focal_mean, growth=self.growth, gamma=self.gamma)

    def _of_cross_entropy(self, make: Competitors) -> tuple[Provider, ...]:
        if self.gamma != 0:
            return ()
        return (
            make.in_jax("optax cross-entropy", _optax_cross_entropy),
            make.in_torch("torch cross_entropy", _torch_cross_entropy),
            make.under_torch_compile(COMPILED_TORCH, _torch_cross_entropy, self.torch_compile),
        )


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    if quick:
        return [SoftmaxSetup(1024, 1000), SoftmaxSetup(1024, 1000, gamma=0.0, torch_compile=False)]
    shapes = ((200_000, 21), (8192, 1000), (1024, 50_257))
    return [SoftmaxSetup(*shape, gamma=gamma) for shape in shapes for gamma in (2.0, 0.0)]


def _optax_cross_entropy(x: Any, y: Any) -> Any:
    return jnp.mean(optax.losses.softmax_cross_entropy_with_integer_labels(x, y))


def _torch_cross_entropy() -> Callable:
    from torch.nn.functional import cross_entropy

    return lambda x, y: cross_entropy(x, y.long())
