"""Inputs on which other libraries were reported to fail, with the right values at 60 digits."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxfocal as jf

REPORTS = json.loads((Path(__file__).parents[1] / "data" / "public_reports.json").read_text())["cases"]
WITH_LOGITS = [case for case in REPORTS if isinstance(case.get("logits"), list) and hasattr(jf, case["function"])]


def arguments(case):
    logits = np.array(case["logits"], object).astype(float).astype(case["dtype"])
    labels = np.array(case["labels"])
    labels = labels.astype(case.get("label_dtype", labels.dtype if labels.dtype.kind == "i" else case["dtype"]))
    options = {name: np.array(o, case["dtype"]) if isinstance(o, list) else o for name, o in case["kwargs"].items()}
    return getattr(jf, case["function"]), logits, labels, options


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("case", [c for c in WITH_LOGITS if "error" not in c], ids=lambda case: case["id"])
def test_value_and_gradient(case, jit):
    function, logits, labels, options = arguments(case)

    def loss(x, y):
        values = function(x, y, **options)
        return values.sum(), values

    def derivatives(x, y):
        curvature = jax.grad(lambda x: jax.grad(lambda x: loss(x, y)[0])(x).sum())
        return *jax.grad(loss, has_aux=True)(x, y), curvature(x) if jit else ()

    gradient, values, curvature = (jax.jit(derivatives) if jit else derivatives)(logits, labels)
    np.testing.assert_allclose(values, case["loss"], rtol=case["rtol"], atol=case["atol"])
    np.testing.assert_allclose(np.float64(gradient), case["grad"], rtol=case["rtol"], atol=case["atol"])
    assert np.isfinite(np.float64(curvature)).all()


@pytest.mark.parametrize("case", [c for c in WITH_LOGITS if "error" in c], ids=lambda case: case["id"])
def test_error(case):
    function, logits, labels, options = arguments(case)
    with pytest.raises(ValueError, match="must"):
        function(logits, labels, **options)


@pytest.mark.parametrize("identifier", ["label-out-of-range", "negative-label"])
def test_traced_label_out_of_range_is_nan(identifier):
    function, logits, labels, options = arguments(next(case for case in REPORTS if case["id"] == identifier))
    rows, row_labels = np.concatenate([logits, logits]), np.concatenate([labels, [1]])
    value_and_gradient = jax.value_and_grad(lambda x, y: function(x, y, **options).sum())
    assert np.isnan(jax.jit(value_and_gradient)(rows, row_labels)[0])
    gradient = np.asarray(jax.jit(value_and_gradient)(rows, row_labels)[1])
    assert np.isnan(gradient[0]).all()
    assert np.isfinite(gradient[1]).all()
