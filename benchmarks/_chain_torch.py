"""The chained models in PyTorch, trained by the step that people write."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ._case import Outputs, Program
from ._chain import Chain, Layers
from ._device import Device
from ._saved import Saved
from ._torch import Tensor, to_numpy, torch, torch_program

Losses = tuple[Tensor, ...]


def eager_loop(chain: Chain, device: Device) -> Program:
    """A step a batch: each model forward on what the one before gave, detached, backward, its optimizer's step."""
    models, optimizers, criterion = _parts(chain, device)

    def step(x: Tensor, *labels: Tensor) -> Losses:
        losses = []
        for model, optimizer, y in zip(models.values(), optimizers, labels, strict=True):
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            x = logits.detach()
        return tuple(losses)

    return _loop(chain, device, models, step)


def two_model_loop(chain: Chain, device: Device, step: str) -> Program:
    """That step of ``torchref.two_model`` in a loop."""
    pair = _pair(chain, device)
    models = {"model1": pair.model1, "model2": pair.model2}
    return _loop(chain, device, models, partial(_step(step), pair))


def held_between_backwards(chain: Chain, device: Device, step: str) -> int:
    """Bytes of activations that autograd still holds when the first of the two backwards is done."""
    pair, batch = _pair(chain, device), _batches(chain, device)[0]
    saved = Saved(known=[*pair.model1.parameters(), *pair.model2.parameters(), *batch])
    held: list[int] = []
    pair.optimizer2.register_step_post_hook(lambda *_: held.append(saved.num_bytes()))
    with saved.watch():
        _step(step)(pair, *batch)
    return held[0]


def _loop(chain: Chain, device: Device, models: dict[str, torch.nn.Sequential], step: Callable[..., Losses]) -> Program:
    """Each call trains on from where the last one ended, as in-place steps do."""
    batches = _batches(chain, device)

    def run() -> list[Losses]:
        return [step(*batch) for batch in batches]

    def outputs(losses: list[Losses]) -> Outputs:
        values = np.stack([to_numpy(torch.stack(step)) for step in losses])
        return chain.outputs(values, {name: _layers(model) for name, model in models.items()})

    return torch_program(run, outputs, device)


def _step(name: str) -> Callable[..., Losses]:
    from torchref import two_model

    return getattr(two_model, name)


def _pair(chain: Chain, device: Device) -> Any:
    from torchref.two_model import TwoModels

    models, optimizers, criterion = _parts(chain, device)
    return TwoModels(*models.values(), *optimizers, criterion, criterion)


def _parts(chain: Chain, device: Device) -> tuple[dict[str, torch.nn.Sequential], list[torch.optim.Adam], Callable]:
    from torchref.losses import softmax_focal_loss

    models = {name: _mlp(layers).to(device.torch) for name, layers in chain.params().items()}
    adam = partial(torch.optim.Adam, lr=chain.learning_rate, betas=(chain.b1, 0.999))
    if chain.gamma == 0:
        criterion: Callable = torch.nn.functional.cross_entropy
    else:
        criterion = partial(softmax_focal_loss, gamma=chain.gamma, reduction="mean")
    return models, [adam(model.parameters()) for model in models.values()], criterion


def _batches(chain: Chain, device: Device) -> list[tuple[Tensor, ...]]:
    x, y = (torch.tensor(array, device=device.torch) for array in chain.batches())
    return [(x[i], *y[i].long()) for i in range(chain.steps)]


def _mlp(layers: Layers) -> torch.nn.Sequential:
    modules: list[torch.nn.Module] = []
    for weight, bias in layers:
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight.T))
            linear.bias.copy_(torch.tensor(bias))
        modules += [torch.nn.ReLU(), linear]
    return torch.nn.Sequential(*modules[1:])


def _layers(model: torch.nn.Sequential) -> Layers:
    return [(to_numpy(m.weight).T, to_numpy(m.bias)) for m in model if isinstance(m, torch.nn.Linear)]
