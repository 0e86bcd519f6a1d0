"""The one piece of JAX below its public interface that the routes are read with."""

import jax
import pytest
from jax.interpreters import partial_eval

CHANGED = (
    "jax.interpreters.partial_eval.dce_jaxpr(jaxpr, used_outputs) -> (jaxpr, used_inputs) is not what it was: "
    "_reached in jaxfocal/updates/_routes.py reads which parameters a loss reaches from it and must be adapted"
)


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        ([True, False], [True, True, False]),
        ([False, True], [False, True, False]),
        ([True, True], [True, True, False]),
        ([False, False], [False, False, False]),
    ],
)
def test_dce_jaxpr_tells_the_inputs_that_the_wanted_outputs_need(wanted, used):
    closed = jax.make_jaxpr(lambda x, y, z: (x * y, jax.jit(lambda z, y: (z + 1, y + 1))(z, y)[1]))(1.0, 2.0, 3.0)
    try:
        _, found = partial_eval.dce_jaxpr(closed.jaxpr, wanted)
    except (AttributeError, TypeError, ValueError) as error:
        pytest.fail(f"{CHANGED}: {error!r}")
    assert list(found) == used, CHANGED
