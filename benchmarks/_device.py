"""The device that both frameworks run on, and the same conditions for both."""

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import jax

import jaxfocal

from ._errors import UsageError
from ._rows import Environment

DeviceKind = Literal["cpu", "gpu"]
OPENMP_WAITING = "OMP_WAIT_POLICY"  # active: PyTorch's idle threads spin, on the CPUs that JAX runs on next
HUGE_PAGES = ", malloc with huge pages"  # after the name of a CPU
PEERS = ("jax", "jaxlib", "optax", "numpy", "torch", "torchvision")


@dataclass(frozen=True)
class Device:
    """One device under the names that JAX and PyTorch have for it."""

    jax: jax.Device
    torch: str


def choose_device(kind: DeviceKind) -> Device:
    """The first device of that kind; UsageError where a framework that is installed does not see one.

    Comes before the first use of either framework, which only then heeds how two of them are to share a machine.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault(OPENMP_WAITING, "passive")
    try:
        jax_device = jax.devices(kind)[0]
    except RuntimeError:
        hint = "; on a CUDA machine pip install 'jaxfocal[cuda]'" if kind == "gpu" else ""
        raise UsageError(f"--device {kind}: JAX sees no {kind.upper()} here{hint}") from None
    if kind == "gpu" and not _torch_could_use_gpu():
        raise UsageError("--device gpu: PyTorch sees no GPU here; install a CUDA build of torch, or none")
    return Device(jax_device, "cuda" if kind == "gpu" else "cpu")


def set_same_conditions() -> None:
    """Full float32 products, all schedulable CPUs and no compilation cache on disk, in both frameworks."""
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        import torch
    except ImportError:
        return
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(_schedulable_cpus())


def describe_environment(device: Device) -> Environment:
    """What goes into every row of a run that starts now."""
    name = _cpu_name() + _huge_pages() if device.jax.platform == "cpu" else device.jax.device_kind
    return Environment(
        device=f"{device.jax.platform}: {name}",
        versions={
            "python": platform.python_version(),
            "jaxfocal": jaxfocal.__version__,
            **{name: _version(name) for name in PEERS},
        },
        threads=_schedulable_cpus(),
        openmp_waiting=os.environ.get(OPENMP_WAITING, "default"),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        matmul_precision="highest (float32, no TF32)",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _huge_pages() -> str:
    """glibc reads its tunables as the process starts."""
    tunables = os.environ.get("GLIBC_TUNABLES", "").split(":")
    return HUGE_PAGES if {"glibc.malloc.hugetlb=1", "glibc.malloc.hugetlb=2"} & set(tunables) else ""


def _torch_could_use_gpu() -> bool:
    """True also where PyTorch is missing: its providers are then listed as missing."""
    try:
        import torch
    except ImportError:
        return True
    return torch.cuda.is_available()


def _schedulable_cpus() -> int:
    """As many as XLA takes; PyTorch alone would count cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
