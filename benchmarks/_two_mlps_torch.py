"""The two chained MLPs in PyTorch, trained by the step that people write."""

from functools import partial

import numpy as np

from ._case import Outputs, Program
from ._device import Device
from ._torch import Tensor, to_numpy, torch, torch_program
from ._two_mlps import GAMMA, LEARNING_RATE, TwoMLPs


def eager_loop(models: TwoMLPs, device: Device) -> Program:
    """``detach_step`` in a loop. Each call trains on from where the last one ended, as in-place steps do."""
    from torchref.losses import softmax_focal_loss
    from torchref.two_model import TwoModels as TwoTorchModels
    from torchref.two_model import detach_step

    mlps = {model: _mlp(p).to(device.torch) for model, p in models.params().items()}
    criterion = partial(softmax_focal_loss, gamma=GAMMA, reduction="mean")
    pair = TwoTorchModels(
        mlps["model1"],
        mlps["model2"],
        torch.optim.Adam(mlps["model1"].parameters(), lr=LEARNING_RATE),
        torch.optim.Adam(mlps["model2"].parameters(), lr=LEARNING_RATE),
        criterion,
        criterion,
    )
    x, y1, y2 = (torch.tensor(array, device=device.torch) for array in models.batches())
    batches = list(zip(x, y1.long(), y2.long(), strict=True))

    def run() -> list[tuple[Tensor, Tensor]]:
        return [detach_step(pair, *batch) for batch in batches]

    def outputs(losses: list[tuple[Tensor, Tensor]]) -> Outputs:
        values = np.stack([to_numpy(torch.stack(step)) for step in losses])
        return models.outputs(values, {model: _params(mlp) for model, mlp in mlps.items()})

    return torch_program(run, outputs, device)


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
