"""The loss of a linear layer, in chunks, is that of its logits, without the logits."""

import os
import re
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf

N, D, V = (3, 7), 4, 11
RNG = np.random.default_rng(0)
HIDDEN, KERNEL, BIAS = RNG.normal(size=(*N, D)), RNG.normal(size=(D, V)), RNG.normal(size=V)
LABELS = RNG.integers(0, V, N)
IGNORED = np.where(RNG.uniform(size=N) < 0.2, -100, LABELS)
CLASS_WEIGHTS, WEIGHTS, KEPT = RNG.uniform(0.5, 2, V), RNG.uniform(0.5, 2, N), RNG.uniform(size=N) < 0.7
COTANGENTS = RNG.normal(size=N)
OPTIONS = {
    "defaults": {},
    "gamma a class": {"gamma": RNG.uniform(0, 3, V)},
    "weighted": {"gamma": 0.5, "class_weights": CLASS_WEIGHTS, "ignore_index": -100},
    "smoothed": {
        "gamma": 1.5,
        "label_smoothing": 0.1,
        "class_weights": CLASS_WEIGHTS,
        "weights": WEIGHTS,
        "where": KEPT,
    },
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def labels_for(options):
    return IGNORED if "ignore_index" in options else LABELS


def of_logits(hidden, kernel, labels, *, bias, chunk_size=None, **options):
    return jf.softmax_focal_loss(hidden @ kernel + bias.reshape((1,) * (hidden.ndim - 1) + (-1,)), labels, **options)


def value_and_gradients(loss, options, reduction):
    """With respect to the layer and every option that has a derivative; "none" gets arbitrary cotangents."""
    moved = {name: o for name, o in options.items() if name in ("gamma", "class_weights", "label_smoothing", "weights")}
    fixed = {name: o for name, o in options.items() if name not in moved}

    def total(hidden, kernel, bias, moved):
        values = loss(hidden, kernel, labels_for(options), bias=bias, reduction=reduction, **fixed, **moved)
        return (values * np.broadcast_to(COTANGENTS, values.shape)).sum() if values.ndim else values

    return jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3)))(HIDDEN, KERNEL, BIAS, moved)


def assert_close(got, expected, rtol=1e-12):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(np.abs(b).max())), got, expected
    )


@every_option
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_equals_the_loss_of_the_logits(options, reduction):
    """Whether the rows (21) fill the chunks or not."""
    expected = value_and_gradients(of_logits, options, reduction)
    for chunk_size in (4, 7, None):
        chunked = partial(jf.linear_softmax_focal_loss, chunk_size=chunk_size)
        assert_close(value_and_gradients(chunked, options, reduction), expected)


@every_option
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_equals_pytorch(options, reduction):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    inputs = [torch.tensor(x, requires_grad=True) for x in (HIDDEN, KERNEL, BIAS)]
    in_torch = {name: torch.tensor(o) if isinstance(o, np.ndarray) else o for name, o in options.items()}
    labels = torch.tensor(labels_for(options))
    values = torchref.linear_softmax_focal_loss(
        inputs[0], inputs[1], labels, bias=inputs[2], reduction=reduction, **in_torch
    )
    total = (values * torch.tensor(COTANGENTS)).sum() if values.ndim else values
    total.backward()
    chunked = partial(jf.linear_softmax_focal_loss, chunk_size=4)
    value, gradients = value_and_gradients(chunked, options, reduction)
    assert_close((value, *gradients[:3]), (total.detach().numpy(), *(x.grad.numpy() for x in inputs)))


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_second_derivative(reduction):
    def curvature(loss):
        def total(hidden, kernel):
            return jnp.sum(loss(hidden, kernel, LABELS, bias=BIAS, reduction=reduction))

        along = jnp.asarray(np.cos(np.arange(HIDDEN.size)).reshape(HIDDEN.shape))
        first = jax.grad(lambda h, k: jnp.sum(jax.grad(total)(h, k) * along), argnums=(0, 1))
        return jax.jit(first)(HIDDEN, KERNEL)

    chunked = curvature(partial(jf.linear_softmax_focal_loss, chunk_size=4))
    assert_close(chunked, curvature(of_logits), 1e-11)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_bfloat16_is_no_worse_than_without_chunks(reduction):
    """Both against float64 at the same bfloat16 inputs: value, and gradients in the norm."""
    rng = np.random.default_rng(1)
    hidden, kernel = (
        jnp.asarray(rng.normal(size=(64, 32)), jnp.bfloat16),
        jnp.asarray(rng.normal(size=(32, 200)), jnp.bfloat16),
    )
    labels, cotangents = rng.integers(0, 200, 64), rng.normal(size=64).astype(np.float32)

    def run(loss, hidden, kernel):
        def total(hidden, kernel):
            values = loss(hidden, kernel)
            return jnp.sum(values * cotangents.astype(values.dtype)) if values.ndim else values

        return jax.value_and_grad(total, argnums=(0, 1))(hidden, kernel)

    def plain(hidden, kernel):
        return jf.softmax_focal_loss(hidden @ kernel, labels, reduction=reduction)

    def chunked(hidden, kernel):
        return jf.linear_softmax_focal_loss(hidden, kernel, labels, reduction=reduction, chunk_size=16)

    right = jax.tree.leaves(run(plain, hidden.astype(jnp.float64), kernel.astype(jnp.float64)))
    results = [jax.tree.leaves(run(loss, hidden, kernel)) for loss in (chunked, plain)]
    for ours, theirs, exact in zip(*results, right, strict=True):
        assert ours.dtype == theirs.dtype
        error, peer_error = (np.linalg.norm(np.float64(x) - exact) for x in (ours, theirs))
        assert error <= 1.01 * peer_error


