"""The gradient penalty of WGAN-GP, by ``create_graph``."""

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(
    critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, u: Tensor, *, target: float = 1.0
) -> Tensor:
    """``mean_i (||d critic(x)_i / d x_i||_2 - target)^2`` at ``x_i = u_i real_i + (1 - u_i) fake_i``.

    ``u`` has one number a row, shape (B,), drawn outside; ``real`` and ``fake`` are (B, ...).
    """
    u = u.reshape(-1, *[1] * (real.ndim - 1))
    x = u * real + (1 - u) * fake
    if not x.requires_grad:
        x.requires_grad_()
    (slopes,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return ((slopes.flatten(1).norm(dim=1) - target) ** 2).mean()
