"""Images as torchvision prepares them, buckets of padded sizes, and boxes in arrays of fixed size."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from jaxfocal.detection import pad_boxes, preprocess, rescale_boxes, shape_buckets
from jaxfocal.detection.transform import resized_size


def photographs():
    """scikit-learn's two photographs, 427x640, one of them cut to a portrait."""
    datasets = pytest.importorskip("sklearn.datasets", reason="has two photographs")
    china, flower = (datasets.load_sample_image(name) / np.float32(255) for name in ("china.jpg", "flower.jpg"))
    return [china, flower[:, 100:411]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("min_size", "max_size"), [(800, 1333), (256, 300)])
def test_it_is_torchvisions_on_photographs(dtype, min_size, max_size):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.models.detection.transform import GeneralizedRCNNTransform, resize_boxes

    from jaxfocal.detection.transform import MEAN, STD

    images = [image.astype(dtype) for image in photographs()]
    transform = GeneralizedRCNNTransform(min_size, max_size, MEAN, STD)
    theirs, _ = transform([torch.tensor(image).permute(2, 0, 1) for image in images])
    ours = preprocess(images, min_size=min_size, max_size=max_size)
    assert ours.image_sizes.tolist() == [list(size) for size in theirs.image_sizes]
    assert ours.images.dtype == dtype
    expected = theirs.tensors.permute(0, 2, 3, 1).numpy()
    assert ours.images.shape == expected.shape
    np.testing.assert_allclose(ours.images, expected, atol=2e-4 if dtype == np.float32 else 1e-11)
    boxes = np.random.default_rng(0).uniform(0, 400, (20, 4)).astype(np.float32)
    sizes = (427, 640), resized_size((427, 640), min_size, max_size)
    np.testing.assert_array_equal(rescale_boxes(boxes, *sizes), resize_boxes(torch.tensor(boxes), *sizes).numpy())


def test_buckets_hold_every_batch_and_are_few():
    """A thousand sizes of images, five of batches of one; the sixth is for two of them."""
    rng = np.random.default_rng(0)
    seen = set()
    for size in rng.integers(50, 2000, (1000, 2)).tolist():
        height, width = resized_size(tuple(size))
        fitting = [b for b in shape_buckets() if b[0] >= height and b[1] >= width]
        seen.add(min(fitting, key=lambda b: b[0] * b[1]))
    assert seen == set(shape_buckets()[:-1])
    photographs = [np.zeros((480, 640, 3), np.float32), np.zeros((640, 480, 3), np.float32)]
    assert preprocess(photographs, buckets=shape_buckets()).images.shape == (2, 1344, 1344, 3)
    assert [len(shape_buckets(800, longest)) for longest in (800, 801, 1333)] == [1, 4, 6]


def test_a_batch_takes_the_smallest_bucket():
    images = [np.zeros((60, 80, 3)), np.zeros((60, 60, 3))]
    batch = preprocess(images, min_size=60, max_size=100, buckets=shape_buckets(60, 100))
    assert shape_buckets(60, 100) == [(64, 64), (64, 96), (96, 64), (64, 128), (128, 64), (128, 128)]
    assert batch.images.shape == (2, 64, 96, 3)
    assert batch.image_sizes.tolist() == [[60, 80], [60, 60]]
    assert (batch.images[0, 60:] == 0).all()
    assert (batch.images[1, :, 60:] == 0).all()
    with pytest.raises(ValueError, match=r"buckets must hold the batch, .* \(60, 80\), got \[\(64, 64\)\]"):
        preprocess(images, min_size=60, max_size=100, buckets=[(64, 64)])


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ([[0.0, 0.5]], r"images must have shape \(height, width, 3\), got shape \(1, 2\) for image 0"),
        (np.zeros((8, 8)), r"images must have shape \(height, width, 3\), got shape \(8, 8\) for image 0"),
        (np.zeros((8, 8, 3), np.uint8), "floating point in [0, 1], got dtype uint8"),
        (np.zeros((8, 0, 3)), r"got shape \(8, 0, 3\)"),
    ],
)
def test_bad_images(image, message):
    with pytest.raises(ValueError, match=message if "\\" in message else re.escape(message)):
        preprocess([image])
    with pytest.raises(ValueError, match="at least one image"):
        preprocess([])


def test_pixels_up_to_255_are_warned_of():
    with pytest.warns(UserWarning, match=r"expected in \[0, 1\], got pixels up to 255 in image 1: are they 0 to 255"):
        preprocess([np.zeros((9, 9, 3)), np.full((9, 9, 3), 255.0)], min_size=9)


@pytest.mark.parametrize(
    ("boxes", "labels", "message"),
    [
        (np.ones((3, 4)) * [0, 0, 1, 1], np.zeros(3, int), "max_boxes must be at least the 3 boxes of image 0, got 2"),
        (np.zeros((1, 5)), np.zeros(1, int), r"boxes must be \(n, 4\) and labels \(n,\), got \(1, 5\) and \(1,\)"),
        (np.zeros((1, 4)), np.zeros(2, int), r"got \(1, 4\) and \(2,\) for image 0"),
        (np.array([[5.0, 5, 2, 9]]), np.zeros(1, int), r"x1 < x2 and y1 < y2, got \[5.0, 5.0, 2.0, 9.0\] at row 0"),
        (np.array([[5.0, 5, np.inf, 9]]), np.zeros(1, int), "must be finite"),
        (np.array([[5.0, 5, np.nan, 9]]), np.zeros(1, int), "must be finite"),
        (np.array([[5.0, 5, 7, 9]]), np.array([1.5]), r"integers from 0 on, got \[1.5\] for image 0"),
        (np.array([[5.0, 5, 7, 9]]), np.array([-1]), r"integers from 0 on, got \[-1\] for image 0"),
    ],
)
def test_boxes_that_do_not_fit(boxes, labels, message):
    with pytest.raises(ValueError, match=message):
        pad_boxes([boxes], [labels], 2)


def test_boxes_and_labels_of_other_numbers_of_images():
    with pytest.raises(ValueError, match="of as many images, got 2 and 1"):
        pad_boxes([np.zeros((0, 4))] * 2, [np.zeros(0, int)], 2)
    np.testing.assert_array_equal(pad_boxes([np.zeros((0, 4))], [np.zeros(0)], 2).valid, False)  # no label, any dtype


def test_an_image_without_boxes_does_not_widen_the_others():
    some, none = np.array([[0.0, 0, 5, 5]], np.float32), np.zeros((0, 4))
    assert pad_boxes([some, none], [np.array([1]), np.zeros(0, int)], 2).boxes.dtype == np.float32
    assert pad_boxes([some.astype(np.float64), none], [np.array([1]), np.zeros(0, int)], 2).boxes.dtype == np.float64
    stacked = pad_boxes(jnp.asarray(some)[None], jnp.ones((1, 1), jnp.int32), 2)
    np.testing.assert_array_equal(stacked.boxes[0], [[0, 0, 5, 5], [0, 0, 0, 0]])
