"""Suppression keeps what torchvision's loop over the classes keeps, in the same order."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfocal.detection.boxes import pairwise_iou
from jaxfocal.detection.nms import batched_nms


@partial(jax.jit, static_argnames=("iou_threshold", "max_outputs"))
def nms(boxes, scores, classes, valid=None, *, iou_threshold=0.5, max_outputs):
    return batched_nms(boxes, scores, classes, iou_threshold=iou_threshold, max_outputs=max_outputs, valid=valid)


def kept(*arrays, **options):
    indices, valid = nms(*arrays, **options)
    count = int(valid.sum())
    assert valid[:count].all()
    return np.asarray(indices)[:count]


def candidates(count, seed, *, kind="fractional", num_classes=3, dtype=np.float32):
    """Boxes in clusters, so that chains of suppression form."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0, 300, (max(count // 12, 1), 2))[rng.integers(0, max(count // 12, 1), count)]
    centre = centre + rng.normal(0, 8, (count, 2))
    half = rng.uniform(5, 40, (count, 2))
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    boxes = {"integer": np.round(boxes), "coarse": 10 * np.round(boxes / 10)}.get(kind, boxes)
    scores = rng.permutation(count) / count
    return boxes.astype(dtype), scores.astype(dtype), rng.integers(0, num_classes, count)


def torch_kept(boxes, scores, classes, threshold):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.ops.boxes import _batched_nms_vanilla

    return _batched_nms_vanilla(*map(torch.tensor, (boxes, scores, classes)), threshold).numpy()


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("kind", ["fractional", "integer", "coarse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_torchvisions(threshold, kind, dtype):
    """On a coarse grid many overlaps are exactly 3/10 or 1/2: they are not suppressed, or are, as torchvision does."""
    for seed in range(3):
        arrays = candidates(700, seed, kind=kind, dtype=dtype)
        theirs = torch_kept(*arrays, threshold)
        np.testing.assert_array_equal(kept(*arrays, iou_threshold=threshold, max_outputs=700), theirs)


def test_the_best_alone():
    arrays = candidates(700, 0)
    np.testing.assert_array_equal(kept(*arrays, max_outputs=90), torch_kept(*arrays, 0.5)[:90])


def loop(boxes, scores, classes, threshold):
    iou, alive, result = np.asarray(pairwise_iou(boxes, boxes)), np.ones(len(boxes), bool), []
    for i in np.argsort(-scores, kind="stable"):
        if alive[i]:
            result.append(i)
            alive &= ~((iou[i] > threshold) & (classes == classes[i]))
    return result


@pytest.mark.parametrize("count", [1, 255, 256, 257, 520])
def test_it_is_the_plain_loop_whatever_the_number_of_blocks(count):
    boxes, scores, classes = candidates(count, count, num_classes=1, dtype=np.float64)
    tied = np.round(scores, 1)  # of equal scores the first
    np.testing.assert_array_equal(kept(boxes, tied, classes, max_outputs=count), loop(boxes, tied, classes, 0.5))


def test_a_chain_as_long_as_a_block():
    """Each box suppresses the next alone, so that every second one is kept."""
    start = np.arange(300.0)[:, None] * 3
    boxes = np.concatenate([start, 0 * start, start + 10, 0 * start + 10], axis=1)
    indices = kept(boxes, np.linspace(1, 0, 300), np.zeros(300, int), max_outputs=300)
    np.testing.assert_array_equal(indices, np.arange(0, 300, 2))


def test_rows_that_are_no_candidates():
    boxes, scores, classes = candidates(300, 1)
    valid = np.random.default_rng(2).random(300) < 0.4
    ours = kept(boxes, scores, classes, valid, max_outputs=300)
    np.testing.assert_array_equal(
        ours, np.flatnonzero(valid)[kept(boxes[valid], scores[valid], classes[valid], max_outputs=300)]
    )
    assert kept(boxes, scores, classes, np.zeros(300, bool), max_outputs=5).size == 0


def test_boxes_without_area_and_nan_scores():
    boxes = np.array([[5.0, 5.0, 5.0, 9.0], [5.0, 5.0, 5.0, 9.0], [0.0, 0.0, 9.0, 9.0]])
    np.testing.assert_array_equal(kept(boxes, np.array([0.1, 0.2, np.nan]), np.zeros(3, int), max_outputs=3), [1, 0, 2])


def test_vmap_is_the_loop_over_images():
    images = [candidates(300, seed) for seed in range(3)]
    batch = tuple(map(np.stack, zip(*images, strict=True)))
    batched = jax.vmap(partial(nms, max_outputs=40))(*batch)
    for i, image in enumerate(images):
        for ours, alone in zip(batched, nms(*image, max_outputs=40), strict=True):
            np.testing.assert_array_equal(ours[i], alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes": jnp.zeros((0, 4))}, r"boxes must have shape \(n, 4\), n >= 1, got shape \(0, 4\)"),
        ({"boxes": jnp.zeros((2, 3, 4))}, "use jax.vmap for a batch"),
        ({"scores": jnp.zeros(2)}, r"scores must have shape \(3,\), one a box, got shape \(2,\)"),
        ({"classes": jnp.zeros((3, 1), int)}, r"classes must have shape \(3,\)"),
        ({"iou_threshold": 1.5}, r"iou_threshold must lie in \[0, 1\], got 1.5"),
        ({"max_outputs": 0}, "max_outputs must be at least 1, got 0"),
    ],
)
def test_bad_input(options, message):
    good = {"boxes": jnp.zeros((3, 4)), "scores": jnp.zeros(3), "classes": jnp.zeros(3, int)}
    with pytest.raises(ValueError, match=message):
        batched_nms(**(good | {"iou_threshold": 0.5, "max_outputs": 3} | options))
