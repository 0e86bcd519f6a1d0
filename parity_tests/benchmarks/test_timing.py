"""Interleaving, with a clock that only the programs move."""

import gc

import numpy as np
import pytest

from benchmarks import _timing
from benchmarks._timing import FEWEST_ROUNDS, Effort, interleaved_seconds, median_ratio

ONE_CALL = Effort(rounds=7, sample_seconds=0.0, most_seconds=np.inf)


def recorded(clock, log, name, seconds=1.0):
    def repeat(number):
        log.extend([name] * number)
        clock.take(number * seconds)

    return repeat


def test_each_program_has_one_turn_a_round(clock):
    log = []
    interleaved_seconds({name: recorded(clock, log, name) for name in "abc"}, ONE_CALL, clock)
    turns = log[2 * 3 :: 2]  # two calls of each to size its sample; then a turn is two calls, the first thrown away
    assert log[2 * 3 + 1 :: 2] == turns
    rounds = [turns[i : i + 3] for i in range(0, len(turns), 3)]
    assert len(rounds) == ONE_CALL.rounds
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 1


def test_only_the_second_sample_of_a_turn_counts(clock):
    durations = iter([1.0, 1.0, *(100.0, 2.0) * ONE_CALL.rounds])
    seconds = interleaved_seconds({"a": lambda number: clock.take(next(durations))}, ONE_CALL, clock)
    np.testing.assert_array_equal(seconds["a"], np.full(ONE_CALL.rounds, 2.0))


def test_a_quick_program_is_called_until_the_sample_is_long_enough(clock):
    log = []
    effort = Effort(rounds=1, sample_seconds=1.0, most_seconds=np.inf)
    calls = {"quick": recorded(clock, log, "quick", 0.25), "slow": recorded(clock, log, "slow", 3.0)}
    seconds = interleaved_seconds(calls, effort, clock)
    assert seconds == {"quick": pytest.approx([0.25]), "slow": pytest.approx([3.0])}
    assert log.count("quick") == 2 + 2 * 4
    assert log.count("slow") == 2 + 2 * 1


def test_a_long_call_is_timed_alone(clock, monkeypatch):
    monkeypatch.setattr(_timing, "LONG_SECONDS", 2.0)
    log = []
    calls = {"long": recorded(clock, log, "long", 2.0), "short": recorded(clock, log, "short", 1.5)}
    interleaved_seconds(calls, ONE_CALL, clock)
    assert log.count("long") == 1 + ONE_CALL.rounds
    assert log.count("short") == 2 + 2 * ONE_CALL.rounds


def test_a_program_too_quick_for_the_clock(clock):
    seconds = interleaved_seconds({"a": lambda number: None}, ONE_CALL, clock)
    np.testing.assert_array_equal(seconds["a"], 0.0)


@pytest.mark.parametrize(("most_seconds", "rounds"), [(0.0, FEWEST_ROUNDS), (9.0, 5), (1e9, 7)])
def test_no_round_begins_after_the_time_is_up(clock, most_seconds, rounds):
    effort = Effort(rounds=7, sample_seconds=0.0, most_seconds=most_seconds)
    seconds = interleaved_seconds({"a": lambda number: clock.take(1.0)}, effort, clock)
    assert len(seconds["a"]) == rounds


def test_the_ratio_is_taken_within_a_round():
    """Of the medians it would be 4 / 5."""
    assert median_ratio(np.array([1.0, 10.0, 4.0]), np.array([2.0, 5.0, 8.0])) == 0.5


def test_garbage_is_not_collected_while_the_clock_runs(clock):
    states = []

    def repeat(number):
        states.append(gc.isenabled())

    interleaved_seconds({"a": repeat}, ONE_CALL, clock)
    assert not any(states[2:])
    assert gc.isenabled()
