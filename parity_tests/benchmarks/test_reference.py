"""The float64 formulas: the value against the definition, the gradient against finite differences of the value."""

import numpy as np
import pytest

from benchmarks import _reference
from benchmarks._reference import (
    dice_mean,
    linear_softmax_focal_mean,
    sigmoid_focal_hvp,
    sigmoid_focal_sum,
    softmax_focal_mean,
)

STEP = 1e-5


def differences(value_of, logits):
    """Central differences; their error is of order STEP**2 and 1e-16 / STEP."""
    slopes = np.zeros_like(logits)
    for index in np.ndindex(logits.shape):
        shift = np.zeros_like(logits)
        shift[index] = STEP
        slopes[index] = (value_of(logits + shift) - value_of(logits - shift)) / (2 * STEP)
    return slopes


@pytest.mark.parametrize("labels", [np.array([[0, 1, 0]], np.uint8), np.array([[0.0, 0.7, 1.0]])], ids=["hard", "soft"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_sigmoid(labels, gamma):
    logits, y, alpha = np.array([[-1.3, 0.4, 2.1]]), labels.astype(np.float64), 0.25
    p = 1 / (1 + np.exp(-logits))
    p_t = p * y + (1 - p) * (1 - y)
    cross_entropy = -y * np.log(p) - (1 - y) * np.log(1 - p)
    weight = alpha * y + (1 - alpha) * (1 - y)
    outputs = sigmoid_focal_sum(logits, labels, gamma, alpha)
    np.testing.assert_allclose(outputs["value"], np.sum(weight * (1 - p_t) ** gamma * cross_entropy), rtol=1e-14)
    slopes = differences(lambda x: sigmoid_focal_sum(x, labels, gamma, alpha)["value"], logits)
    np.testing.assert_allclose(outputs["gradient"], slopes, atol=1e-9)


def test_sigmoid_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(5, 3)), rng.integers(0, 2, (5, 3))
    whole = sigmoid_focal_sum(logits, labels, 2.0, 0.25)
    monkeypatch.setattr(_reference, "BLOCK", 4)
    blocks = sigmoid_focal_sum(logits, labels, 2.0, 0.25)
    np.testing.assert_allclose(blocks["value"], whole["value"], rtol=1e-14)
    np.testing.assert_array_equal(blocks["gradient"], whole["gradient"])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_sigmoid_second_derivative(gamma):
    logits, labels, alpha = np.array([-3.1, -1.3, 0.4, 2.1]), np.array([1, 0, 1, 0]), 0.25
    direction = np.array([1.0, -2.0, 3.0, 0.5])

    def slope(x):
        return sigmoid_focal_sum(x, labels, gamma, alpha)["gradient"]

    expected = (slope(logits + STEP) - slope(logits - STEP)) / (2 * STEP) * direction
    outputs = sigmoid_focal_hvp(logits, labels, direction, gamma, alpha)
    np.testing.assert_allclose(outputs["hvp"], expected, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_softmax(gamma):
    logits, labels = np.array([[0.3, -1.0, 2.0], [1.0, 1.5, -0.5]]), np.array([2, 0])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    p_t = p[np.arange(2), labels]
    outputs = softmax_focal_mean(logits, labels, gamma)
    np.testing.assert_allclose(outputs["value"], np.mean((1 - p_t) ** gamma * -np.log(p_t)), rtol=1e-14)
    slopes = differences(lambda x: softmax_focal_mean(x, labels, gamma)["value"], logits)
    np.testing.assert_allclose(outputs["gradient"], slopes, atol=1e-9)


def test_dice():
    rng = np.random.default_rng(0)
    logits, labels, smooth = rng.normal(size=(2, 2, 3, 4)), rng.integers(0, 4, (2, 2, 3)), 0.1
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    t = np.eye(4)[labels]
    overlap, sizes = (p * t).sum(axis=(1, 2)), (p + t).sum(axis=(1, 2))
    outputs = dice_mean(logits, labels, smooth)
    expected = np.mean(1 - (2 * overlap + smooth) / (sizes + smooth))
    np.testing.assert_allclose(outputs["value"], expected, rtol=1e-13)
    slopes = differences(lambda x: dice_mean(x, labels, smooth)["value"], logits)
    np.testing.assert_allclose(outputs["gradient"], slopes, atol=1e-9)


def test_linear():
    rng = np.random.default_rng(0)
    hidden, kernel, labels = rng.normal(size=(300, 2)), rng.normal(size=(2, 3)), rng.integers(0, 3, 300)
    outputs = linear_softmax_focal_mean(hidden, kernel, labels, 2.0)
    np.testing.assert_allclose(outputs["value"], softmax_focal_mean(hidden @ kernel, labels, 2.0)["value"], rtol=1e-13)
    slopes = differences(lambda k: linear_softmax_focal_mean(hidden, k, labels, 2.0)["value"], kernel)
    np.testing.assert_allclose(outputs["kernel gradient"], slopes, atol=1e-9)
    slopes = differences(lambda h: linear_softmax_focal_mean(h, kernel, labels[:4], 2.0)["value"], hidden[:4])
    few = linear_softmax_focal_mean(hidden[:4], kernel, labels[:4], 2.0)
    np.testing.assert_allclose(few["hidden gradient"], slopes, atol=1e-9)
