"""Numbers as people read them."""

Units = tuple[tuple[str, float], ...]
SECONDS: Units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
BYTES: Units = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


def seconds_text(seconds: float) -> str:
    """Three digits."""
    return _in_units(seconds, SECONDS)


def bytes_text(number: float | None) -> str:
    """Three digits, decimal units; a dash where it is not known."""
    return "-" if number is None else _in_units(number, BYTES)


def count_text(number: float) -> str:
    """A rate or a ratio with three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def error_text(error: float | None) -> str:
    """Two digits; None is an output that is not finite."""
    return "not finite" if error is None else f"{error:.1e}"


def _in_units(number: float, units: Units) -> str:
    """In the largest unit that leaves at least 1, or else in the smallest."""
    unit, size = next((unit for unit in units if number >= unit[1]), units[-1])
    return f"{count_text(number / size)} {unit}"
