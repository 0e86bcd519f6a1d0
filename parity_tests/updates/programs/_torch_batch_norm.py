"""``torch.nn.BatchNorm`` from and to the arrays of ``_batch_norm``."""

import numpy as np
import torch
from torch import nn

from parity_tests.updates.programs._batch_norm import EPS, MOMENTUM

Norm = nn.BatchNorm1d | nn.BatchNorm2d


def norm_module(params: dict[str, np.ndarray], kind: type[Norm] = nn.BatchNorm1d) -> Norm:
    norm = kind(len(params["scale"]), eps=EPS, momentum=MOMENTUM, dtype=torch.float64)
    norm.weight, norm.bias = (nn.Parameter(torch.tensor(params[name])) for name in ("scale", "bias"))
    return norm


def norm_arrays(norm: Norm) -> dict[str, np.ndarray]:
    return {"scale": norm.weight.detach().numpy(), "bias": norm.bias.detach().numpy()}


def statistics(norm: Norm) -> dict[str, np.ndarray]:
    return {"mean": norm.running_mean.numpy(), "var": norm.running_var.numpy()}
