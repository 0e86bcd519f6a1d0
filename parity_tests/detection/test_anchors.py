"""Anchors are exactly torchvision's."""

from functools import partial

import jax
import numpy as np
import pytest

from jaxfocal.detection.anchors import RETINANET_SIZES, AnchorGenerator, cell_anchors

P3_CORNERS = [(23, 11), (28, 14), (35, 18), (16, 16), (20, 20), (25, 25), (11, 23), (14, 28), (18, 35)]
TOTALS = {(800, 1088): 163_206, (800, 1344): 201_600, (512, 512): 49_104, (256, 256): 12_276}


@partial(jax.jit, static_argnums=0)
def anchors(image_size):
    return AnchorGenerator()(image_size, feature_sizes(*image_size))


def feature_sizes(height, width):
    return [(-(-height // 2**k), -(-width // 2**k)) for k in range(3, 8)]


def test_sizes_are_rounded_down():
    assert RETINANET_SIZES == ((32, 40, 50), (64, 80, 101), (128, 161, 203), (256, 322, 406), (512, 645, 812))


def test_halves_of_the_smallest_level():
    np.testing.assert_array_equal(cell_anchors(RETINANET_SIZES[0], (0.5, 1.0, 2.0))[:, 2:], P3_CORNERS)


@pytest.mark.parametrize("image_size", TOTALS)
def test_totals(image_size):
    assert jax.eval_shape(lambda: anchors(image_size)).shape == (TOTALS[image_size], 4)


@pytest.mark.parametrize("image_size", [(256, 256), (800, 1088), (800, 1344), (96, 160), (104, 72)])
def test_anchors_are_torchvisions(image_size):
    """Sizes whose last levels have strides that are not 64 and 128 among them."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    from torchvision.models.detection.image_list import ImageList
    from torchvision.models.detection.retinanet import _default_anchorgen

    sizes = feature_sizes(*image_size)
    images = ImageList(torch.zeros(1, 3, *image_size), [image_size])
    (theirs,) = _default_anchorgen()(images, [torch.zeros(1, 1, *size) for size in sizes])
    ours = anchors(image_size)
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, theirs.numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: AnchorGenerator()((64, 64), [(8, 8)]),
            r"one size for each of the 5 levels of anchors, got 1: \[\(8, 8",
        ),
        (
            lambda: AnchorGenerator(((32,),))((64, 64), [(65, 8)]),
            r"between 1 and the image's \(64, 64\), got \(65, 8\)",
        ),
        (lambda: cell_anchors((), (1.0,)), "must be positive"),
        (lambda: cell_anchors((32,), (0.0,)), "must be positive"),
    ],
)
def test_bad_levels(call, message):
    with pytest.raises(ValueError, match=message):
        call()
