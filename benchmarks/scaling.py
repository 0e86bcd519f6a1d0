"""Suite ``scaling``: how time grows with elements, classes and players."""

from dataclasses import dataclass

import numpy as np

from ._case import Case, Setup
from ._chain import Chain
from ._device import Device
from ._loss_providers import Competitors
from ._reference import sigmoid_focal_sum
from ._rows import Growth
from .losses import COMPILED, SigmoidFocal
from .softmax import SoftmaxSetup
from .updates import chain_case

SUITE = "scaling"
ROWS = 256
PLAYERS = (1, 2, 4, 8)


@dataclass(frozen=True)
class ElementsSetup:
    """The summed sigmoid focal loss of so many elements, uint8 labels."""

    elements: int
    torch_compile: bool = True

    def case(self, device: Device) -> Case:
        rng = np.random.default_rng(0)
        logits = rng.standard_normal(self.elements, np.float32) * np.float32(3)
        labels = rng.integers(0, 2, self.elements, dtype=np.uint8)
        loss = SigmoidFocal()
        make = Competitors({"gradient": logits}, labels, device)
        providers = (
            make.in_jax("jaxfocal", loss.jaxfocal),
            make.in_torch("torchvision", loss.torchvision),
            make.under_torch_compile(COMPILED, loss.torchref, self.torch_compile),
        )
        growth = Growth("sigmoid focal", "elements", self.elements)
        name = f"sigmoid focal, {self.elements:,} elements"
        return make.case(SUITE, name, providers, sigmoid_focal_sum, growth=growth, **loss.curve)


@dataclass(frozen=True)
class PlayersSetup:
    """Steps of a chain of small MLPs."""

    players: int
    steps: int = 50

    def case(self, device: Device) -> Case:
        chain = Chain(players=self.players, batch=32, hidden=64, steps=self.steps)
        growth = Growth("one update step", "players", self.players)
        return chain_case(chain, device, suite=SUITE, growth=growth)


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    exponents, vocabularies, players = range(4, 9), (1000, 8192, 32_768, 131_072), PLAYERS
    if quick:
        exponents, vocabularies, players = range(4, 7), (1000, 8192), PLAYERS[:2]
    return [
        *(ElementsSetup(10**exponent, torch_compile=not quick) for exponent in exponents),
        *(
            SoftmaxSetup(
                ROWS,
                classes,
                torch_compile=not quick,
                suite=SUITE,
                growth=Growth(f"softmax focal, {ROWS} rows", "classes", classes),
            )
            for classes in vocabularies
        ),
        *(PlayersSetup(number) for number in players),
    ]
