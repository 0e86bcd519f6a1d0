"""The penalty on a critic's slope: PyTorch's create_graph, a slope of zero, and what cannot be meant."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(12, 5)), RNG.normal(size=(5, 5)), RNG.normal(size=(5, 1))]
REAL, FAKE = RNG.normal(size=(2, 7, 3, 4))
KEY = jax.random.key(0)
ONE_SCORE = "critic must return one floating-point score a row, shape (7,) or (7, 1)"


def critic(weights, x, tanh=jnp.tanh):
    """(B, 3, 4) -> (B, 1), smooth, so that its slope has a derivative everywhere."""
    x = x.reshape(len(x), -1)
    for weight in weights[:-1]:
        x = tanh(x @ weight)
    return x @ weights[-1]


def drawn():
    return jax.random.uniform(KEY, (7, 1, 1), jnp.float64)


@pytest.mark.parametrize("target", [1.0, 0.0])
@pytest.mark.parametrize("flat", [False, True], ids=["column", "flat"])
def test_value_and_gradients_equal_pytorch(target, flat):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    def scores(weights, x, tanh):
        out = critic(weights, x, tanh)
        return out[:, 0] if flat else out

    def penalty(weights, real, fake):
        return jf.gradient_penalty(lambda x: scores(weights, x, jnp.tanh), real, fake, KEY, target=target)

    value, gradients = jax.jit(jax.value_and_grad(penalty, argnums=(0, 1, 2)))(WEIGHTS, REAL, FAKE)

    weights = [torch.tensor(weight, requires_grad=True) for weight in WEIGHTS]
    real, fake = (torch.tensor(x, requires_grad=True) for x in (REAL, FAKE))
    u = torch.tensor(np.asarray(drawn()).ravel())
    expected = torchref.gradient_penalty(lambda x: scores(weights, x, torch.tanh), real, fake, u, target=target)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-12)
    for ours, theirs in zip(jax.tree.leaves(gradients), [*weights, real, fake], strict=True):
        np.testing.assert_allclose(ours, theirs.grad, rtol=0, atol=1e-12 * float(theirs.grad.abs().max()))


def test_one_point_an_example_on_the_line_between_real_and_fake():
    """The critic x^2 / 2 of one number has the slope x: with target 0 the penalty shows the points themselves."""
    real, fake = jnp.array([[2.0], [4.0]]), jnp.array([[-1.0], [0.0]])
    u = jax.random.uniform(KEY, (2, 1), jnp.float64)
    value = jf.gradient_penalty(lambda x: jnp.sum(x**2, axis=1) / 2, real, fake, KEY, target=0.0)
    assert abs(u[0] - u[1]) > 1e-3
    np.testing.assert_allclose(value, jnp.mean((u * real + (1 - u) * fake) ** 2), rtol=1e-15)


def test_value_by_hand():
    """A critic v . x has the slope v everywhere, and its penalty's derivative by v is 2 (|v| - target) v / |v|."""
    v = jnp.array([3.0, 4.0])

    def penalty(v):
        return jf.gradient_penalty(lambda x: x @ v, jnp.ones((6, 2)), jnp.zeros((6, 2)), KEY, target=2.0)

    value, gradient = jax.value_and_grad(penalty)(v)
    np.testing.assert_allclose(value, 9.0, rtol=1e-15)
    np.testing.assert_allclose(gradient, 2 * 3 * v / 5, rtol=1e-14)
    np.testing.assert_allclose(jax.hessian(penalty)(v) @ v, 2 * v, rtol=1e-13)


def test_a_slope_of_zero_has_finite_derivatives():
    """The root of 0 has an infinite slope, and 0 times that is NaN."""

    def penalty(v):
        return jf.gradient_penalty(lambda x: jax.nn.relu(x @ v), -jnp.ones((4, 2)), -jnp.ones((4, 2)), KEY)

    v = jnp.array([1.0, 2.0])
    value, gradient = jax.value_and_grad(penalty)(v)
    assert value == 1
    np.testing.assert_array_equal(gradient, 0)
    np.testing.assert_array_equal(jax.hessian(penalty)(v), 0)


def test_half_precision_norms_are_taken_in_float32():
    """The square of a slope of 300 in float16 would be infinite."""
    real = jnp.ones((3, 2), jnp.float16)
    value = jf.gradient_penalty(lambda x: x @ jnp.array([300, 400], jnp.float16), real, real, KEY)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, 499.0**2, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"real": REAL.astype(int)},
            "real must be floating-point examples (B, ...), B >= 1, got an array of shape (7, 3, 4) and",
        ),
        (
            {"real": np.zeros((0, 2))},
            "real must be floating-point examples (B, ...), B >= 1, got an array of shape (0, 2)",
        ),
        (
            {"fake": FAKE[:1]},
            "fake must be as real is, an array of shape (7, 3, 4) and dtype float64, got an array of shape (1, 3, 4)",
        ),
        ({"fake": FAKE.astype(np.float32)}, "dtype float64, got an array of shape (7, 3, 4) and dtype float32"),
        ({"target": -1.0}, "target must be >= 0 and finite, got -1.0"),
        ({"real": {"x": REAL}}, "real must be floating-point examples (B, ...), B >= 1, got dict of length 1"),
        ({"fake": None}, "fake must be as real is, an array of shape (7, 3, 4) and dtype float64, got NoneType"),
        ({"target": "1"}, "target must be a number, got str"),
        ({"target": jnp.ones(7)}, "target must be a number, got an array of shape (7,) and dtype float64"),
        ({"key": 0}, "key must be one random key, such as jax.random.key(0), got int"),
        ({"critic": WEIGHTS}, "critic must be a function of examples, got list of length 3"),
        ({"critic": jnp.mean}, f"{ONE_SCORE}, got an array of shape () and dtype float64"),
        ({"critic": lambda x: x[:, 0, :2]}, f"{ONE_SCORE}, got an array of shape (7, 2) and dtype float64"),
        ({"critic": lambda x: x[:, 0, 0] > 0}, f"{ONE_SCORE}, got an array of shape (7,) and dtype bool"),
        ({"critic": lambda x: (x[:, 0, 0], x)}, f"{ONE_SCORE}, got tuple of length 2"),
        ({"target": True}, "target must be a number, got bool"),
        ({"critic": lambda x: critic(WEIGHTS, REAL)}, "critic must depend on the examples that it is given, but no"),
        ({"critic": lambda x: critic(WEIGHTS, jax.lax.stop_gradient(x))}, "no gradient of its scores gets to them"),
    ],
    ids=[
        *("integers", "nothing", "rows", "dtype", "target", "dict", "None", "string", "targets", "seed", "no-function"),
        *("scalar", "two-scores", "flags", "scores-and-more", "flag", "of-other-examples", "stopped"),
    ],
)
def test_bad_input(change, message):
    arguments = {"critic": lambda x: critic(WEIGHTS, x), "real": REAL, "fake": FAKE, "key": KEY, **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        jf.gradient_penalty(**arguments)
