"""The same models, optimizers and runs in PyTorch, from the same numpy weights."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from parity_tests.updates._two_model import ADAM, GAMMA1, GAMMA2
from torchref.losses import sigmoid_focal_loss, softmax_focal_loss
from torchref.two_model import TwoModels, gan_step

# Arrays this small gain nothing from threads, and waiting ones take the processor from the rest.
torch.set_num_threads(1)

TORCH: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, lr=1e-3, betas=(0.5, 0.999), eps=1e-8),
    "adamw": partial(torch.optim.AdamW, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    "sgd": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
}

Step = Callable[..., tuple[Tensor, Tensor]]


def module(layers: list[tuple[np.ndarray, np.ndarray]]) -> nn.Sequential:
    """Linear layers with tanh between them, holding copies of the weights."""
    linears = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight, linear.bias = (nn.Parameter(torch.tensor(array)) for array in (weight, bias))
        linears += [nn.Tanh(), linear]
    return nn.Sequential(*linears[1:])


def arrays(model: nn.Sequential) -> list[tuple[np.ndarray, np.ndarray]]:
    """The weights of a module in the form they were given."""
    linears = [layer for layer in model if isinstance(layer, nn.Linear)]
    return [tuple(p.detach().numpy().copy() for p in (linear.weight, linear.bias)) for linear in linears]


def two_models(
    params: dict[str, Any], optimizers: tuple[str, str] = ADAM, *, optimizer2_over_both: bool = False
) -> TwoModels:
    """The pair of the two-model programs; ``optimizers`` names that of model1 and that of model2."""
    model1, model2 = module(params["model1"]), module(params["model2"])
    moved_by_2 = chain(model1.parameters(), model2.parameters()) if optimizer2_over_both else model2.parameters()
    return TwoModels(
        model1,
        model2,
        TORCH[optimizers[0]](model1.parameters()),
        TORCH[optimizers[1]](moved_by_2),
        partial(softmax_focal_loss, gamma=GAMMA1, reduction="mean"),
        partial(softmax_focal_loss, gamma=GAMMA2, reduction="mean"),
    )


def tensors(batches: tuple[np.ndarray, ...]) -> list[tuple[Tensor, ...]]:
    return [tuple(map(torch.tensor, batch)) for batch in zip(*batches, strict=True)]


def run_pair(step: Step, pair: TwoModels, batches: tuple[np.ndarray, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A step a batch: the parameters at the end, and the losses of every step."""
    l1, l2 = zip(*(step(pair, *batch) for batch in tensors(batches)), strict=True)
    params = {"model1": arrays(pair.model1), "model2": arrays(pair.model2)}
    return params, {"l1": np.stack(l1), "l2": np.stack(l2)}


def run_gan(
    params: dict[str, Any], optimizers: tuple[str, str], batches: tuple[np.ndarray, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``gan_step`` a batch: the parameters at the end, and the losses of every step.

    ``optimizers`` names that of the generator and that of the discriminator.
    """
    generator, discriminator = module(params["generator"]), module(params["discriminator"])
    g_optimizer, d_optimizer = (
        TORCH[name](model.parameters()) for name, model in zip(optimizers, (generator, discriminator), strict=True)
    )
    criterion = partial(sigmoid_focal_loss, reduction="mean")
    losses = [
        gan_step(generator, discriminator, g_optimizer, d_optimizer, criterion, *batch) for batch in tensors(batches)
    ]
    g, d = zip(*losses, strict=True)
    params = {"generator": arrays(generator), "discriminator": arrays(discriminator)}
    return params, {"g": np.stack(g), "d": np.stack(d)}
