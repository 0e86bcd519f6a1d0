"""The registry of losses: one row a loss and kind of label, and every law in ``parity_tests/losses`` runs on it."""

from typing import Any

from . import dense, longtail, multilabel, region, sigmoid, softmax
from ._case import EPS as EPS
from ._case import SMALLEST_NORMAL as SMALLEST_NORMAL
from ._case import LossCase as LossCase

CASES: tuple[LossCase, ...] = (
    *dense.CASES,
    *sigmoid.CASES,
    *longtail.CASES,
    *multilabel.CASES,
    *softmax.CASES,
    *region.CASES,
)
BY_ID = {case.id: case for case in CASES}
assert len(BY_ID) == len(CASES)


def variants_of(cases: tuple[LossCase, ...] = CASES) -> list[Any]:
    """Every row with every one of its variants, for ``pytest.mark.parametrize("case, options", ...)``."""
    import pytest

    return [
        pytest.param(case, options, id=f"{case.id}-{'-'.join(options) or 'defaults'}-{i}")
        for case in cases
        for i, options in enumerate(case.variants)
    ]
