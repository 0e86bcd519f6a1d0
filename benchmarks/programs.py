"""Suite ``programs``: training programs of several models."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from jaxfocal import scan_updates

from ._case import Case, Outputs, Program, Provider, Setup
from ._device import Device
from ._jax import jax_program
from ._loss_providers import LEFT_OUT
from ._programs import Training

SUITE = "programs"
COMPILED = "PyTorch, torch.compile"
NAMES = {
    "gan": "GAN, alternating",
    "wgan-gp": "WGAN-GP, 5 critic steps",
    "actor-critic": "actor-critic, shared trunk",
    "td3": "TD3, actor every second step",
}


@dataclass(frozen=True)
class ProgramSetup:
    """The steps of one training program."""

    training: Training
    torch_compile: bool = True

    def case(self, device: Device) -> Case:
        training = self.training
        return Case(
            suite=SUITE,
            name=f"{NAMES[training.kind]}, hidden width {training.hidden}, batch {training.batch}",
            providers=(
                Provider("jaxfocal, jitted loop", partial(_jitted_loop, training, device)),
                Provider("jaxfocal, scan_updates", partial(_scan, training, device)),
                Provider("PyTorch, eager loop", partial(_torch_loop, training, device, compiles=False)),
                Provider(
                    COMPILED,
                    partial(_torch_loop, training, device, compiles=True),
                    skip=None if self.torch_compile and device.jax.platform == "cpu" else LEFT_OUT,
                ),
            ),
            reference=training.float64_outputs,
            steps=training.steps,
        )


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite."""
    if quick:
        return [ProgramSetup(Training(kind, batch=64, hidden=128, steps=20), torch_compile=False) for kind in NAMES]
    return [
        ProgramSetup(Training(kind, batch, hidden, steps), torch_compile=hidden == SIZES[0][1])
        for kind in NAMES
        for batch, hidden, steps in SIZES
    ]


SIZES = ((64, 128, 100), (256, 512, 20))  # batch, hidden width, steps


def _jitted_loop(training: Training, device: Device) -> Program:
    update = training.update()
    step = jax.jit(update.update)
    state = update.init(jax.device_put(training.nets(), device.jax))
    stacked = training.batches()
    batches = [
        jax.device_put(jax.tree.map(lambda array, i=i: array[i], stacked), device.jax) for i in range(training.steps)
    ]

    def run() -> Any:
        current = state
        for batch in batches:
            current, _ = step(current, batch)
        return current.params

    return jax_program(step, (state, batches[0]), device, run=run, outputs=training.outputs)


def _scan(training: Training, device: Device) -> Program:
    update = training.update()
    state = update.init(jax.device_put(training.nets(), device.jax))
    batches = jax.device_put(training.batches(), device.jax)

    def outputs(returned: tuple[Any, Any]) -> Outputs:
        return training.outputs(returned[0].params)

    return jax_program(jax.jit(partial(scan_updates, update)), (state, batches), device, outputs=outputs)


def _torch_loop(training: Training, device: Device, *, compiles: bool) -> Program:
    from ._programs_torch import loop

    return loop(training, device, compiles=compiles)
