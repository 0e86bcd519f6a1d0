"""Programs for a GPU, compiled without one: XLA needs to know the device, not to have it.

What is read off is what the compiler decides: which kernels there are, and how many bytes each reads and writes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from parity_tests.compiling import USUAL

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_core: 233472  shared_memory_per_block_optin: 232448
  core_count: 132  fpus_per_core: 128  clock_rate_ghz: 1.98
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000  l2_cache_size: 52428800  device_memory_size: 150000000000
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H200"
"""
OPTIONS = {name: value for name, value in USUAL.items() if "cpu" not in name} | {"xla_gpu_autotune_level": 0}
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
NOT_RUN = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = (\([^=]*?\)|\S+) ([\w\-]+)\((.*?)\)")


@dataclass(frozen=True)
class Kernel:
    """One instruction of the entry computation, and the bytes of its operands and results."""

    operation: str
    bytes: int


@dataclass(frozen=True)
class GpuProgram:
    """A compiled program, sizes in bytes."""

    kernels: tuple[Kernel, ...]
    arguments: int
    results: int
    temporaries: int

    @property
    def moved(self) -> int:
        """What all kernels read and write; an operand is taken as read whole."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def at_least(self) -> int:
        """What any program must move: every argument in, every result out."""
        return self.arguments + self.results


def compile_for_gpu(function: Callable, *arguments: jax.ShapeDtypeStruct) -> GpuProgram:
    """The program of ``function`` for one H200."""
    topology = topologies.get_topology_desc(platform="cuda", topology_name="", target_config=H200, topology="1x1x1")
    there = NamedSharding(topologies.make_mesh(topology, (1,), ("device",)), PartitionSpec())
    placed = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=there) for x in arguments]
    lowered: Any = jax.jit(function).trace(*placed).lower(lowering_platforms=("cuda",))
    compiled = lowered.compile(compiler_options=OPTIONS)
    memory = compiled.memory_analysis()
    return GpuProgram(
        tuple(_kernels(compiled.as_text())),
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.temp_size_in_bytes,
    )


def _kernels(program: str) -> list[Kernel]:
    entry = program[program.index("\nENTRY") :]
    sizes: dict[str, int] = {}
    kernels = []
    for name, shape, operation, operands in INSTRUCTION.findall(entry):
        sizes[name] = _size(shape)
        if operation not in NOT_RUN:
            read = sum(sizes.get(operand.strip().lstrip("%"), 0) for operand in operands.split(","))
            kernels.append(Kernel(operation, sizes[name] + read))
    return kernels


def _size(shape: str) -> int:
    total = 0
    for dtype, dimensions in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        elements = 1
        for dimension in filter(None, dimensions.split(",")):
            elements *= int(dimension)
        total += BYTES[dtype] * elements
    return total
