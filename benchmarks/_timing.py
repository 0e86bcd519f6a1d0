"""Times of several programs in one run, interleaved, so that whatever else the machine does hits all of them alike."""

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

Clock = Callable[[], float]
MOST_CALLS = 1000


@dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds`` samples of each program, each of as many calls as fill ``sample_seconds``.

    No round begins after ``most_seconds``, but ``FEWEST_ROUNDS`` are made in any case. ``warm_up`` says whether a turn
    begins with a sample that is thrown away.
    """

    rounds: int
    sample_seconds: float
    most_seconds: float
    warm_up: bool = True


QUICK = Effort(rounds=7, sample_seconds=0.02, most_seconds=2.0)
FULL = Effort(rounds=15, sample_seconds=0.05, most_seconds=5.0)
ON_GPU = Effort(rounds=11, sample_seconds=0.02, most_seconds=2.0)
LONG_SECONDS = 0.3  # a call as long as this is timed alone, without one before it
FEWEST_ROUNDS = 3


def interleaved_seconds(
    repeats: Mapping[str, Callable[[int], Any]], effort: Effort, clock: Clock = time.perf_counter
) -> dict[str, np.ndarray]:
    """Seconds a call for each program, one sample a round: sample i of all programs was taken in round i.

    Each of ``repeats`` makes as many calls as it is told and returns when their outputs are ready. In each round every
    program has one turn, in random order. A turn begins with a sample that is thrown away: it brings the program's own
    data near, and waits out the other framework's threads, which go on spinning for a while; next to calls of seconds
    both are nothing.
    """
    plans = {name: _plan(repeat, effort, clock) for name, repeat in repeats.items()}
    samples: dict[str, list[float]] = {name: [] for name in repeats}
    order = random.Random(0)
    begin = clock()
    with _no_garbage_collection():
        for done in range(effort.rounds):
            if done >= FEWEST_ROUNDS and clock() - begin > effort.most_seconds:
                break
            for name in order.sample(list(repeats), len(repeats)):
                number, warm_up = plans[name]
                if warm_up:
                    _seconds_per_call(repeats[name], number, clock)
                samples[name].append(_seconds_per_call(repeats[name], number, clock))
    return {name: np.array(taken) for name, taken in samples.items()}


def median_ratio(seconds: np.ndarray, other_seconds: np.ndarray) -> float:
    """The median over the rounds of the ratio within a round."""
    return float(np.median(seconds / other_seconds))


def _plan(repeat: Callable[[int], Any], effort: Effort, clock: Clock) -> tuple[int, bool]:
    """How many calls a sample has, and whether a turn begins with one that is thrown away."""
    seconds = _seconds_per_call(repeat, 1, clock)
    if seconds < LONG_SECONDS:
        seconds = _seconds_per_call(repeat, 1, clock)
    if seconds * MOST_CALLS <= effort.sample_seconds:
        return MOST_CALLS, effort.warm_up
    return max(1, math.ceil(effort.sample_seconds / seconds)), effort.warm_up and seconds < LONG_SECONDS


def _seconds_per_call(repeat: Callable[[int], Any], number: int, clock: Clock) -> float:
    start = clock()
    repeat(number)
    return (clock() - start) / number


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
