"""Numbers as people read them."""

import pytest

from benchmarks._text import bytes_text, count_text, error_text, seconds_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (seconds_text(12.345), "12.3 s"),
        (seconds_text(0.001), "1 ms"),
        (seconds_text(4.56e-7), "0.456 µs"),
        (bytes_text(999), "999 B"),
        (bytes_text(4_465_000), "4.46 MB"),
        (bytes_text(None), "-"),
        (count_text(1042.4), "1,042"),
        (count_text(0.6412), "0.641"),
        (error_text(1.23e-7), "1.2e-07"),
        (error_text(None), "not finite"),
    ],
)
def test_text(text, expected):
    assert text == expected
