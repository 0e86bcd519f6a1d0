"""A clock that only programs move, cases made of such programs, and a world without PyTorch."""

import sys
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder

import numpy as np
import pytest

import benchmarks
from benchmarks import _timing
from benchmarks._case import Case, Program, Provider
from benchmarks._rows import Environment


class FakeClock:
    """Stands still until ``take`` is called."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def take(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(autouse=True)
def _no_call_is_long(monkeypatch):
    """On the fake clock calls take seconds, and are measured as those of milliseconds are."""
    monkeypatch.setattr(_timing, "LONG_SECONDS", np.inf)


@pytest.fixture
def environment() -> Environment:
    return Environment(
        device="cpu: abacus",
        versions={"jax": "1", "torch": "not installed"},
        threads=2,
        openmp_waiting="passive",
        load=0.5,
        matmul_precision="highest",
        date="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture
def fake_program(clock) -> Callable[..., Program]:
    """Makes programs whose calls take the given seconds one after the other, the last of them for ever."""

    def make(seconds: Iterable[float], gradient: Iterable[float] = (1.0, 2.0), **keywords) -> Program:
        *first, last = seconds
        coming = iter(first)
        return Program(
            run=lambda: np.array(gradient),
            wait=lambda returned: clock.take(next(coming, last)),
            outputs=lambda returned: {"value": np.sum(returned), "gradient": returned},
            peak_growth=lambda call: 1000,
            **keywords,
        )

    return make


@pytest.fixture
def fake_case() -> Callable[..., Case]:
    """Makes cases whose right gradient is (1, 2)."""

    def make(*providers: Provider, name: str = "case", **keywords) -> Case:
        return Case(
            suite="losses",
            name=name,
            providers=providers,
            reference=lambda: {"value": np.float64(3), "gradient": np.array([1.0, 2.0])},
            **keywords,
        )

    return make


class _Hidden(MetaPathFinder):
    """Finds no PyTorch."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision"):
            raise ModuleNotFoundError(f"No module named {name!r}")


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [_Hidden(), *sys.meta_path])
    for name in ("torch", "torchvision", "torchref", "torchref.losses", "torchref.two_model"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("_torch", "_chain_torch"):
        monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
        monkeypatch.delattr(benchmarks, name, raising=False)
