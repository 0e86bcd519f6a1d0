"""Hard example mining and balanced sampling: how many, which, how evenly, and that no gradient leaks."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf

SEEDS = range(20)
N = 40

jit_hardest = jax.jit(lambda losses, k, where=None: jf.ohem_mask(losses, num_samples=k, where=where))
jit_ratio = jax.jit(lambda losses, labels, ratio: jf.ohem_mask(losses, labels, negative_ratio=ratio))


def example(seed):
    """Distinct losses, labels of -1, 0 and several positives in changing shares, and a mask."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([1.0, 1, 1, 1])
    return rng.exponential(size=N), rng.choice([-1, 0, 1, 2], N, p=shares), rng.uniform(size=N) < 0.6


def hardest(losses, candidates, k):
    """The definition, in a loop: the largest losses, the first of equal ones."""
    chosen = sorted(np.flatnonzero(candidates), key=lambda i: (-losses[i], i))[:k]
    return np.isin(np.arange(len(losses)), chosen)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_hardest(seed):
    losses, _, where = example(seed)
    for k in (0, 1, 7, N, 10 * N):
        np.testing.assert_array_equal(jit_hardest(losses, k), hardest(losses, np.ones(N), k))
        np.testing.assert_array_equal(jit_hardest(losses, k, where), hardest(losses, where, k))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ratio", [0.0, 0.5, 3.0, 1e9])
def test_all_positives_and_the_hardest_negatives(seed, ratio):
    losses, labels, _ = example(seed)
    positive = labels >= 1
    expected = positive | hardest(losses, labels == 0, int(min(ratio * positive.sum(), N)))
    np.testing.assert_array_equal(jit_ratio(losses, labels, ratio), expected)


def test_where_and_labels_together():
    losses, labels, where = example(3)
    got = jax.jit(jf.ohem_mask)(losses, labels, negative_ratio=1.5, where=where)
    positive = where & (labels >= 1)
    assert positive.sum() > 1
    expected = positive | hardest(losses, where & (labels == 0), int(1.5 * positive.sum()))
    np.testing.assert_array_equal(got, expected)
    got = jax.jit(jf.ohem_mask)(losses, labels, num_samples=9, where=where)
    np.testing.assert_array_equal(got, hardest(losses, where & (labels >= 0), 9))


def test_no_positives_means_no_negatives():
    assert not jit_ratio(np.arange(1.0, N + 1), np.zeros(N, int), 3.0).any()


def test_bool_labels():
    losses, labels, _ = example(1)
    labels = np.abs(labels)
    np.testing.assert_array_equal(jit_ratio(losses, labels >= 1, 2.0), jit_ratio(losses, labels, 2.0))


@pytest.mark.parametrize("k", range(7))
def test_of_equal_losses_the_first_and_exactly_so_many(k):
    losses = np.array([1.0, 2.0, 1.0, 0.0, 1.0, -0.0])
    got = np.asarray(jit_hardest(losses, k))
    assert got.sum() == k
    np.testing.assert_array_equal(np.flatnonzero(got), sorted([1, 0, 2, 4, 3, 5][:k]))


def test_nan_is_hardest_and_infinities_have_their_place():
    losses = np.array([5.0, -np.inf, np.nan, np.inf, np.nan, 7.0])
    order = [2, 3, 4, 5, 0, 1]
    for k in range(7):
        np.testing.assert_array_equal(np.flatnonzero(jit_hardest(losses, k)), sorted(order[:k]))
    only_the_softest = np.array([False, True, False, False, False, False])
    np.testing.assert_array_equal(jit_hardest(losses, 3, only_the_softest), only_the_softest)


def test_the_whole_array_is_one_pool_and_vmap_chooses_in_each_image():
    losses = np.random.default_rng(0).exponential(size=(3, 4, 5))
    labels = np.random.default_rng(1).integers(-1, 2, losses.shape)
    choose = partial(jf.ohem_mask, num_samples=6)
    np.testing.assert_array_equal(choose(losses).ravel(), choose(losses.ravel()))
    each = jax.jit(jax.vmap(choose))(losses)
    np.testing.assert_array_equal(each, [hardest(row, np.ones(20), 6).reshape(4, 5) for row in losses.reshape(3, 20)])
    assert each.shape == losses.shape
    each = jax.jit(jax.vmap(partial(jf.ohem_mask, negative_ratio=1.0)))(losses, labels)
    np.testing.assert_array_equal(each, [jit_ratio(x, y, 1.0) for x, y in zip(losses, labels, strict=True)])


