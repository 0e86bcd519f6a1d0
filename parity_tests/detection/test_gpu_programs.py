"""What XLA makes of the detector's losses for an NVIDIA GPU, read off a program that is compiled without one."""

import jax
import jax.numpy as jnp
import pytest

from jaxfocal.detection import RetinaNetOutputs, retinanet_loss
from parity_tests.gpu_programs import compile_for_gpu

pytest.importorskip("jax_plugins.xla_cuda12", reason="needs the CUDA plugin of JAX, and no GPU")

IMAGES, ANCHORS, CLASSES, BOXES = 2, 120_087, 91, 20


def test_the_losses_of_a_batch_pass_once_over_the_outputs(monkeypatch):
    """Matching, both losses and the gradients of both outputs: what the anchors add is small beside the logits."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def total(logits, deltas, *rest):
        return sum(retinanet_loss(RetinaNetOutputs(logits, deltas), *rest).values())

    shapes = [
        ((IMAGES, ANCHORS, CLASSES), jnp.float32),
        ((IMAGES, ANCHORS, 4), jnp.float32),
        ((ANCHORS, 4), jnp.float32),
        ((IMAGES, BOXES, 4), jnp.float32),
        ((IMAGES, BOXES), jnp.int32),
        ((IMAGES, BOXES), jnp.bool_),
    ]
    arguments = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    program = compile_for_gpu(jax.value_and_grad(total, argnums=(0, 1)), *arguments)
    assert program.moved < 1.3 * program.at_least
    assert program.temporaries < 0.1 * program.arguments
