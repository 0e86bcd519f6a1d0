"""Providers of the value and gradient of a loss, all on the same logits and labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from . import _jax
from ._case import Case, Outputs, Program, Provider
from ._copies import copy_providers
from ._device import Device
from ._rows import Growth

LossMaker = Callable[[], Callable]
LEFT_OUT = "left out of this case: compiling would take most of the time of the run"


@dataclass(frozen=True)
class Competitors:
    """Makes the providers, and the case, of one loss of labels and of what it is differentiated by.

    Operands are given by the name of their gradient: ``{"gradient": logits}``. A PyTorch loss is handed over by a
    function that imports what it needs and returns the loss.
    """

    operands: Mapping[str, np.ndarray]
    labels: np.ndarray
    device: Device

    def in_jax(self, name: str, loss: Callable) -> Provider:
        return Provider(name, partial(_jax.loss_program, loss, self.operands, self.labels, self.device))

    def in_torch(self, name: str, make_loss: LossMaker) -> Provider:
        return Provider(name, partial(self._torch_program, make_loss))

    def under_torch_compile(self, name: str, make_loss: LossMaker, included: bool) -> Provider:
        build = partial(self._torch_program, make_loss, compiles=True)
        return Provider(name, build, skip=None if included else LEFT_OUT)

    def _torch_program(self, make_loss: LossMaker, *, compiles: bool = False) -> Program:
        from . import _torch

        return _torch.loss_program(make_loss(), self.operands, self.labels, self.device, compiles=compiles)

    def case(
        self,
        suite: str,
        name: str,
        providers: tuple[Provider, ...],
        reference: Callable[..., Outputs],
        *,
        growth: Growth | None = None,
        **keywords: Any,
    ) -> Case:
        """``reference(*operands, labels, **keywords)``. All of them must be read, and the gradients written."""
        bytes_moved = 2 * sum(x.nbytes for x in self.operands.values()) + self.labels.nbytes
        return Case(
            suite=suite,
            name=name,
            providers=providers,
            reference=partial(reference, *self.operands.values(), self.labels, **keywords),
            bytes_moved=bytes_moved,
            copies=copy_providers(bytes_moved, self.device),
            growth=growth,
        )


def from_torchref(name: str, **keywords: Any) -> LossMaker:
    """The loss of that name in torchref, with its keywords filled in."""

    def make_loss() -> Callable:
        import torchref

        return partial(getattr(torchref, name), **keywords)

    return make_loss
