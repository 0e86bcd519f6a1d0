"""Suite ``updates``: steps of chained models, each with its own loss and its own Adam."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from jaxfocal import MultiUpdate, Player, multi_update, scan_updates, softmax_focal_loss

from ._case import Case, Outputs, Program, Provider, Setup
from ._chain import Chain, Params
from ._device import Device
from ._jax import jax_program
from ._rows import Growth

SUITE = "updates"
TWO_LINEAR_LAYERS = Chain(batch=16, steps=500, features=10, hidden=None, classes=2, gamma=0.0, b1=0.5)


@dataclass(frozen=True)
class UpdatesSetup:
    """Simultaneous updates of two chained models, a fresh batch each."""

    chain: Chain

    def case(self, device: Device) -> Case:
        return chain_case(self.chain, device)


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite."""
    if quick:
        return [UpdatesSetup(TWO_LINEAR_LAYERS), UpdatesSetup(Chain(batch=128, hidden=256, steps=50))]
    sizes = ((32, 64), (128, 256), (512, 1024))
    return [
        UpdatesSetup(TWO_LINEAR_LAYERS),
        *(UpdatesSetup(Chain(batch=batch, hidden=hidden, steps=100)) for batch, hidden in sizes),
    ]


def chain_case(chain: Chain, device: Device, *, suite: str = SUITE, growth: Growth | None = None) -> Case:
    """All three ways to train the chain."""
    return Case(
        suite=suite,
        name=chain_name(chain),
        providers=(
            Provider("jaxfocal, jitted loop", partial(jitted_loop, chain, device)),
            Provider("jaxfocal, scan_updates", partial(_scan, chain, device)),
            Provider("PyTorch, eager loop", partial(_torch_loop, chain, device)),
        ),
        reference=chain.float64_outputs,
        steps=chain.steps,
        growth=growth,
    )


def chain_name(chain: Chain) -> str:
    """Its sizes in words."""
    models = f"{chain.players} models" if chain.players > 1 else "1 model"
    if chain.hidden is None:
        return f"{models} of one linear layer, {chain.features} -> {chain.classes}, batch {chain.batch}"
    return f"{models} of two layers, {chain.features} -> {chain.hidden} -> {chain.classes}, batch {chain.batch}"


def _update(chain: Chain) -> MultiUpdate:
    def losses(params: Params, x: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
        return {
            model: softmax_focal_loss(a, labels[i], gamma=chain.gamma, reduction="mean")
            for i, (model, a) in enumerate(zip(chain.models, chain.logits(params, x), strict=True))
        }

    adam = optax.adam(chain.learning_rate, b1=chain.b1)
    return multi_update(losses, {model: Player(adam, loss=model, wrt=model) for model in chain.models})


def jitted_loop(chain: Chain, device: Device) -> Program:
    """A call of the compiled step a batch."""
    update = _update(chain)
    step = jax.jit(update.update)
    state = update.init(jax.device_put(chain.params(), device.jax))
    batches = [jax.device_put(batch, device.jax) for batch in zip(*chain.batches(), strict=True)]

    def run() -> tuple[Any, list[Any]]:
        current, losses = state, []
        for batch in batches:
            current, metrics = step(current, *batch)
            losses.append([metrics[model] for model in chain.models])
        return current.params, losses

    def outputs(returned: tuple[Any, list[Any]]) -> Outputs:
        params, losses = returned
        return chain.outputs(losses, params)

    return jax_program(step, (state, *batches[0]), device, run=run, outputs=outputs)


def _scan(chain: Chain, device: Device) -> Program:
    update = _update(chain)
    state = update.init(jax.device_put(chain.params(), device.jax))
    batches = jax.device_put(chain.batches(), device.jax)

    def outputs(returned: tuple[Any, dict[str, Any]]) -> Outputs:
        state, metrics = returned
        return chain.outputs(np.stack([metrics[model] for model in chain.models], axis=1), state.params)

    return jax_program(jax.jit(partial(scan_updates, update)), (state, *batches), device, outputs=outputs)


def _torch_loop(chain: Chain, device: Device) -> Program:
    from ._chain_torch import eager_loop

    return eager_loop(chain, device)
