"""Programs in JAX."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._case import Outputs, Program
from ._device import Device
from ._memory import jax_device_growth, resident_growth

Loss = Callable[..., jax.Array]


def jax_program(
    compiled: jax.stages.Wrapped,
    args: tuple[Any, ...],
    device: Device,
    *,
    run: Callable[[], Any] | None = None,
    outputs: Callable[[Any], Outputs] | None = None,
) -> Program:
    """A program that calls a jitted function: once with ``args``, its outputs named, unless told otherwise.

    It is called through ``jax.jit``, as users call it; ``temp_bytes``, later, finds it compiled.
    """

    def temp_bytes() -> int | None:
        analysis = compiled.lower(*args).compile().memory_analysis()
        return None if analysis is None else analysis.temp_size_in_bytes

    on_cpu = device.jax.platform == "cpu"
    return Program(
        run=run or partial(compiled, *args),
        wait=jax.block_until_ready,
        outputs=outputs or partial(jax.tree.map, np.asarray),
        peak_growth=resident_growth if on_cpu else partial(jax_device_growth, device=device.jax),
        temp_bytes=temp_bytes,
        compiles=True,
        in_order=not on_cpu,
    )


def loss_program(loss: Loss, operands: Mapping[str, np.ndarray], labels: np.ndarray, device: Device) -> Program:
    """Value and gradients of ``loss(*operands, labels)`` in one compiled function, named as the operands are."""
    names = tuple(operands)

    @jax.jit
    def value_and_gradients(labels: jax.Array, *operands: jax.Array) -> dict[str, jax.Array]:
        value, gradients = jax.value_and_grad(lambda operands: loss(*operands, labels))(operands)
        return {"value": value, **dict(zip(names, gradients, strict=True))}

    args = jax.device_put((labels, *operands.values()), device.jax)
    return jax_program(value_and_gradients, tuple(args), device)


def hvp_program(loss: Loss, logits: np.ndarray, direction: np.ndarray, labels: np.ndarray, device: Device) -> Program:
    """The product of the second derivative of ``loss(logits, labels)`` with a direction: the gradient's derivative."""

    @jax.jit
    def hvp(labels: jax.Array, x: jax.Array, v: jax.Array) -> dict[str, jax.Array]:
        return {"hvp": jax.jvp(jax.grad(lambda x: loss(x, labels)), (x,), (v,))[1]}

    return jax_program(hvp, tuple(jax.device_put((labels, logits, direction), device.jax)), device)


def copy_program(num_bytes: int, device: Device) -> Program:
    """A copy of ``num_bytes`` into memory that is there already: the output takes over the donated buffer."""
    source = jnp.zeros(num_bytes // 4, jnp.float32, device=device.jax)
    copy = jax.jit(lambda source, target: source, donate_argnums=1, keep_unused=True)
    target = jnp.zeros_like(source, device=device.jax)

    def run() -> jax.Array:
        nonlocal target
        target = copy(source, target)
        return target

    return jax_program(copy, (source, target), device, run=run)
