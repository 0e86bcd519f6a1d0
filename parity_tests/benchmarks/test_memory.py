"""The growth of peak memory that is reported is that of the call."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import _memory
from benchmarks._memory import jax_device_growth, resident_growth

MB = 1_000_000
CAN_TELL = Path("/proc/self/clear_refs").exists()


@pytest.mark.skipif(not CAN_TELL, reason="the peak of a process can be reset on Linux only")
def test_resident_growth_sees_memory_that_the_call_gives_back():
    growth = resident_growth(lambda: np.ones(40 * MB, np.uint8).sum())
    assert growth == pytest.approx(40 * MB, abs=4 * MB)


@pytest.mark.skipif(not CAN_TELL, reason="the peak of a process can be reset on Linux only")
def test_resident_growth_does_not_see_memory_taken_before():
    before = np.ones(40 * MB, np.uint8)
    assert resident_growth(before.sum) < 4 * MB


def test_resident_growth_is_unknown_where_the_system_cannot_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(_memory, "_CLEAR_REFS", tmp_path / "missing")
    assert resident_growth(lambda: None) is None
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(_memory, "_CLEAR_REFS", tmp_path / "folder")  # writing to it is an OSError
    assert resident_growth(lambda: None) is None


class FakeDevice:
    """Counts as the allocator of a GPU does: a peak that never falls."""

    def __init__(self, in_use: int, peak: int):
        self.in_use, self.peak = in_use, peak

    def memory_stats(self) -> dict[str, int]:
        return {"bytes_in_use": self.in_use, "peak_bytes_in_use": self.peak}

    def take(self, num_bytes: int) -> None:
        self.in_use += num_bytes
        self.peak = max(self.peak, self.in_use)


@pytest.mark.parametrize("earlier_peak", [100, 500, 10_000])
def test_device_growth_shows_above_an_earlier_peak(monkeypatch, earlier_peak):
    device = FakeDevice(in_use=100, peak=earlier_peak)

    class Ballast:
        def __init__(self, num_bytes, dtype, device):
            device.take(num_bytes)
            self.give_back = lambda: device.take(-num_bytes)

        def block_until_ready(self):
            return self

        def delete(self):
            self.give_back()

    monkeypatch.setattr(_memory.jnp, "zeros", Ballast)

    def call():
        device.take(70)
        device.take(-70)

    assert jax_device_growth(call, device) == 70
    assert device.in_use == 100


def test_device_growth_is_unknown_where_the_device_does_not_count():
    class Silent:
        def memory_stats(self):
            return None

    assert jax_device_growth(lambda: None, Silent()) is None