@pytest.mark.parametrize("k", [np.uint8(2), np.int64(2), jnp.uint32(2), 2])
def test_any_integer_is_a_number_of_samples(k):
    np.testing.assert_array_equal(jf.ohem_mask(np.arange(300.0), num_samples=k), np.arange(300) >= 298)


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_little_to_choose_from(shape):
    losses, labels = np.ones(shape), np.ones(shape, int)
    everything = np.ones(shape, bool)
    np.testing.assert_array_equal(jf.ohem_mask(losses, num_samples=2), everything)
    np.testing.assert_array_equal(jf.ohem_mask(losses, labels, negative_ratio=3), everything)
    got = jf.balanced_sample_mask(jax.random.key(0), labels, num_samples=4, positive_fraction=0.5)
    np.testing.assert_array_equal(got, everything)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_low_precision_losses(dtype):
    losses = jnp.asarray([1, 3, 2, 3, 0], dtype)
    np.testing.assert_array_equal(jf.ohem_mask(losses, num_samples=2), [False, True, False, True, False])


def test_the_gradient_is_that_of_the_chosen_alone():
    logits = np.random.default_rng(5).normal(size=N)
    labels = example(5)[1]

    def loss(x, mask=None):
        losses = jf.sigmoid_focal_loss(x, labels >= 1)
        mask = jf.ohem_mask(losses, labels, negative_ratio=3) if mask is None else mask
        return jf.sigmoid_focal_loss(x, labels >= 1, where=mask, reduction="mean"), mask

    with jax.debug_nans(True):
        gradient, mask = jax.jit(jax.grad(loss, has_aux=True))(logits)
    assert 0 < mask.sum() < N
    np.testing.assert_array_equal(gradient != 0, mask)
    np.testing.assert_allclose(gradient, jax.jit(jax.grad(loss, has_aux=True))(logits, mask)[0], rtol=1e-14)


