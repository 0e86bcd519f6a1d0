"""Float32 values and gradients against 150-digit arithmetic, for margins from -1e4 to 1e4."""

import pytest

from parity_tests.cases import CASES
from parity_tests.losses.float32_error import worst_errors


@pytest.mark.parametrize("case", [case for case in CASES if not case.id.endswith("_soft")], ids=lambda case: case.id)
def test_within_the_bound(case):
    for worst in worst_errors(case):
        assert worst.value <= 1, worst
        assert worst.gradient <= 1, worst
