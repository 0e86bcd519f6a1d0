"""How far one call raises the peak memory: of the process on the CPU, of the allocator on a GPU."""

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_ATTEMPTS = 3
_ENOUGH_SECONDS = 2.0  # after which no further attempt is made
_BACKGROUND_FREES_SECONDS = 0.05  # XLA frees after the outputs are ready
_RESET_PEAK = "5"  # proc_pid_clear_refs(5): VmHWM becomes the resident size of now

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
_MMAP_EARLY = 64 * 1024
_MMAP_USUAL = 32 * 1024**2  # where glibc's own threshold ends up in a process that frees large arrays


def resident_growth(call: Callable[[], Any]) -> int | None:
    """Growth of the peak resident memory of this process over one call; None where the system cannot tell.

    The smallest of a few attempts: a fragmented heap can only add to what the call needs.
    """
    if not _CLEAR_REFS.exists():
        return None
    gc.collect()
    try:
        with _nothing_kept_by_the_heap() as give_back:
            begin = time.perf_counter()
            growths = [_growth_once(call, give_back)]
            while len(growths) < _ATTEMPTS and time.perf_counter() - begin < _ENOUGH_SECONDS:
                growths.append(_growth_once(call, give_back))
            return min(growths)
    except OSError:
        return None


def jax_device_growth(call: Callable[[], Any], device: jax.Device) -> int | None:
    """Growth of the peak of JAX's allocator over one call; None where the device does not count.

    That peak cannot be reset. Ballast raises what is in use to the old peak, so that the call shows above it.
    """
    gc.collect()
    stats = device.memory_stats()
    if stats is None or "peak_bytes_in_use" not in stats:
        return None
    ballast_bytes = stats["peak_bytes_in_use"] - stats["bytes_in_use"]
    ballast = jnp.zeros(ballast_bytes, jnp.uint8, device=device).block_until_ready()
    before = device.memory_stats()["bytes_in_use"]
    call()
    growth = device.memory_stats()["peak_bytes_in_use"] - before
    ballast.delete()
    return max(growth, 0)


def _growth_once(call: Callable[[], Any], give_back: Callable[[], Any]) -> int:
    call()
    time.sleep(_BACKGROUND_FREES_SECONDS)
    give_back()
    _CLEAR_REFS.write_text(_RESET_PEAK)
    before = _peak_resident_bytes()
    call()
    return _peak_resident_bytes() - before


@contextmanager
def _nothing_kept_by_the_heap() -> Iterator[Callable[[], Any]]:
    """Freed memory goes back to the system; otherwise what glibc keeps would hide what a call takes."""
    libc = ctypes.CDLL(None)
    if not (hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim")):
        yield lambda: None
        return
    libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_EARLY)
    libc.mallopt(_M_TRIM_THRESHOLD, 0)
    try:
        yield lambda: libc.malloc_trim(0)
    finally:
        libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_USUAL)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _MMAP_USUAL)


def _peak_resident_bytes() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("no VmHWM in /proc/self/status")