def test_float16_slopes_do_not_underflow():
    """A mean over many rows makes slopes below float16's smallest number, until the loss scale meets them."""
    hidden, kernel = jnp.ones((4096, 2), jnp.float16), jnp.zeros((2, 50), jnp.float16)
    labels = jnp.zeros(4096, jnp.int32)

    def scaled(kernel):
        return 2.0**12 * jf.linear_softmax_focal_loss(hidden, kernel, labels, gamma=0.0, reduction="mean")

    expected = 2.0**12 * np.where(np.arange(50) == 0, 1 / 50 - 1, 1 / 50)
    np.testing.assert_allclose(np.float64(jax.grad(scaled)(kernel))[0], expected, rtol=1e-3)


def test_no_array_as_large_as_the_logits():
    """The largest intermediate array of value and gradient, in the traced program, is that of a chunk."""
    rows, width, classes, size = 1024, 8, 300, 64
    operands = jnp.zeros((rows, width)), jnp.zeros((width, classes))
    labels = jnp.zeros(rows, jnp.int32)

    def largest(jaxpr):
        sizes = [variable.aval.size for equation in jaxpr.eqns for variable in equation.outvars]
        inner = [jax.tree.leaves(e.params, is_leaf=lambda p: hasattr(p, "jaxpr")) for e in jaxpr.eqns]
        return max([*sizes, *(largest(p.jaxpr) for ps in inner for p in ps if hasattr(p, "jaxpr"))])

    for reduction in ("none", "mean"):
        loss = partial(jf.linear_softmax_focal_loss, labels=labels, chunk_size=size, reduction=reduction)
        traced = jax.make_jaxpr(jax.grad(lambda h, k, loss=loss: loss(h, k).sum(), argnums=(0, 1)))(*operands)
        assert largest(traced.jaxpr) == size * classes


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_edges(reduction):
    loss = partial(jf.linear_softmax_focal_loss, reduction=reduction)
    gradients = jax.grad(lambda *a: loss(*a).sum(), argnums=(0, 1))
    nothing = np.zeros((0, D)), KERNEL, np.zeros(0, int)
    assert loss(*nothing).shape == ((0,) if reduction == "none" else ())
    assert [g.shape for g in gradients(*nothing)] == [(0, D), (D, V)]
    assert not np.any(gradients(*nothing)[1])
    one_class = HIDDEN, KERNEL[:, :1], np.zeros(N, int)
    assert not np.any(loss(*one_class))
    assert not any(np.any(g) for g in gradients(*one_class))
    ignored = partial(loss, ignore_index=-1)
    labels = np.full(N, -1)
    assert not np.any(ignored(HIDDEN, KERNEL, labels))
    assert not any(np.any(g) for g in jax.grad(lambda *a: ignored(*a, labels).sum(), argnums=(0, 1))(HIDDEN, KERNEL))


def test_a_row_of_one_example():
    hidden, label = HIDDEN[0, 0], np.array(3)
    expected = jf.softmax_focal_loss(hidden @ KERNEL, label)
    np.testing.assert_allclose(jf.linear_softmax_focal_loss(hidden, KERNEL, label), expected, rtol=1e-14)


