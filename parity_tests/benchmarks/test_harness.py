"""Rows say what the numbers say, and a provider that cannot be measured has a row."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks._case import Program, Provider
from benchmarks._harness import NO_TIME_LEFT, measure
from benchmarks._rows import Error, Growth, Quartiles
from benchmarks._timing import Effort

EFFORT = Effort(rounds=3, sample_seconds=0.0, most_seconds=np.inf)
FIRST_AND_SIZING = 3  # the first call, and two that size the sample


def lasting(program, *counted, first=1.0, **keywords):
    """A program whose counted calls take these seconds; the call before each, which is thrown away, takes 1000."""
    turns = [seconds for turn in counted for seconds in (1000.0, turn)]
    return lambda: program([first, *(1.0,) * (FIRST_AND_SIZING - 1), *turns], **keywords)


def measured(rows):
    return {row.provider: row.measurement for row in rows if row.status == "measured"}


def test_medians_and_ratios(clock, environment, fake_program, fake_case):
    case = fake_case(
        Provider("ours", lasting(fake_program, 2.0, 4.0, 3.0)), Provider("peer", lasting(fake_program, 6.0, 8.0, 60.0))
    )
    rows = measure(case, EFFORT, environment, clock=clock)
    assert [(row.provider, row.status, row.environment) for row in rows] == [
        ("ours", "measured", environment),
        ("peer", "measured", environment),
    ]
    of = measured(rows)
    assert of["ours"].seconds == Quartiles(2.5, 3.0, 3.5)
    assert of["peer"].seconds.median == 8.0
    assert of["ours"].time_over == {"peer": pytest.approx(np.median([2 / 6, 4 / 8, 3 / 60]))}
    assert of["peer"].time_over == {"ours": pytest.approx(np.median([6 / 2, 8 / 4, 60 / 3]))}
    assert of["ours"].rounds == EFFORT.rounds


def test_bandwidth_is_that_of_the_fastest_copy(clock, environment, fake_program, fake_case):
    def copy(seconds):
        return lambda: fake_program([seconds])

    def no_framework():
        raise ImportError

    case = fake_case(
        Provider("ours", lasting(fake_program, 4.0, 8.0, 10.0)),
        bytes_moved=800,
        copies=(Provider("slow copy", copy(5.0)), Provider("copy", copy(2.0)), Provider("none", no_framework)),
    )
    traffic = measured(measure(case, EFFORT, environment, clock=clock))["ours"].traffic
    assert traffic.copy_by == "copy"
    assert traffic.copy_bytes_per_second == 800 / 2.0
    assert traffic.bytes_per_second == 800 / 8.0
    assert traffic.copy_fraction == pytest.approx(np.median([2 / 4, 2 / 8, 2 / 10]))


def test_compile_time_is_the_first_call_less_a_later_one(clock, environment, fake_program, fake_case):
    compiled = lasting(fake_program, 2.0, 2.0, 2.0, first=9.0, compiles=True)
    case = fake_case(Provider("jit", compiled), Provider("eager", lasting(fake_program, 2.0, 2.0, 2.0, first=9.0)))
    of = measured(measure(case, EFFORT, environment, clock=clock))
    assert of["jit"].compile_seconds == 7.0
    assert of["eager"].compile_seconds is None


def test_memory_is_what_the_program_says(clock, environment, fake_program, fake_case):
    case = fake_case(Provider("jit", lambda: fake_program([1.0], temp_bytes=lambda: 64)))
    of = measured(measure(case, EFFORT, environment, clock=clock))
    assert (of["jit"].temp_bytes, of["jit"].peak_growth_bytes) == (64, 1000)


@pytest.mark.parametrize(
    ("gradient", "error"),
    [
        ((1.0, 2.0), Error(0.0, 0.0)),
        ((1.1, 2.0), Error(pytest.approx(0.1 / np.sqrt(5)), pytest.approx(0.1))),
        ((1.0, np.nan), Error(None, None)),
        ((1.0, np.inf), Error(None, None)),
    ],
)
def test_errors(clock, environment, fake_program, fake_case, gradient, error):
    case = fake_case(Provider("ours", lambda: fake_program([1.0], gradient)))
    assert measured(measure(case, EFFORT, environment, clock=clock))["ours"].errors["gradient"] == error


def test_who_cannot_be_measured_is_listed_in_place(clock, environment, fake_program, fake_case):
    def missing():
        raise ImportError("PyTorch is not installed: pip install it")

    def failing():
        raise RuntimeError("\n  no C++ compiler\n  and a long story")

    case = fake_case(
        Provider("missing", missing),
        Provider("ours", lambda: fake_program([1.0])),
        Provider("failing", failing),
        Provider("left out", failing, skip="no time"),
    )
    rows = measure(case, EFFORT, environment, clock=clock)
    assert [(row.provider, row.status, row.reason) for row in rows] == [
        ("missing", "missing", "PyTorch is not installed: pip install it"),
        ("ours", "measured", None),
        ("failing", "failed", "RuntimeError: no C++ compiler"),
        ("left out", "skipped", "no time"),
    ]
    assert measured(rows)["ours"].time_over == {}


def test_nobody_can_be_measured(clock, environment, fake_case):
    rows = measure(fake_case(Provider("left out", lambda: None, skip="no time")), EFFORT, environment, clock=clock)
    assert [row.status for row in rows] == ["skipped"]


def test_calls_of_a_device_in_order_are_waited_for_once():
    log = []
    program = Program(lambda: log.append("run"), lambda returned: log.append("wait"), lambda r: {}, lambda call: None)
    program.repeat(2)
    assert log == ["run", "wait", "run", "wait"]
    log.clear()
    replace(program, in_order=True).repeat(3)
    assert log == ["run", "run", "run", "wait"]


def test_nothing_is_started_after_the_deadline(clock, environment, fake_program, fake_case):
    """Not even the float64 computation, when it is over before the case begins."""
    case = fake_case(
        Provider("in time", lambda: fake_program([1.0])),
        Provider("late", lambda: 1 / 0),
    )
    rows = measure(case, EFFORT, environment, clock=clock, deadline=0.5)
    assert [(row.provider, row.status, row.reason) for row in rows] == [
        ("in time", "measured", None),
        ("late", "skipped", NO_TIME_LEFT),
    ]
    rows = measure(replace(case, reference=lambda: 1 / 0), EFFORT, environment, clock=clock, deadline=0.5)
    assert {(row.status, row.reason) for row in rows} == {("skipped", NO_TIME_LEFT)}


def test_the_curve_that_a_case_is_of_goes_into_its_rows(clock, environment, fake_program, fake_case):
    point = Growth("loss", "elements", 10)
    case = fake_case(Provider("ours", lambda: fake_program([1.0])), Provider("left out", dict, "no time"), growth=point)
    assert [row.growth for row in measure(case, EFFORT, environment, clock=clock)] == [point, point]
