"""Suite ``memory``: what a step of two models needs at once; what all others need stands in their rows."""

from dataclasses import dataclass, replace
from functools import partial

from ._case import Case, Program, Provider, Setup
from ._chain import Chain
from ._device import Device
from .updates import chain_name, jitted_loop

SUITE = "memory"


@dataclass(frozen=True)
class HeldSetup:
    """The scratch memory of one step; PyTorch's is what autograd holds between the two backwards."""

    batch: int
    hidden: int

    def case(self, device: Device) -> Case:
        chain = Chain(batch=self.batch, hidden=self.hidden, steps=1)
        return Case(
            suite=SUITE,
            name=f"scratch, or held between the backwards: {chain_name(chain)}",
            providers=(
                Provider("jaxfocal, jitted loop", partial(jitted_loop, chain, device)),
                Provider("PyTorch, retain_graph", partial(_torch_held, chain, device, "retain_step")),
                Provider("PyTorch, detach", partial(_torch_held, chain, device, "detach_step")),
            ),
            reference=chain.float64_outputs,
            steps=1,
        )


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite."""
    return [HeldSetup(128, 256)] if quick else [HeldSetup(128, 256), HeldSetup(512, 1024)]


def _torch_held(chain: Chain, device: Device, step: str) -> Program:
    from ._chain_torch import held_between_backwards, two_model_loop

    program = two_model_loop(chain, device, step)
    return replace(program, temp_bytes=partial(held_between_backwards, chain, device, step))
