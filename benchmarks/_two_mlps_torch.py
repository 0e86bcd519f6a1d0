"""The two chained MLPs in PyTorch, trained by the step that people write."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._case import Outputs, Program
from ._device import Device
from ._saved import Saved
from ._torch import Tensor, to_numpy, torch, torch_program
from ._two_mlps import GAMMA, LEARNING_RATE, TwoMLPs


def eager_loop(models: TwoMLPs, device: Device, *, step: str = "detach_step") -> Program:
    """That step of ``torchref.two_model`` in a loop; each call trains on from where the last one ended."""
    pair, batches = _pair(models, device), _batches(models, device)
    take = _step(step)

    def run() -> list[tuple[Tensor, Tensor]]:
        return [take(pair, *batch) for batch in batches]

    def outputs(losses: list[tuple[Tensor, Tensor]]) -> Outputs:
        values = np.stack([to_numpy(torch.stack(step)) for step in losses])
        return models.outputs(values, {"model1": _params(pair.model1), "model2": _params(pair.model2)})

    return torch_program(run, outputs, device)


def held_between_backwards(models: TwoMLPs, device: Device, step: str) -> int:
    """Bytes of activations that autograd still holds when the first of the two backwards is done."""
    pair, batch = _pair(models, device), _batches(models, device)[0]
    saved = Saved(known=[*pair.model1.parameters(), *pair.model2.parameters(), *batch])
    held: list[int] = []
    pair.optimizer2.register_step_post_hook(lambda *_: held.append(saved.num_bytes()))
    with saved.watch():
        _step(step)(pair, *batch)
    return held[0]


def _step(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    from torchref import two_model

    return getattr(two_model, name)


def _pair(models: TwoMLPs, device: Device) -> Any:
    from torchref.losses import softmax_focal_loss
    from torchref.two_model import TwoModels as TwoTorchModels

    mlps = {model: _mlp(p).to(device.torch) for model, p in models.params().items()}
    optimizers = {model: torch.optim.Adam(mlp.parameters(), lr=LEARNING_RATE) for model, mlp in mlps.items()}
    criterion = partial(softmax_focal_loss, gamma=GAMMA, reduction="mean")
    return TwoTorchModels(
        mlps["model1"], mlps["model2"], optimizers["model1"], optimizers["model2"], criterion, criterion
    )


def _batches(models: TwoMLPs, device: Device) -> list[tuple[Tensor, ...]]:
    x, y1, y2 = (torch.tensor(array, device=device.torch) for array in models.batches())
    return list(zip(x, y1.long(), y2.long(), strict=True))


def _mlp(p: dict[str, np.ndarray]) -> torch.nn.Sequential:
    first, second = (torch.nn.Linear(*p[w].shape) for w in ("w1", "w2"))
    with torch.no_grad():
        for layer, weight, bias in ((first, "w1", "b1"), (second, "w2", "b2")):
            layer.weight.copy_(torch.tensor(p[weight].T))
            layer.bias.copy_(torch.tensor(p[bias]))
    return torch.nn.Sequential(first, torch.nn.ReLU(), second)


def _params(mlp: torch.nn.Sequential) -> dict[str, np.ndarray]:
    w1, b1, w2, b2 = (to_numpy(parameter) for parameter in mlp.parameters())
    return {"w1": w1.T, "b1": b1, "w2": w2.T, "b2": b2}