def test_nothing_flows_back_through_the_choice():
    losses, labels, _ = example(0)

    def total(x):
        return jnp.sum(x * jf.ohem_mask(x, labels, negative_ratio=2.0).astype(x.dtype))

    mask = jit_ratio(losses, labels, 2.0)
    np.testing.assert_array_equal(jax.grad(total)(losses), np.asarray(mask, float))
    np.testing.assert_array_equal(jax.jvp(total, (losses,), (np.ones(N),))[1], mask.sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_ohem_as_in_mmdetection(seed):
    """Its OHEMSampler: ``loss.topk(num_expected)`` among the candidates."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    import torchref

    losses, labels, where = example(seed)
    theirs = np.zeros(N, bool)
    candidates = np.flatnonzero(where)
    k = min(8, len(candidates))
    theirs[candidates[torch.tensor(losses[candidates]).topk(k).indices.numpy()]] = True
    np.testing.assert_array_equal(jit_hardest(losses, 8, where), theirs)

    of_torch = partial(torchref.ohem_mask, torch.tensor(losses))
    np.testing.assert_array_equal(of_torch(num_samples=8, where=torch.tensor(where)), theirs)
    for ratio in (0.5, 3.0):
        got = of_torch(torch.tensor(labels), negative_ratio=ratio)
        np.testing.assert_array_equal(jit_ratio(losses, labels, ratio), got)
    tied = np.array([1.0, np.nan, 1.0, np.inf, 0.0, 1.0])
    for k in range(7):
        np.testing.assert_array_equal(jit_hardest(tied, k), torchref.ohem_mask(torch.tensor(tied), num_samples=k))


@pytest.mark.parametrize(("num_samples", "fraction"), [(8, 0.5), (10, 0.29), (0, 0.5), (100, 1.0)])
def test_as_many_as_torchvision_samples(num_samples, fraction):
    torch = pytest.importorskip("torch", reason="compares with PyTorch and torchvision")
    import torchvision

    import torchref

    options = {"num_samples": num_samples, "positive_fraction": fraction}
    sample = jax.jit(partial(jf.balanced_sample_mask, **options))
    sampler = torchvision.models.detection._utils.BalancedPositiveNegativeSampler(num_samples, fraction)
    for seed in range(60):
        _, labels, _ = example(seed)
        mask = np.asarray(sample(jax.random.key(seed), labels))
        of_torch = torchref.balanced_sample_mask(torch.Generator().manual_seed(seed), torch.tensor(labels), **options)
        (positive,), (negative,) = sampler([torch.tensor(labels)])
        for chosen in (mask, of_torch.numpy()):
            assert not chosen[labels < 0].any()
            assert chosen[labels >= 1].sum() == positive.sum()
            assert chosen[labels == 0].sum() == negative.sum()


def test_every_choice_is_equally_likely():
    """Six positives of which two are drawn, 15 pairs; five negatives of which two are drawn, 10 pairs.

    Over T draws, the chi-square statistic of K equally likely outcomes has mean K - 1 and variance below 2 (K - 1):
    six standard deviations are not reached by chance, and with this seed it is always the same number.
    """
    labels = np.array([1, 0, 1, 0, -1, 1, 0, 2, 0, 1, 0, 1])
    draws = 6000
    sample = partial(jf.balanced_sample_mask, num_samples=4, positive_fraction=0.5)
    masks = np.asarray(jax.jit(jax.vmap(sample, (0, None)))(jax.random.split(jax.random.key(0), draws), labels))
    powers = 2 ** np.arange(12)
    codes = {}
    for kind, pairs in ((labels >= 1, 15), (labels == 0, 10)):
        codes[pairs] = (masks * kind) @ powers
        counts = np.unique(codes[pairs], return_counts=True)[1]
        assert len(counts) == pairs
        statistic = np.sum((counts - draws / pairs) ** 2) / (draws / pairs)
        assert abs(statistic - (pairs - 1)) < 6 * np.sqrt(2 * (pairs - 1))
    joint = np.unique(codes[15] + codes[10], return_counts=True)[1]  # positives say nothing about negatives
    assert len(joint) == 150
    assert abs(np.sum((joint - draws / 150) ** 2) / (draws / 150) - 149) < 6 * np.sqrt(2 * 149)


def test_the_key_decides():
    labels = np.arange(200) % 2
    sample = jax.jit(partial(jf.balanced_sample_mask, num_samples=20, positive_fraction=0.5))
    first, again, other = (np.asarray(sample(jax.random.key(seed), labels)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    np.testing.assert_array_equal(sample(jax.random.PRNGKey(1), labels), first)
    keys = jax.random.split(jax.random.key(3), 4)
    of_images = jax.jit(jax.vmap(sample))(keys, labels.reshape(4, 50))
    np.testing.assert_array_equal(of_images, [sample(k, y) for k, y in zip(keys, labels.reshape(4, 50), strict=True)])
    assert np.all(of_images.sum(axis=1) == 20)
    np.testing.assert_array_equal(sample(jax.random.key(1), labels == 1), first)


X, Y = np.zeros(3), np.zeros(3, int)
BAD_OHEM = {
    "nothing given": ((X, Y), {}, "exactly one of num_samples and negative_ratio must be given, got neither"),
    "both": (
        (X, Y),
        {"num_samples": 1, "negative_ratio": 3},
        "exactly one of num_samples and negative_ratio must be given, got both",
    ),
    "ratio without labels": ((X,), {"negative_ratio": 3}, "negative_ratio needs labels, got labels=None"),
    "integer losses": ((Y,), {"num_samples": 1}, "losses must be floating point, got dtype int64"),
    "labels shape": ((X, Y[:2]), {"negative_ratio": 3}, "labels must have the shape of losses, (3,), got shape (2,)"),
    "float labels": ((X, X), {"negative_ratio": 3}, "labels must be bool or integer, got dtype float64"),
    "negative number": ((X,), {"num_samples": -1}, "num_samples must be >= 0 and finite, got num_samples = -1"),
    "fractional number": (
        (X,),
        {"num_samples": 1.5},
        "num_samples must be an integer scalar, got dtype float64 and shape ()",
    ),
    "several numbers": (
        (X,),
        {"num_samples": np.array([1])},
        "num_samples must be an integer scalar, got dtype int64 and shape (1,)",
    ),
    "negative ratio": (
        (X, Y),
        {"negative_ratio": -3.0},
        "negative_ratio must be >= 0 and finite, got negative_ratio = -3.0",
    ),
    "infinite ratio": (
        (X, Y),
        {"negative_ratio": np.inf},
        "negative_ratio must be >= 0 and finite, got negative_ratio = inf",
    ),
    "several ratios": ((X, Y), {"negative_ratio": X}, "negative_ratio must be a scalar, got shape (3,)"),
    "where of integers": ((X,), {"num_samples": 1, "where": Y}, "where must be bool, got dtype int64"),
    "where shape": (
        (X,),
        {"num_samples": 1, "where": np.ones(2, bool)},
        "where must broadcast to the shape of losses, (3,), got shape (2,)",
    ),
}
BAD_SAMPLE = {
    "float labels": (X, {}, "labels must be bool or integer, got dtype float64"),
    "negative number": (Y, {"num_samples": -1}, "num_samples must be a Python integer >= 0, got -1"),
    "fractional number": (Y, {"num_samples": 2.0}, "num_samples must be a Python integer >= 0, got 2.0"),
    "fraction above 1": (Y, {"positive_fraction": 1.5}, "positive_fraction must be a Python number in [0, 1], got 1.5"),
    "fraction nan": (Y, {"positive_fraction": np.nan}, "positive_fraction must be a Python number in [0, 1], got nan"),
    "fraction as an array": (Y, {"positive_fraction": X}, "positive_fraction must be a Python number in [0, 1], got "),
}


@pytest.mark.parametrize(("arguments", "options", "message"), BAD_OHEM.values(), ids=BAD_OHEM)
def test_bad_input_of_ohem(arguments, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        jf.ohem_mask(*arguments, **options)


@pytest.mark.parametrize(("labels", "options", "message"), BAD_SAMPLE.values(), ids=BAD_SAMPLE)
def test_bad_input_of_sampling(labels, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        jf.balanced_sample_mask(jax.random.key(0), labels, **{"num_samples": 4, "positive_fraction": 0.5, **options})


def test_a_traced_number_of_samples_is_refused():
    with pytest.raises(ValueError, match="num_samples must be a Python integer"):
        jax.jit(lambda n: jf.balanced_sample_mask(jax.random.key(0), Y, num_samples=n, positive_fraction=0.5))(3)
