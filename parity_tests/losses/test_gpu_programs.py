"""What XLA makes of the losses for an NVIDIA GPU, read off programs that are compiled without one.

An elementwise loss must be one pass over memory: logits and labels in, gradient out, and no array between.
"""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import jaxfocal as jf
from parity_tests.cases import BY_ID, CASES
from parity_tests.gpu_programs import compile_for_gpu

pytest.importorskip("jax_plugins.xla_cuda12", reason="needs the CUDA plugin of JAX, and no GPU")

SHAPE = (2**22, 5)  # more than the cache of the device holds: an array between is no longer cheap to keep
LOGITS = jax.ShapeDtypeStruct(SHAPE, jnp.float32)
ELEMENTWISE = [case.id for case in CASES if case.over == "logit" and case.local]


@pytest.fixture(autouse=True)
def traced_on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def labels_of(case):
    kind = case.example()[1].dtype.kind
    return jax.ShapeDtypeStruct(SHAPE, jnp.float32 if kind == "f" else jnp.uint8)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_value_and_gradient_of_an_elementwise_loss_are_one_pass(name):
    case = BY_ID[name]
    program = compile_for_gpu(jax.value_and_grad(partial(case.loss, reduction="sum")), LOGITS, labels_of(case))
    assert program.moved < 1.01 * program.at_least
    assert program.temporaries < 0.01 * program.arguments


@pytest.mark.parametrize("labels", [jnp.uint8, jnp.float32])
def test_half_precision_is_not_widened_in_memory(labels):
    shapes = (jax.ShapeDtypeStruct(SHAPE, dtype) for dtype in (jnp.bfloat16, labels))
    program = compile_for_gpu(jax.value_and_grad(partial(jf.sigmoid_focal_loss, reduction="sum")), *shapes)
    assert program.moved < 1.01 * program.at_least
    assert program.temporaries < 0.01 * program.arguments


def test_the_second_derivative_is_one_pass():
    def product(logits, labels, tangent):
        gradient = jax.grad(lambda x: jf.sigmoid_focal_loss(x, labels, reduction="sum"))
        return jax.jvp(gradient, (logits,), (tangent,))[1]

    program = compile_for_gpu(product, LOGITS, jax.ShapeDtypeStruct(SHAPE, jnp.uint8), LOGITS)
    assert len(program.kernels) == 1
    assert program.moved < 1.01 * program.at_least


@pytest.mark.parametrize("shape", [(200_000, 21), (8192, 1000), (1024, 50257)])
def test_the_softmax_loss_reads_its_logits_twice_and_keeps_none(shape):
    logits, labels = jax.ShapeDtypeStruct(shape, jnp.float32), jax.ShapeDtypeStruct(shape[:1], jnp.int32)
    program = compile_for_gpu(jax.value_and_grad(partial(jf.softmax_focal_loss, reduction="mean")), logits, labels)
    rows, array = 4 * shape[0], 4 * shape[0] * shape[1]
    assert program.temporaries < max(8 * rows, 0.01 * array)
    # the row's sums, the label's logit (one a row, but counted whole), and the gradient
    assert sum(kernel.bytes >= array for kernel in program.kernels) == 3


def test_smoothed_labels_read_the_logits_four_times_and_keep_none():
    logits, labels = jax.ShapeDtypeStruct((65536, 1000), jnp.float32), jax.ShapeDtypeStruct((65536,), jnp.int32)
    loss = partial(jf.softmax_focal_loss, label_smoothing=0.1, reduction="mean")
    program = compile_for_gpu(jax.value_and_grad(loss), logits, labels)
    array = 4 * logits.size
    assert program.temporaries < 0.01 * array
    # the top class, the sum of the others, the sum of the slopes; value and gradient together
    assert sum(kernel.bytes >= array for kernel in program.kernels) == 4
    assert program.moved < 5.1 * array


@pytest.mark.parametrize(("classes", "padded"), [(50304, False), (50257, True)])
def test_the_linear_loss_holds_logits_and_slope_of_one_chunk(classes, padded):
    """A sixteenth of the rows; where the classes are no multiple of 64, XLA pads kernel and slope for cuBLAS."""
    rows, width = 4096, 768
    hidden = jax.ShapeDtypeStruct((rows, width), jnp.float32)
    kernel = jax.ShapeDtypeStruct((width, classes), jnp.float32)
    labels = jax.ShapeDtypeStruct((rows,), jnp.int32)
    loss = partial(jf.linear_softmax_focal_loss, reduction="mean")
    program = compile_for_gpu(jax.value_and_grad(loss, argnums=(0, 1)), hidden, kernel, labels)
    chunk = 4 * (rows // 16) * classes
    held = 3 * chunk + 4 * width * classes if padded else 2 * chunk
    assert program.temporaries < 1.1 * held
