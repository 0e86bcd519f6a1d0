"""What the harness is given: a case, and the providers that compete in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ._device import Device
from ._rows import Growth
from ._timing import Effort

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Program:
    """Something to run again and again, its inputs on the device already.

    Attributes:
      run: starts one call; what it returns may not be ready yet.
      wait: blocks until what ``run`` returned is ready.
      outputs: the named outputs of what ``run`` returned, on the host.
      peak_growth: calls its argument and says by how many bytes that raised the peak memory.
      temp_bytes: scratch memory as the compiler states it.
      compiles: whether the first call compiles.
      in_order: whether the device runs calls in the order in which they are started, the last one of all last.
    """

    run: Callable[[], Any]
    wait: Callable[[Any], Any]
    outputs: Callable[[Any], Outputs]
    peak_growth: Callable[[Callable[[], Any]], int | None]
    temp_bytes: Callable[[], int | None] = lambda: None
    compiles: bool = False
    in_order: bool = False

    def call(self) -> Any:
        """Run, and wait until the outputs are ready."""
        returned = self.run()
        self.wait(returned)
        return returned

    def repeat(self, number: int) -> None:
        """That many calls, and the outputs of all of them ready; those of a device in order follow without a gap."""
        for _ in range(number - 1):
            if self.in_order:
                self.run()
            else:
                self.call()
        self.call()


@dataclass(frozen=True)
class Provider:
    """A competitor. ``build`` raises ImportError where its package is missing; ``skip`` says why it is left out."""

    name: str
    build: Callable[[], Program]
    skip: str | None = None


@dataclass(frozen=True)
class Case:
    """One computation and all who provide it.

    Attributes:
      reference: the outputs in float64.
      bytes_moved: inputs read and outputs written, each once; None where the work is not bound by memory.
      copies: providers of a copy that moves as many bytes.
      steps: how many training steps one call makes, if it makes any.
      effort: how long to measure; None: as the command says.
      growth: which curve the case is a point of, if it is of one.
    """

    suite: str
    name: str
    providers: tuple[Provider, ...]
    reference: Callable[[], Outputs]
    bytes_moved: int | None = None
    copies: tuple[Provider, ...] = ()
    steps: int | None = None
    effort: Effort | None = None
    growth: Growth | None = None


class Setup(Protocol):
    """Describes a case without holding its data."""

    def case(self, device: Device) -> Case:
        """Make the data and the providers."""
        ...
