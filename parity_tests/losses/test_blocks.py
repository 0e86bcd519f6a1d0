"""The sum over blocks against the sum at once."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxfocal
from jaxfocal.losses import _blocks

from ..compiling import USUAL

CASES = [((3, 41, 5), "mean"), ((62, 4), "sum"), ((2, 64), "sum")]  # in blocks of 16 elements, or one row more
LOSSES = {
    "hard": lambda x, y, g, **o: jaxfocal.sigmoid_focal_loss(x, (y > 0.5).astype(jnp.uint8), gamma=g, alpha=0.3, **o),
    "soft": lambda x, y, g, **o: jaxfocal.sigmoid_focal_loss(x, y, gamma=g, **o),
    "quality": lambda x, y, g, **o: jaxfocal.quality_focal_loss(x, y, beta=g, **o),
    "asymmetric": lambda x, y, g, **o: jaxfocal.asymmetric_loss(x, y, gamma_neg=g, **o),
}


def everything(loss, reduction, case):
    """Value, gradients, a second derivative, forward mode and a batch, of one loss."""
    logits, labels, gamma, where, weights = case

    def value(logits, gamma, weights):
        return loss(logits, labels, gamma, where=where, weights=weights, reduction=reduction)

    def of_logits(x):
        return value(x, gamma, weights)

    return (
        jax.value_and_grad(value, (0, 1, 2))(logits, gamma, weights),
        jax.jvp(jax.grad(of_logits), (logits,), (labels,)),
        jax.vmap(of_logits)(jnp.stack([logits, 2 * logits])),
        jax.grad(lambda s: of_logits(s * logits))(1.0),
    )


@pytest.mark.parametrize(("shape", "reduction"), CASES, ids=str)
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_blocks_add_up_to_the_whole(loss, shape, reduction, monkeypatch):
    rng = np.random.default_rng(0)
    case = (
        jnp.asarray(rng.normal(size=shape)),
        jnp.asarray(rng.random(shape)),
        jnp.asarray(1 + rng.random(shape[-1:])),
        jnp.asarray(rng.random((shape[-2], 1)) < 0.7),
        jnp.asarray(rng.random((*shape[:-1], 1))),
    )
    whole = jax.jit(partial(everything, loss, reduction))(case)
    monkeypatch.setattr(_blocks, "BLOCK", 16)
    in_blocks = jax.jit(partial(everything, loss, reduction))
    assert "= scan[" in str(in_blocks.trace(case).jaxpr)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), in_blocks(case), whole)


def test_the_terms_of_a_large_loss_are_never_held():
    logits = jax.ShapeDtypeStruct((2, 16_384, 80), jnp.float32)
    labels = jax.ShapeDtypeStruct(logits.shape, jnp.uint8)
    loss = jax.jit(partial(jaxfocal.sigmoid_focal_loss, reduction="sum"))
    memory = loss.lower(logits, labels).compile(compiler_options=USUAL).memory_analysis()
    assert memory.temp_size_in_bytes <= 4 * logits.size / 8
    gradient = jax.jit(jax.value_and_grad(partial(jaxfocal.sigmoid_focal_loss, reduction="sum")))
    memory = gradient.lower(logits, labels).compile(compiler_options=USUAL).memory_analysis()
    assert memory.temp_size_in_bytes <= 4 * logits.size / 8


@pytest.mark.parametrize("rows", [62, 64])
def test_blocks_under_shard_map_over_one_device(rows, monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK", 16)
    mesh, rng = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,)), np.random.default_rng(0)
    logits, labels = rng.normal(size=(rows, 4)), rng.integers(2, size=(rows, 4))

    @partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=P())
    def loss(x, y):
        return jax.lax.psum(jaxfocal.sigmoid_focal_loss(x, y, reduction="sum"), "data")

    value, slope = jax.jit(jax.value_and_grad(loss))(logits, labels)
    terms = partial(jaxfocal.sigmoid_focal_loss, labels=labels)
    np.testing.assert_allclose(value, jnp.sum(terms(logits)), rtol=1e-12)
    np.testing.assert_allclose(slope, jax.vjp(terms, logits)[1](jnp.ones(logits.shape))[0], rtol=1e-12)


def test_no_blocks_where_an_axis_may_be_divided_among_devices(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK", 16)
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    loss = partial(jaxfocal.sigmoid_focal_loss, reduction="sum")
    jaxpr = str(jax.make_jaxpr(loss)(jnp.ones((64, 4)), jnp.ones((64, 4), jnp.int8)))
    assert "scan[" not in jaxpr
    assert "while[" not in jaxpr
