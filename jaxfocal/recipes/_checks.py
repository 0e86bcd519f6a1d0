"""What the options of a recipe must be."""

import sys
from typing import Any


def is_int(value: Any, least: int) -> bool:
    """Whether it is an integer of at least ``least``; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Any) -> bool:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def require(name: str, value: Any, accepted: bool, expected: str) -> None:
    """ValueError that says what was given and what was expected, unless the value is accepted."""
    if not accepted:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
