"""The yardstick of memory-bound work: a copy that moves as many bytes, by each framework."""

from ._case import Program, Provider
from ._device import Device


def copy_providers(bytes_moved: int, device: Device) -> tuple[Provider, ...]:
    """Copies of half as many bytes: half of ``bytes_moved`` is read, half written."""

    def by_jax() -> Program:
        from . import _jax

        return _jax.copy_program(bytes_moved // 2, device)

    def by_torch() -> Program:
        from . import _torch

        return _torch.copy_program(bytes_moved // 2, device)

    return Provider("JAX copy", by_jax), Provider("PyTorch copy", by_torch)
