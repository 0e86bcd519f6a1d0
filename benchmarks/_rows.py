"""What one measurement says, as dataclasses that go to JSON and back. Reports and plots are made from these alone."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

Status = Literal["measured", "missing", "failed", "skipped"]


@dataclass(frozen=True)
class Quartiles:
    """The lower quartile, the median and the upper quartile."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float] | np.ndarray) -> "Quartiles":
        return cls(*(float(q) for q in np.percentile(samples, (25, 50, 75))))


@dataclass(frozen=True)
class Environment:
    """Where, when and with what a row was measured.

    Attributes:
      device: its kind and model.
      versions: by package.
      threads: of each framework on the CPU.
      openmp_waiting: how PyTorch's idle CPU threads wait, OMP_WAIT_POLICY.
      load: how many processes of the whole machine wanted to run, on average of the minute before; None if not known.
      matmul_precision: in both frameworks.
      date: UTC, ISO 8601.
    """

    device: str
    versions: dict[str, str]
    threads: int
    openmp_waiting: str
    load: float | None
    matmul_precision: str
    date: str


@dataclass(frozen=True)
class Traffic:
    """The bytes that a call cannot avoid moving, and how near it comes to a copy of as many bytes.

    Attributes:
      bytes_moved: inputs read and outputs written, each once.
      bytes_per_second: at the median time of a call.
      copy_bytes_per_second: of the fastest copy in the same run, which also moves ``bytes_moved`` (half read, half
        written) into memory that is there already.
      copy_by: whose copy that is.
      copy_fraction: the median over the rounds of (time of the copy) / (time of the call).
    """

    bytes_moved: int
    bytes_per_second: float
    copy_bytes_per_second: float
    copy_by: str
    copy_fraction: float


@dataclass(frozen=True)
class Error:
    """How far an output is from the float64 computation; None where it is not finite.

    Attributes:
      overall: the Euclidean norm of the error over that of the right values.
      elementwise: the largest relative error of one element, among those that float32 can hold as normal numbers.
    """

    overall: float | None
    elementwise: float | None


@dataclass(frozen=True)
class Measurement:
    """The numbers of a row.

    Attributes:
      seconds: of one call, outputs ready.
      rounds: how many samples the quartiles are taken of.
      steps: how many training steps one call makes; None where it makes none.
      time_over: for every other provider, the median over the rounds of (time of this one) / (time of that one).
      compile_seconds: the first call less a later one; None where nothing is compiled.
      temp_bytes: scratch memory of the compiled executable, as XLA states it.
      peak_growth_bytes: how far one call raises the peak memory, outputs included; None where it cannot be told.
      errors: by output.
      traffic: None where the work is not bound by memory.
    """

    seconds: Quartiles
    rounds: int
    steps: int | None
    time_over: dict[str, float]
    compile_seconds: float | None
    temp_bytes: int | None
    peak_growth_bytes: int | None
    errors: dict[str, Error]
    traffic: Traffic | None

    def time_relative_to(self, provider: str) -> float:
        """``time_over`` that provider; 1 for the one that was measured itself."""
        return self.time_over.get(provider, 1.0)

    @property
    def steps_per_second(self) -> Quartiles | None:
        """None where a call makes no steps."""
        if self.steps is None:
            return None
        return Quartiles(
            self.steps / self.seconds.high, self.steps / self.seconds.median, self.steps / self.seconds.low
        )


@dataclass(frozen=True)
class Growth:
    """A point of a curve.

    Attributes:
      of: whose time grows.
      against: what it grows with.
      size: where this point is.
    """

    of: str
    against: str
    size: int


@dataclass(frozen=True)
class Row:
    """One provider in one case: measured, or the reason why not."""

    suite: str
    case: str
    provider: str
    status: Status
    environment: Environment
    reason: str | None = None
    measurement: Measurement | None = None
    growth: Growth | None = None


def measured(rows: Sequence[Row]) -> list[tuple[Row, Measurement]]:
    """The rows that have numbers, with their numbers."""
    return [(row, row.measurement) for row in rows if row.measurement is not None]


def is_ours(row: Row) -> bool:
    """Whether it is a way to compute with jaxfocal."""
    return row.provider.startswith("jaxfocal")


def rows_to_json(rows: Sequence[Row]) -> str:
    """Strict JSON: a list of rows."""
    return json.dumps([asdict(row) for row in rows], indent=1, allow_nan=False) + "\n"


def rows_from_json(text: str) -> list[Row]:
    """The inverse of ``rows_to_json``."""
    return [_row(**fields) for fields in json.loads(text)]


def _row(
    environment: dict[str, Any],
    measurement: dict[str, Any] | None,
    growth: dict[str, Any] | None = None,
    **fields: Any,
) -> Row:
    return Row(
        growth=None if growth is None else Growth(**growth),
        environment=Environment(**environment),
        measurement=None if measurement is None else _measurement(**measurement),
        **fields,
    )


def _measurement(
    seconds: dict[str, float], errors: dict[str, Any], traffic: dict[str, Any] | None, **fields: Any
) -> Measurement:
    return Measurement(
        seconds=Quartiles(**seconds),
        errors={name: Error(**error) for name, error in errors.items()},
        traffic=None if traffic is None else Traffic(**traffic),
        **fields,
    )
