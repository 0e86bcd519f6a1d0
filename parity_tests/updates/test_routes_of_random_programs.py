"""Random programs of parameter groups and stops, whose routes are known from how they are built."""

import jax
import jax.numpy as jnp
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxfocal import gradient_routes

stop = jax.lax.stop_gradient


def first_carry(x, y):
    return jax.lax.scan(lambda c, _: ((2 * c[0], c[0] * c[1]), None), (x, y), length=2)[0][0]


def second_carry(x, y):
    return jax.lax.scan(lambda c, _: ((2 * c[0], c[0] * c[1]), None), (x, y), length=2)[0][1]


# Each joins two earlier values, and lets the derivative through to the first, the second, both or neither.
JOINS = {
    "add": (lambda x, y: x + y, (0, 1)),
    "zero times": (lambda x, y: 0 * x + 0 * y, (0, 1)),
    "stop second": (lambda x, y: x * stop(y), (0,)),
    "stop both": (lambda x, y: stop(x * y), ()),
    "jit": (jax.jit(lambda x, y: jnp.sin(x) * stop(y)), (0,)),
    "checkpoint": (jax.checkpoint(lambda x, y: jnp.sin(x) * y), (0, 1)),
    "vmap": (jax.vmap(lambda x, y: stop(x) + y), (1,)),
    "first carry": (first_carry, (0,)),
    "second carry": (second_carry, (0, 1)),
    "cond": (lambda x, y: jax.lax.cond(x[0] > 0, lambda x, y: x, lambda x, y: stop(y), x, y), (0,)),
    "while": (lambda x, y: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: c + 1 + y**2, x), (0, 1)),
    "where": (lambda x, y: jnp.where(x > 0, y, 1.0), (1,)),
    "integer": (lambda x, y: x.astype(jnp.int64) * y, (1,)),
}

LEAVES = [("g0", 0), ("g1", 0), ("g1", 1), ("g2", 0), ("g2", 1)]

steps = st.tuples(st.sampled_from(sorted(JOINS)), st.integers(0, 99), st.integers(0, 99))


def run(steps, values):
    """The values made by ``steps``, each from two among those before it."""
    values = list(values)
    for name, i, j in steps:
        values.append(JOINS[name][0](values[i % len(values)], values[j % len(values)]))
    return values


def reached_by(steps):
    """For each of the same values, the leaves that its derivative gets to."""
    reached = [{leaf} for leaf in LEAVES]
    for name, i, j in steps:
        operands = reached[i % len(reached)], reached[j % len(reached)]
        reached.append(set().union(*(operands[k] for k in JOINS[name][1])))
    return reached


def extent(group, reached):
    own = {leaf for leaf in LEAVES if leaf[0] == group}
    return "all" if own <= reached else "some" if own & reached else "none"


@given(steps=st.lists(steps, min_size=1, max_size=8))
@settings(max_examples=40, derandomize=True, deadline=None)
def test_routes_are_those_built_in(steps):
    def losses(params):
        values = run(steps, [params[group][i] for group, i in LEAVES])
        return {f"l{k}": jnp.sum(value) for k, value in enumerate(values)}

    params = {group: [jnp.array([0.5, 1.5]) for of, _ in LEAVES if of == group] for group in ("g0", "g1", "g2")}
    expected = {f"l{k}": {group: extent(group, r) for group in params} for k, r in enumerate(reached_by(steps))}
    assert gradient_routes(losses, params) == expected
