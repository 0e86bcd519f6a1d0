"""Derivatives of both orders, in both modes, against finite differences, by every argument that has one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp

import jaxfocal as jf
from parity_tests.cases import BY_ID, CASES

STEP = 1e-5  # the error of a central difference is about STEP**2 times the third derivative


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_both_orders_in_both_modes(case):
    """All arguments move at once, each in a random direction, and every component of the result is compared."""
    logits, labels = case.example()
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.5, 2, size=case.shape)
    at = {"logits": logits, "weights": weights, **case.differentiable}
    at |= {"labels": labels} if "labels" in at else {}
    at = {name: jnp.asarray(value) for name, value in at.items()}
    direction = {name: jnp.asarray(rng.normal(size=np.shape(value))) for name, value in at.items()}

    def total(arguments):
        return case.loss(**{"labels": labels, **case.held, **arguments}, reduction="mean")

    @jax.jit
    def along(step):
        moved = jax.tree.map(lambda a, v: a + step * v, at, direction)
        return jax.value_and_grad(total)(moved)

    @jax.jit
    def analytic():
        forward = jax.jvp(total, (at,), (direction,))[1]
        forward_over_reverse = jax.jvp(jax.grad(total), (at,), (direction,))[1]
        reverse_over_forward = jax.grad(lambda a: jax.jvp(total, (a,), (direction,))[1])(at)
        return forward, forward_over_reverse, reverse_over_forward

    (value_up, gradient_up), (value_down, gradient_down) = along(STEP), along(-STEP)
    first = (value_up - value_down) / (2 * STEP)
    second = jax.tree.map(lambda up, down: (up - down) / (2 * STEP), gradient_up, gradient_down)

    forward, *hessian_products = analytic()
    reverse = sum(jax.tree.leaves(jax.tree.map(lambda g, v: jnp.sum(g * v), along(0.0)[1], direction)))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    np.testing.assert_allclose(forward, first, rtol=1e-7)
    for product in hessian_products:
        for name, expected in second.items():
            scale = np.abs(expected).max()
            np.testing.assert_allclose(product[name], expected, rtol=1e-6, atol=1e-7 * scale, err_msg=name)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("label", [0, 1])
def test_curvature_keeps_its_digits(label, gamma):
    """The second derivative from z = -40 to 40, at 0 too, where a kink in the formula would show."""
    x = np.array([-40.0, -30.0, -17.0, -8.0, -1.0, 0.0, 1.0, 8.0, 17.0, 30.0, 40.0])
    got = jax.vmap(jax.grad(jax.grad(lambda x: jf.sigmoid_focal_loss(x, jnp.array(label), gamma=gamma))))(x)
    exact = BY_ID["sigmoid_focal"].exact
    with mp.workdps(60):
        right = [float(mp.diff(lambda t: exact(t, label, gamma=gamma), float(v), 2)) for v in x]
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_third_derivative():
    x = np.array([-3.0, 0.0, 2.5])
    third = jax.grad(jax.grad(jax.grad(lambda x: jf.sigmoid_focal_loss(x, jnp.array(1), gamma=1.5))))
    exact = BY_ID["sigmoid_focal"].exact
    with mp.workdps(60):
        right = [float(mp.diff(lambda t: exact(t, 1, gamma=1.5), float(v), 3)) for v in x]
    np.testing.assert_allclose(jax.vmap(third)(x), right, rtol=1e-12)
