"""The laws can fail: a wrong formula in a copy of the margin rule turns them red."""

import importlib.util

import pytest

from jaxfocal.losses import _classes, _margin, _rows, _sigmoid
from parity_tests.cases import BY_ID
from parity_tests.losses.test_derivatives import test_both_orders_in_both_modes as derivatives_law
from parity_tests.losses.test_exact import test_value_and_gradient as exact_law


def exact(row):
    exact_law(BY_ID[row], {"gamma": 1.5})


def derivatives(row):
    derivatives_law(BY_ID[row])


# what is wrong: (source, wrong source, the law that must see it, the row it runs on)
MUTATIONS = {
    "value without gamma": ("power_of_q(r, d, gamma) * s)", "s)", exact, "sigmoid_focal"),
    "slope with the wrong sign": ("return -power_of_q(r, d, gamma) * (q", "return power_of_q(r, d, gamma) * (q", exact, "sigmoid_focal"),
    "slope without the gamma term": ("gamma) * (q + gamma * p * s)\n", "gamma) * q\n", exact, "sigmoid_focal"),
    "slope without the gamma term, softmax": ("gamma) * (q + gamma * p * s)\n", "gamma) * q\n", exact, "softmax_focal"),
    "gamma slope with the wrong sign": ("return -power_of_q(r, d, gamma) * s * r", "return power_of_q(r, d, gamma) * s * r", derivatives, "sigmoid_focal"),
    "curvature with the wrong sign": ("(p * q * z_dot, -p * q * z_dot,", "(p * q * z_dot, p * q * z_dot,", derivatives, "sigmoid_focal"),
    "margin with the wrong sign": ("jnp.where(labels == 1, 1.0, -1.0)", "jnp.where(labels == 1, -1.0, 1.0)", exact, "sigmoid_focal"),
    "slope of the others with the wrong sign": ("jnp.where(label, 1, -_shares", "jnp.where(label, 1, _shares", exact, "softmax_focal"),
    "the label among the others": ("jnp.where(out, -jnp.inf, logits)", "logits", exact, "softmax_focal"),
    "curvature of all margins cut off": ("e = jnp.exp(logits - largest)", "e = jax.lax.stop_gradient(jnp.exp(logits - largest))", derivatives, "softmax_focal_soft"),
}  # fmt: skip


def use(monkeypatch, source):
    """Let the losses use a margin module of this source."""
    module = importlib.util.module_from_spec(importlib.util.find_spec(_margin.__name__))
    exec(compile(source, "a copy of the margin rule", "exec"), module.__dict__)
    for user in (_sigmoid, _classes, _rows):
        for name in vars(user).keys() & vars(_margin).keys():
            if getattr(user, name) is getattr(_margin, name) and callable(getattr(_margin, name)):
                monkeypatch.setattr(user, name, getattr(module, name))


@pytest.fixture
def source():
    return importlib.util.find_spec(_margin.__name__).loader.get_source(_margin.__name__)


@pytest.mark.parametrize(("right", "wrong", "law", "row"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_wrong_formula_breaks_the_law(monkeypatch, source, right, wrong, law, row):
    assert source.count(right) == 1, f"the mutation no longer fits the source: {right!r}"
    use(monkeypatch, source.replace(right, wrong))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        law(row)


@pytest.mark.parametrize("row", ["sigmoid_focal", "softmax_focal", "softmax_focal_soft"])
def test_an_exact_copy_breaks_none(monkeypatch, source, row):
    use(monkeypatch, source)
    exact(row)
    derivatives(row)