def test_traced_label_out_of_range_is_nan_in_its_row():
    labels = LABELS.copy()
    labels[1, 2] = V
    gradient = jax.grad(lambda h, y: jf.linear_softmax_focal_loss(h, KERNEL, y, chunk_size=4).sum())
    expected = np.zeros(HIDDEN.shape, bool)
    expected[1, 2] = True
    np.testing.assert_array_equal(np.isnan(jax.jit(gradient)(HIDDEN, labels)), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": KERNEL.T}, "hidden (..., d) and kernel (d, v) must share d, got hidden of shape (3, 7, 4)"),
        ({"kernel": KERNEL.astype(np.float32)}, "kernel must have the dtype of hidden, float64, got dtype float32"),
        ({"kernel": np.zeros((D, 0))}, "kernel must have at least one class, got shape (4, 0)"),
        ({"hidden": np.zeros((*N, D), int)}, "hidden must be floating point, got dtype int64"),
        (
            {"labels": LABELS.ravel()},
            "integer labels must have the shape of logits (3, 7, 11) without the class axis 2",
        ),
        ({"labels": np.zeros((*N, V))}, "labels must be integer classes, got dtype float64"),
        ({"labels": LABELS + V}, "labels must be a class in [0, 11) (ignore_index is None), got labels[0, 0]"),
        ({"bias": np.zeros(D)}, "bias must have one value a class, shape (11,), got shape (4,)"),
        ({"gamma": -1.0}, "gamma must be >= 0 and finite, got gamma = -1.0"),
        ({"gamma": np.ones((3, 1))}, "gamma must be a scalar or have one value a class, got shape (3, 1)"),
        ({"chunk_size": 0}, "chunk_size must be an integer >= 1, got 0"),
        ({"chunk_size": 2.5}, "chunk_size must be an integer >= 1, got 2.5"),
        ({"weights": np.ones(5)}, "weights must broadcast to the shape of the loss, (3, 7), got shape (5,)"),
    ],
)
def test_bad_input(change, message):
    arguments = {"hidden": HIDDEN, "kernel": KERNEL, "labels": LABELS, **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        jf.linear_softmax_focal_loss(**arguments)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
import jaxfocal as jf
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
hidden, kernel, labels = rng.normal(size=(48, 16)), rng.normal(size=(16, 800)), rng.integers(0, 800, 48)
mesh = jax.make_mesh((8,), ("vocabulary",), axis_types=(jax.sharding.AxisType.Auto,))
split, everywhere = jax.NamedSharding(mesh, jax.P(None, "vocabulary")), jax.NamedSharding(mesh, jax.P())

def loss(hidden, kernel):
    return jf.linear_softmax_focal_loss(hidden, kernel, labels, chunk_size=16, reduction="mean")

def with_a_whole_kernel(hidden, kernel):
    return loss(hidden, jax.lax.with_sharding_constraint(kernel, everywhere))

def with_whole_logits(hidden, kernel):
    logits = jax.lax.with_sharding_constraint(hidden @ kernel, everywhere)
    return jf.softmax_focal_loss(logits, labels, reduction="mean")

right = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(hidden, kernel)
for program in (loss, with_a_whole_kernel, with_whole_logits):
    step = jax.jit(jax.value_and_grad(program, argnums=(0, 1)), in_shardings=(None, split))
    compiled = step.lower(hidden, kernel).compile()
    value, (hidden_dot, kernel_dot) = compiled(hidden, jax.device_put(kernel, split))
    for got, expected in zip((value, hidden_dot, kernel_dot), jax.tree.leaves(right)):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)
    print("PROGRAM", kernel_dot.sharding.spec == split.spec)
    print(compiled.as_text())
"""
COLLECTIVE = r" = (.*?) (all-gather|all-to-all|collective-permute|reduce-scatter|all-reduce)(?:-start)?\("


def moved_between_devices(program):
    """How many elements each collective operation of a compiled program moves, one number an operand."""
    return [
        (operation, np.prod([int(n) for n in shape.split(",") if n], dtype=int))
        for shapes, operation in re.findall(COLLECTIVE, program)
        for shape in re.findall(r"\[([\d,]*)\]", shapes)
    ]


def test_a_kernel_split_over_its_classes_is_not_gathered():
    """On 8 devices of one host: what travels is at most a chunk of rows by width, never logits or kernel."""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    result = subprocess.run(
        [sys.executable, "-c", SHARDED], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert result.returncode == 0, result.stderr
    chunked, *gathering = result.stdout.split("PROGRAM ")[1:]
    assert chunked.startswith("True\n")
    moved = moved_between_devices(chunked)
    assert {"all-reduce"} <= {operation for operation, _ in moved}
    assert all(size <= 48 * 16 for _, size in moved), moved
    for program in gathering:  # the same search finds the kernel, or the logits, where they do travel
        moved = moved_between_devices(program)
        assert any(operation == "all-gather" and size >= 16 * 800 for operation, size in moved), moved
