"""How the tests compile: quickly, since nearly all their time goes into compiling small programs, each run once.

The programs are the same; only the machine code is plainer. What is said of digits in float32, of fused programs or of
a compiled program itself is said of ``jit_as_usual``.
"""

import os
from collections.abc import Callable
from typing import Any

import jax

HAS_PLAIN_EMITTERS = jax.__version_info__ < (0, 11)  # a later XLA may not know the flag, and would end the process
USUAL = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
USUAL |= {"xla_cpu_use_fusion_emitters": True} if HAS_PLAIN_EMITTERS else {}


def quickly() -> None:
    """Must come before the first computation, when XLA reads its flags; processes that are started inherit them."""
    jax.config.update("jax_disable_most_optimizations", True)
    if HAS_PLAIN_EMITTERS:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_use_fusion_emitters=false".strip()


def jit_as_usual(function: Callable) -> Any:
    """``jax.jit`` with the optimizations that a program has outside the tests."""
    return jax.jit(function, compiler_options=USUAL)
