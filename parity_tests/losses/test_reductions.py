"""What where, weights, reduction and normalizer mean, from identities that need no oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import BY_ID, CASES
from parity_tests.cases.softmax import CLASS_WEIGHTS

by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@pytest.fixture
def mask(request):
    case = request.getfixturevalue("case")
    mask = np.random.default_rng(5).uniform(size=case.shape) < 0.5
    assert 0 < mask.sum() < mask.size
    return mask


@by_case
def test_weights_multiply(case):
    logits, labels = case.example()
    weights = np.random.default_rng(6).uniform(0.5, 2, size=case.shape)
    plain = case.loss(logits, labels)
    np.testing.assert_allclose(case.loss(logits, labels, weights=weights), weights * plain, rtol=1e-15)
    mean = case.loss(logits, labels, weights=weights, reduction="mean")
    np.testing.assert_allclose(mean, np.average(plain, weights=weights), rtol=1e-14)


@by_case
def test_where_drops(case, mask):
    """As if the dropped elements were not there."""
    logits, labels = case.example()
    where = case.as_where(mask)
    if case.local:
        np.testing.assert_allclose(
            case.loss(logits, labels, where=where), np.where(mask, case.loss(logits, labels), 0), rtol=1e-14
        )
    if case.over == "logit" and not (case.local and case.state is None):  # whole rows: what is left is still an array
        mask = where = np.repeat(mask[:, :1], mask.shape[1], axis=1)
        rest = mask[:, 0]
    else:
        rest = mask
    plain = np.asarray(jax.jit(case.loss)(logits[rest], labels[rest]))
    for reduction, expected in (("none", plain.ravel()), ("sum", plain.sum()), ("mean", plain.mean())):
        got = case.loss(logits, labels, where=where, reduction=reduction)
        got = got[mask] if reduction == "none" else got
        np.testing.assert_allclose(got, expected, rtol=1e-14)


@by_case
def test_nothing_leaves_a_dropped_element(case, mask):
    """Neither its logits nor its label nor its weight reach a value or a gradient, of any argument."""
    logits, labels = case.example()
    weights = np.ones(case.shape)
    name, (*_, option) = case.sweep or ("normalizer", (1.0,))

    def loss(x, y, w, option):
        reduction = "sum" if name == "normalizer" else "mean"
        return case.loss(x, y, where=case.as_where(mask), weights=w, **{name: option}, reduction=reduction)

    value_and_gradients = jax.jit(jax.value_and_grad(loss, argnums=(0, 2, 3)))
    clean = value_and_gradients(logits, labels, weights, option)
    bad_labels = np.where(mask.reshape(mask.shape + (1,) * (labels.ndim - mask.ndim)), labels, -7)
    for poison in (np.nan, np.inf, -np.inf):
        bad_logits = np.where(case.like_logits(mask), logits, poison)
        bad_weights = np.where(mask, weights, poison)
        poisoned = value_and_gradients(bad_logits, bad_labels, bad_weights, option)
        jax.tree.map(np.testing.assert_array_equal, poisoned, clean)
    assert np.isfinite(loss(bad_logits, bad_labels, weights, option))


@by_case
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_nothing_kept_is_zero(case, jit):
    logits, labels = case.example()

    def loss(x, where):
        return case.loss(x, labels, where=where, reduction="mean")

    function = jax.value_and_grad(loss)
    value, gradient = (jax.jit(function) if jit else function)(logits, np.zeros(case.where_shape(logits.shape), bool))
    assert value == 0
    assert not np.any(gradient)


@by_case
def test_normalizer(case):
    logits, labels = case.example()
    total = case.loss(logits, labels, reduction="sum")
    normalized = jax.jit(lambda n: case.loss(logits, labels, reduction="sum", normalizer=n))
    for normalizer in (0.0, 0.5, 3.0, 10.0):
        np.testing.assert_allclose(normalized(normalizer), total / max(normalizer, 1), rtol=1e-14)
    of_integer = case.loss(logits, labels, reduction="sum", normalizer=np.int32(10))
    np.testing.assert_allclose(of_integer, total / 10, rtol=1e-14)


@by_case
def test_where_and_weights_broadcast(case):
    logits, labels = case.example()
    row = np.arange(len(logits))
    where = row.reshape((-1,) + (1,) * (len(case.where_shape(logits.shape)) - 1)) != 1
    weights = 0.5 + row.reshape((-1,) + (1,) * (len(case.shape) - 1))
    full = {
        "where": np.broadcast_to(where, case.where_shape(logits.shape)),
        "weights": np.broadcast_to(weights, case.shape),
    }
    for reduction in ("none", "sum", "mean"):
        np.testing.assert_array_equal(
            case.loss(logits, labels, where=where, weights=weights, reduction=reduction),
            case.loss(logits, labels, **full, reduction=reduction),
        )


def test_ignored_label_is_where():
    logits, labels = BY_ID["softmax_focal"].example()
    where = np.array([True, False, True, True])
    ignored = np.where(where, labels, 255)
    for reduction in ("none", "sum", "mean"):
        for smoothing in (0.0, 0.1):
            options = {"reduction": reduction, "label_smoothing": smoothing, "class_weights": CLASS_WEIGHTS}
            np.testing.assert_array_equal(
                jf.softmax_focal_loss(logits, ignored, ignore_index=255, **options),
                jf.softmax_focal_loss(logits, labels, where=where, **options),
            )


def test_a_class_can_be_ignored():
    logits, labels = np.zeros((3, 4)), np.array([1, 2, 1])
    loss = jf.softmax_focal_loss(logits, labels, ignore_index=1)
    assert loss[0] == loss[2] == 0
    assert loss[1] > 0


@by_case
def test_mean_under_shard_map_is_a_sum_with_a_shared_normalizer(case):
    """What the documentation tells users of several devices to write."""
    logits, labels = case.example()
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.P("data")

    def local(x, y):
        count = jax.lax.psum(jnp.float64(np.prod(case.loss_shape(x.shape))), "data")
        return jax.lax.psum(case.loss(x, y, reduction="sum", normalizer=count), "data")

    mapped = jax.shard_map(local, mesh=mesh, in_specs=(rows, rows), out_specs=jax.P())
    np.testing.assert_allclose(jax.jit(mapped)(logits, labels), case.loss(logits, labels, reduction="mean"), rtol=1e-14)
