"""Programs in PyTorch. Importing this module raises ImportError where PyTorch is missing."""

import atexit
import os
from collections.abc import Callable, Mapping
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ._case import Outputs, Program
from ._device import Device
from ._memory import resident_growth

try:
    import torch
    from torch import Tensor
except ImportError:
    raise ImportError("PyTorch is not installed: pip install 'jaxfocal[torch]'") from None

Loss = Callable[..., Tensor]
MOST_VARIANTS = 250  # of one function, one a shape; PyTorch would run the ninth eagerly


def torch_program(
    run: Callable[[], Any], outputs: Callable[[Any], Outputs], device: Device, *, compiles: bool = False
) -> Program:
    """A program that calls ``run`` and, on a GPU, waits for the device."""
    on_cpu = device.torch == "cpu"
    return Program(
        run=run,
        wait=(lambda returned: None) if on_cpu else (lambda returned: torch.cuda.synchronize()),
        outputs=outputs,
        peak_growth=resident_growth if on_cpu else _cuda_growth,
        compiles=compiles,
        in_order=not on_cpu,
    )


def loss_program(
    loss: Loss, operands: Mapping[str, np.ndarray], labels: np.ndarray, device: Device, *, compiles: bool = False
) -> Program:
    """Value and gradients of ``loss(*operands, labels)`` by autograd, eager or under ``torch.compile``."""
    xs = [torch.tensor(x, device=device.torch, requires_grad=True) for x in operands.values()]
    y = torch.tensor(labels, device=device.torch)
    if compiles:
        warm_up_compiler(device.torch)
        loss = torch.compile(loss, dynamic=False)

    def run() -> dict[str, Tensor]:
        value = loss(*xs, y)
        return {"value": value, **dict(zip(operands, torch.autograd.grad(value, xs), strict=True))}

    def outputs(returned: dict[str, Tensor]) -> Outputs:
        return {name: to_numpy(tensor) for name, tensor in returned.items()}

    return torch_program(run, outputs, device, compiles=compiles)


def hvp_program(loss: Loss, logits: np.ndarray, direction: np.ndarray, labels: np.ndarray, device: Device) -> Program:
    """The product of the second derivative of ``loss(logits, labels)`` with a direction, by double backward."""
    x = torch.tensor(logits, device=device.torch, requires_grad=True)
    v, y = (torch.tensor(array, device=device.torch) for array in (direction, labels))

    def run() -> Tensor:
        (gradient,) = torch.autograd.grad(loss(x, y), x, create_graph=True)
        return torch.autograd.grad(gradient, x, v)[0]

    return torch_program(run, lambda hvp: {"hvp": to_numpy(hvp)}, device)


def copy_program(num_bytes: int, device: Device) -> Program:
    """A copy of ``num_bytes`` into memory that is there already."""
    source = torch.zeros(num_bytes // 4, device=device.torch)
    target = torch.zeros_like(source)
    return torch_program(lambda: target.copy_(source), lambda copied: {"copy": to_numpy(copied)}, device)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """A copy on the host."""
    return tensor.detach().to("cpu", copy=True).numpy()


@cache
def warm_up_compiler(device: str) -> None:
    """Start the toolchain with a trivial program, on an empty cache: compile times are then those of the losses.

    Whatever comes later is compiled, however many shapes a function has seen.
    """
    folder = TemporaryDirectory(prefix="benchmarks-inductor-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name
    torch._dynamo.config.recompile_limit = MOST_VARIANTS
    x = torch.ones(8, device=device, requires_grad=True)
    torch.compile(lambda x: x.sin().sum())(x).backward()


def _cuda_growth(call: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return torch.cuda.max_memory_allocated() - before
