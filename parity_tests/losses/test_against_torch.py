"""Values and gradients equal the PyTorch twin's in float64, for every option and reduction."""

import jax
import numpy as np
import pytest

from parity_tests.cases import BY_ID, CASES, variants_of

torch = pytest.importorskip("torch", reason="compares with PyTorch")
import torchref  # noqa: E402

RTOL = 1e-12


def torch_value_and_gradient(case, logits, labels, options, cotangent):
    x = torch.tensor(logits, requires_grad=True)
    options = {**case.required, **options}
    options = {name: torch.tensor(o) if isinstance(o, np.ndarray) else o for name, o in options.items()}
    state = () if case.state is None else (jax.tree.map(lambda leaf: torch.tensor(np.asarray(leaf)), case.state),)
    loss = getattr(torchref, case.name)(x, torch.tensor(labels), *state, **options)
    loss = loss[0] if state else loss
    (loss * torch.tensor(np.broadcast_to(cotangent, loss.shape).copy())).sum().backward()
    return loss.detach().numpy(), x.grad.numpy()


def check(case, logits, labels, options, cotangent=1.0, transform=lambda f: f):
    def weighted(x):
        loss = case.loss(x, labels, **options)
        return (loss * np.broadcast_to(cotangent, loss.shape)).sum(), loss

    gradient, loss = transform(jax.grad(weighted, has_aux=True))(logits)
    expected_loss, expected_gradient = torch_value_and_gradient(case, logits, labels, options, cotangent)
    np.testing.assert_allclose(loss, expected_loss, rtol=RTOL)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=RTOL, atol=RTOL * np.abs(expected_gradient).max())


@pytest.mark.parametrize(("case", "options"), variants_of())
def test_each_element(case, options):
    logits, labels = case.example()
    cotangent = np.random.default_rng(1).normal(size=case.shape)
    check(case, logits, labels, options, cotangent)


@pytest.mark.parametrize("extra", [(), ("where", "weights")], ids="-".join)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reductions(case, reduction, extra):
    rng = np.random.default_rng(2)
    where = rng.uniform(size=case.where_shape(case.logits_shape)) < 0.6
    drawn = {"where": where, "weights": rng.uniform(0.5, 2.0, size=case.shape)}
    logits, labels = case.example()
    options = case.variants[-1]
    check(case, logits, labels, {**options, **{name: drawn[name] for name in extra}, "reduction": reduction})


@pytest.mark.parametrize("normalizer", [0.0, 0.5, 7.0])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_normalizer(case, normalizer):
    check(case, *case.example(), {"reduction": "sum", "normalizer": normalizer})


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("case", "options"), variants_of(tuple(case for case in CASES if case.classes)))
def test_ignored_labels(case, options, reduction):
    logits, labels = case.example()
    labels.flat[::2] = -100
    check(case, logits, labels, {**options, "ignore_index": -100, "reduction": reduction})


@pytest.mark.parametrize("axis", [0, 1, -3])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_class_axis(axis, soft):
    case = BY_ID["softmax_focal"]
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(2, 3, 4))
    rows = np.delete(logits.shape, axis)
    labels = np.moveaxis(rng.dirichlet(np.ones(logits.shape[axis]), size=rows), -1, axis)
    if not soft:
        labels = np.argmax(labels, axis)
    gamma = rng.uniform(0, 3, size=[n if i == axis % 3 else 1 for i, n in enumerate(logits.shape)])
    check(case, logits, labels, {"axis": axis, "gamma": gamma, "reduction": "mean"}, transform=jax.jit)
    check(case, logits, labels, {"axis": axis, "gamma": gamma.max(0, keepdims=True)[0]}, transform=jax.jit)
