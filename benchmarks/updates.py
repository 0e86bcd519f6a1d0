"""Suite ``updates``: the two-model step, each model with its own loss and its own Adam."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from jaxfocal import MultiUpdate, Player, multi_update, scan_updates, softmax_focal_loss

from ._case import Case, Outputs, Program, Provider, Setup
from ._device import Device
from ._jax import jax_program
from ._two_mlps import GAMMA, LEARNING_RATE, Params, TwoMLPs, logits

SUITE = "updates"


@dataclass(frozen=True)
class UpdatesSetup:
    """``steps`` simultaneous updates of two chained MLPs, a fresh batch each."""

    batch: int
    hidden: int
    steps: int

    def case(self, device: Device) -> Case:
        models = TwoMLPs(self.batch, self.hidden, self.steps)
        return Case(
            suite=SUITE,
            name=f"two MLPs, hidden width {self.hidden}, batch {self.batch}",
            providers=(
                Provider("jaxfocal, jitted loop", partial(jitted_loop, models, device)),
                Provider("jaxfocal, scan_updates", partial(_scan, models, device)),
                Provider("PyTorch, eager loop", partial(_torch_loop, models, device)),
            ),
            reference=models.float64_outputs,
            steps=self.steps,
        )


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite."""
    if quick:
        return [UpdatesSetup(batch=128, hidden=256, steps=50)]
    return [UpdatesSetup(batch, hidden, steps=100) for batch, hidden in ((32, 64), (128, 256), (512, 1024))]


def _update() -> MultiUpdate:
    def losses(params: Params, x: jax.Array, y1: jax.Array, y2: jax.Array) -> dict[str, jax.Array]:
        a, b = logits(params, x)
        return {
            "l1": softmax_focal_loss(a, y1, gamma=GAMMA, reduction="mean"),
            "l2": softmax_focal_loss(b, y2, gamma=GAMMA, reduction="mean"),
        }

    adam = optax.adam(LEARNING_RATE)
    return multi_update(
        losses, {"2": Player(adam, loss="l2", wrt="model2"), "1": Player(adam, loss="l1", wrt="model1")}
    )


def jitted_loop(models: TwoMLPs, device: Device) -> Program:
    """A call of the compiled step a batch."""
    update = _update()
    step = jax.jit(update.update)
    state = update.init(jax.device_put(models.params(), device.jax))
    batches = [jax.device_put(batch, device.jax) for batch in zip(*models.batches(), strict=True)]

    def run() -> tuple[Any, list[Any]]:
        current, losses = state, []
        for batch in batches:
            current, metrics = step(current, *batch)
            losses.append((metrics["l1"], metrics["l2"]))
        return current.params, losses

    def outputs(returned: tuple[Any, list[Any]]) -> Outputs:
        params, losses = returned
        return models.outputs(losses, params)

    return jax_program(step, (state, *batches[0]), device, run=run, outputs=outputs)


def _scan(models: TwoMLPs, device: Device) -> Program:
    update = _update()
    state = update.init(jax.device_put(models.params(), device.jax))
    batches = jax.device_put(models.batches(), device.jax)

    def outputs(returned: tuple[Any, dict[str, Any]]) -> Outputs:
        state, metrics = returned
        return models.outputs(np.stack([metrics["l1"], metrics["l2"]], axis=1), state.params)

    return jax_program(jax.jit(partial(scan_updates, update)), (state, *batches), device, outputs=outputs)


def _torch_loop(models: TwoMLPs, device: Device) -> Program:
    from ._two_mlps_torch import eager_loop

    return eager_loop(models, device)
