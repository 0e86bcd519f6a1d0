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


QUICK = Effort(rounds=7, sample_seconds=0.02, most_seconds=4.0)
FULL = Effort(rounds=25, sample_seconds=0.1, most_seconds=60.0)
FEWEST_ROUNDS = 3


def interleaved_seconds(
    calls: Mapping[str, Callable[[], Any]], effort: Effort, clock: Clock = time.perf_counter
) -> dict[str, np.ndarray]:
    """Seconds a call for each program, one sample a round: sample i of all programs was taken in round i.

    A call returns when its outputs are ready. In each round every program has one turn, in random order. A turn begins
    with a sample that is thrown away: it brings the program's own data near, and waits out the other framework's
    threads, which go on spinning for a while; next to calls of seconds both are nothing.
    """
    sizes = {name: _calls_per_sample(call, effort, clock) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(0)
    begin = clock()
    with _no_garbage_collection():
        for done in range(effort.rounds):
            if done >= FEWEST_ROUNDS and clock() - begin > effort.most_seconds:
                break
            for name in order.sample(list(calls), len(calls)):
                if effort.warm_up:
                    _seconds_per_call(calls[name], sizes[name], clock)
                samples[name].append(_seconds_per_call(calls[name], sizes[name], clock))
    return {name: np.array(taken) for name, taken in samples.items()}


def median_ratio(seconds: np.ndarray, other_seconds: np.ndarray) -> float:
    """The median over the rounds of the ratio within a round."""
    return float(np.median(seconds / other_seconds))


def _calls_per_sample(call: Callable[[], Any], effort: Effort, clock: Clock) -> int:
    call()
    seconds = _seconds_per_call(call, 1, clock)
    if seconds * MOST_CALLS <= effort.sample_seconds:
        return MOST_CALLS
    return max(1, math.ceil(effort.sample_seconds / seconds))


def _seconds_per_call(call: Callable[[], Any], number: int, clock: Clock) -> float:
    start = clock()
    for _ in range(number):
        call()
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
