"""What the options of a recipe must be."""

from typing import Any


def is_int(value: Any) -> bool:
    """Whether it is an integer, which True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def require(name: str, value: Any, accepted: bool, expected: str) -> None:
    """ValueError that says what was given and what was expected, unless the value is accepted."""
    if not accepted:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
