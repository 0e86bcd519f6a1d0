"""Value and gradient of the focal losses in float64, in numpy, from the closed forms: no provider's code is in them."""

import numpy as np

from ._case import Outputs

BLOCK = 2**20


def sigmoid_focal_sum(logits: np.ndarray, labels: np.ndarray, gamma: float, alpha: float) -> Outputs:
    """The sum over all elements, some at a time; labels in [0, 1]."""
    value, gradient = 0.0, np.empty(logits.size)
    for start in range(0, logits.size, BLOCK):
        some = slice(start, start + BLOCK)
        x, y = logits.reshape(-1)[some].astype(np.float64), labels.reshape(-1)[some].astype(np.float64)
        e = np.exp(-np.abs(x))
        p, q = np.where(x >= 0, 1, e) / (1 + e), np.where(x >= 0, e, 1) / (1 + e)
        cross_entropy = np.maximum(x, 0) - x * y + np.log1p(e)
        p_wrong = y * q + (1 - y) * p
        scale = (y * alpha + (1 - y) * (1 - alpha)) * p_wrong**gamma
        slope = gamma * (1 - 2 * y) * p * q / p_wrong * cross_entropy + (1 - y) * p - y * q
        value += np.sum(scale * cross_entropy)
        gradient[some] = scale * slope
    return {"value": np.float64(value), "gradient": gradient.reshape(logits.shape)}


def sigmoid_focal_hvp(
    logits: np.ndarray, labels: np.ndarray, direction: np.ndarray, gamma: float, alpha: float
) -> Outputs:
    """The second derivative of the sum, which is diagonal, times ``direction``; labels are 0 or 1."""
    z = np.where(labels, 1, -1) * logits.astype(np.float64)
    e = np.exp(-np.abs(z))
    p, q = np.where(z >= 0, 1, e) / (1 + e), np.where(z >= 0, e, 1) / (1 + e)
    cross_entropy = np.maximum(-z, 0) + np.log1p(e)
    curvature = q**gamma * p * ((1 + 2 * gamma) * q + gamma * cross_entropy * (gamma * p - q))
    return {"hvp": np.where(labels, alpha, 1 - alpha) * curvature * direction}


def softmax_focal_mean(logits: np.ndarray, labels: np.ndarray, gamma: float) -> Outputs:
    """The mean over the rows; labels are classes."""
    rows = np.arange(len(labels))
    e = np.exp(logits.astype(np.float64) - np.max(logits, axis=1, keepdims=True))
    e_label = e[rows, labels]
    p = e / np.sum(e, axis=1, keepdims=True)
    e[rows, labels] = 0
    e_others = np.sum(e, axis=1)
    p_label, p_wrong = e_label / (e_label + e_others), e_others / (e_label + e_others)
    cross_entropy = np.log1p(e_others / e_label)
    p[rows, labels] = -p_wrong
    slope = p_wrong**gamma * (1 + gamma * p_label * cross_entropy / p_wrong)
    return {"value": np.mean(p_wrong**gamma * cross_entropy), "gradient": slope[:, None] * p / len(labels)}


def dice_mean(logits: np.ndarray, labels: np.ndarray, smooth: float) -> Outputs:
    """The mean over images and classes; labels are classes, all but the first and last axes of the logits pixels."""
    x = logits.astype(np.float64).reshape(len(logits), -1, logits.shape[-1])
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    t = labels.reshape(len(logits), -1, 1) == np.arange(logits.shape[-1])
    overlap, sizes = np.sum(p * t, axis=1, keepdims=True), np.sum(p + t, axis=1, keepdims=True) + smooth
    loss = (sizes - smooth - 2 * overlap) / sizes
    by_p = (1 - 2 * t - loss) / sizes / (len(logits) * logits.shape[-1])
    gradient = p * (by_p - np.sum(p * by_p, axis=-1, keepdims=True))
    return {"value": np.mean(loss), "gradient": gradient.reshape(logits.shape)}


def linear_softmax_focal_mean(hidden: np.ndarray, kernel: np.ndarray, labels: np.ndarray, gamma: float) -> Outputs:
    """The mean over the rows of the loss of ``hidden @ kernel``, some rows at a time; labels are classes."""
    wide = kernel.astype(np.float64)
    value, by_hidden, by_kernel = 0.0, np.empty(hidden.shape), np.zeros(kernel.shape)
    for start in range(0, len(hidden), 256):
        rows = slice(start, start + 256)
        of_rows = softmax_focal_mean(hidden[rows] @ wide, labels[rows], gamma)
        share = len(labels[rows]) / len(labels)
        value += share * of_rows["value"]
        slope = share * of_rows["gradient"]
        by_hidden[rows] = slope @ wide.T
        by_kernel += hidden[rows].T @ slope
    return {"value": np.float64(value), "hidden gradient": by_hidden, "kernel gradient": by_kernel}
