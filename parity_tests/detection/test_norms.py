"""Batch normalisation is PyTorch's: values, gradients, running statistics; frozen, with any epsilon."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxfocal.detection import BatchNorm, FrozenBatchNorm

X = np.random.default_rng(0).normal(2, 3, (2, 3, 5, 4))


def fill(module, rng):
    for leaf in ("scale", "bias", "mean", "var"):
        getattr(module, leaf)[...] = jnp.asarray(rng.uniform(0.5, 2, 4))
    return module


def test_training_and_running_statistics():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    ours = fill(BatchNorm(4, param_dtype=np.float64), np.random.default_rng(1))
    theirs = torch.nn.BatchNorm2d(4).double()
    names = {"scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
    theirs.load_state_dict({names[k]: torch.tensor(np.asarray(getattr(ours, k)[...])) for k in names}, strict=False)
    for train in (True, True, False):
        y = ours(jnp.asarray(X), train=train)
        expected = theirs.train(train)(torch.tensor(X).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).detach().numpy()
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    for leaf, name in names.items():
        np.testing.assert_allclose(getattr(ours, leaf)[...], theirs.state_dict()[name].numpy(), rtol=1e-13)
    assert ours.count[...] == theirs.num_batches_tracked.item() == 2


@pytest.mark.parametrize("eps", [1e-5, 0.0])
def test_frozen(eps):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.ops import FrozenBatchNorm2d

    ours = fill(FrozenBatchNorm(4, eps=eps, param_dtype=np.float64), np.random.default_rng(2))
    theirs = FrozenBatchNorm2d(4, eps=eps).double()
    names = {"scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
    theirs.load_state_dict({names[k]: torch.tensor(np.asarray(getattr(ours, k)[...])) for k in names})
    expected = theirs(torch.tensor(X).permute(0, 3, 1, 2)).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(ours(jnp.asarray(X), train=True), expected, rtol=1e-12, atol=1e-12)
    assert not jax.tree.leaves(nnx.state(ours, nnx.Param))


def test_bfloat16_stays_so_and_its_statistics_are_float32():
    norm = BatchNorm(4)
    y = norm(jnp.asarray(X + 100, jnp.bfloat16), train=True)
    assert y.dtype == jnp.bfloat16
    wide = np.asarray(jnp.asarray(X + 100, jnp.bfloat16), np.float64)
    np.testing.assert_allclose(norm.mean[...], 0.1 * wide.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(norm.var[...], 0.9 + 0.1 * wide.var((0, 1, 2), ddof=1), rtol=1e-4)


def test_a_single_value_cannot_be_normalised():
    with pytest.raises(ValueError, match=r"more than one value a channel, got a batch of shape \(1, 1, 1, 4\)"):
        BatchNorm(4)(jnp.zeros((1, 1, 1, 4)), train=True)
