"""Wrong input is a ValueError at trace time that names the argument, what was given and what was expected."""

import re

import jax
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.cases import CASES

SIGMOID, SOFTMAX = jf.sigmoid_focal_loss, jf.softmax_focal_loss
X, BINARY, CLASSES = np.zeros((3, 4)), np.zeros((3, 4), int), np.zeros(3, int)

BAD = {
    "integer logits": (SIGMOID, np.zeros(3, int), np.zeros(3, int), {}, "logits must be floating point, got dtype int64"),
    "complex labels": (SIGMOID, np.zeros(3), np.zeros(3, complex), {}, "labels must be bool, integer or floating point"),
    "column against vector": (SIGMOID, np.zeros((3, 1)), np.zeros(3, int), {}, "shape of logits, (3, 1), got labels of shape (3,)"),
    "binary label 2": (SIGMOID, np.zeros(3), np.array([0, 1, 2]), {}, "labels must be 0 or 1, got labels[2] = 2"),
    "soft label 1.5": (SIGMOID, np.zeros(2), np.array([0.5, 1.5]), {}, "labels must be in [0, 1], got labels[1] = 1.5"),
    "soft label nan": (SIGMOID, np.zeros(1), np.array([np.nan]), {}, "labels must be in [0, 1], got labels[0] = nan"),
    "gamma -1": (SIGMOID, X, BINARY, {"gamma": -1.0}, "gamma must be >= 0 and finite, got gamma = -1.0"),
    "gamma None": (SIGMOID, X, BINARY, {"gamma": None}, "gamma must be a number, got None"),
    "gamma of text": (SOFTMAX, X, CLASSES, {"gamma": "2"}, "gamma must be a number, got '2'"),
    "no clip": (jf.asymmetric_loss, X, BINARY, {"clip": None}, "clip must be a number, got None"),
    "gamma inf": (SIGMOID, X, BINARY, {"gamma": np.inf}, "gamma must be >= 0 and finite, got gamma = inf"),
    "one bad gamma": (SOFTMAX, X, CLASSES, {"gamma": [1, -2, 0, 0]}, "gamma must be >= 0 and finite, got gamma[1] = -2"),
    "gamma shape": (SIGMOID, X, BINARY, {"gamma": np.ones(3)}, "gamma must broadcast to the shape of logits, (3, 4), got shape (3,)"),
    "gamma too large": (SIGMOID, X, BINARY, {"gamma": np.ones((2, 3, 4))}, "gamma must broadcast"),
    "alpha 1.5": (SIGMOID, X, BINARY, {"alpha": 1.5}, "alpha must be in [0, 1] (alpha=None switches it off), got alpha = 1.5"),
    "alpha shape": (SIGMOID, X, BINARY, {"alpha": np.ones(5)}, "alpha must broadcast to the shape of logits, (3, 4), got shape (5,)"),
    "weights shape": (SIGMOID, X, BINARY, {"weights": np.ones(3)}, "weights must broadcast to the shape of the loss, (3, 4), got shape (3,)"),
    "weights of classes": (SOFTMAX, X, CLASSES, {"weights": np.ones((3, 4))}, "weights must broadcast to the shape of the loss, (3,)"),
    "where shape": (SOFTMAX, X, CLASSES, {"where": np.ones((3, 4), bool)}, "where must broadcast to the shape of the loss, (3,), got shape (3, 4)"),
    "where of integers": (SIGMOID, X, BINARY, {"where": np.ones((3, 4), int)}, "where must be bool, got dtype int64"),
    "reduction": (SIGMOID, X, BINARY, {"reduction": "avg"}, "reduction must be one of none, sum, mean, got 'avg'"),
    "no reduction": (SIGMOID, X, BINARY, {"reduction": None}, "reduction must be one of none, sum, mean, got None"),
    "normalizer of a mean": (SIGMOID, X, BINARY, {"normalizer": 2.0, "reduction": "mean"}, "normalizer goes with reduction=\"sum\" only"),
    "normalizer of none": (SOFTMAX, X, CLASSES, {"normalizer": 2.0}, "normalizer goes with reduction=\"sum\" only"),
    "normalizer shape": (SIGMOID, X, BINARY, {"normalizer": np.ones(3), "reduction": "sum"}, "normalizer must be a scalar, got shape (3,)"),
    "class labels shape": (SOFTMAX, X, np.zeros(4, int), {}, "integer labels must have the shape of logits (3, 4) without the class axis 1, (3,)"),
    "class labels as one-hot integers": (SOFTMAX, X, BINARY, {}, "integer labels must have the shape of logits (3, 4) without"),
    "float classes": (SOFTMAX, X, np.zeros(3), {}, "class indices must be integers"),
    "bool classes": (SOFTMAX, X, np.zeros(3, bool), {}, "labels must be integer classes or float distributions, got dtype bool"),
    "class 4 of 4": (SOFTMAX, X, np.array([0, 4, 1]), {}, "labels must be a class in [0, 4) (ignore_index is None), got labels[1] = 4"),
    "class -1": (SOFTMAX, X, np.array([0, 3, -1]), {}, "labels must be a class in [0, 4) (ignore_index is None), got labels[2] = -1"),
    "negative mass": (SOFTMAX, X, np.full((3, 4), -0.25), {}, "labels must be in [0, 1], got labels[0, 0] = -0.25"),
    "class weights shape": (SOFTMAX, X, CLASSES, {"class_weights": np.ones(3)}, "class_weights must have one weight a class, shape (4,), got shape (3,)"),
    "negative class weight": (SOFTMAX, X, CLASSES, {"class_weights": [1.0, -1, 1, 1]}, "class_weights must be >= 0 and finite, got class_weights[1] = -1.0"),
    "smoothing 1": (SOFTMAX, X, CLASSES, {"label_smoothing": 1.0}, "label_smoothing must be in [0, 1), got label_smoothing = 1.0"),
    "smoothing shape": (SOFTMAX, X, CLASSES, {"label_smoothing": [0.1]}, "label_smoothing must be a scalar, got shape (1,)"),
    "ignored soft labels": (SOFTMAX, X, np.full((3, 4), 0.25), {"ignore_index": -1}, "ignore_index applies to integer labels only"),
    "fractional ignore_index": (SOFTMAX, X, CLASSES, {"ignore_index": 1.5}, "ignore_index must be a Python integer, got 1.5"),
    "flag for ignore_index": (SOFTMAX, X, CLASSES, {"ignore_index": True}, "ignore_index must be a Python integer, got True"),
    "wide ignore_index": (SOFTMAX, X, CLASSES, {"ignore_index": 2**40}, "ignore_index must fit in 32 bits, got 1099511627776"),
    "axis": (SOFTMAX, X, CLASSES, {"axis": 2}, "axis must name one of the 2 dimensions of logits, got axis=2 for shape (3, 4)"),
    "fractional axis": (SOFTMAX, X, CLASSES, {"axis": 1.0}, "axis must be an integer, got 1.0"),
    "no axis": (SOFTMAX, X, CLASSES, {"axis": None}, "axis must be an integer, got None"),
    "axis of a scalar": (SOFTMAX, np.zeros(()), np.zeros((), int), {}, "axis must name one of the 0 dimensions"),
    "no classes": (SOFTMAX, np.zeros((3, 0)), CLASSES, {}, "logits must have at least one class along axis -1, got shape (3, 0)"),
}  # fmt: skip


@pytest.mark.parametrize(("loss", "logits", "labels", "options", "message"), BAD.values(), ids=BAD)
def test_message(loss, logits, labels, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        loss(logits, labels, **options)


@pytest.mark.parametrize(("loss", "logits", "labels", "options", "message"), BAD.values(), ids=BAD)
def test_message_inside_jit(loss, logits, labels, options, message):
    """Labels and hyperparameters that are constants of the traced program are checked there too."""
    with pytest.raises(ValueError, match=re.escape(message)):
        jax.jit(lambda x: loss(x, labels, **options))(logits)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_dropped_labels_are_not_checked(case):
    logits, labels = case.example()
    labels[0] = 99
    where = np.ones(case.where_shape(case.logits_shape), bool)
    where[0] = False
    assert np.isfinite(case.loss(logits, labels, where=where)).all()
    with pytest.raises(ValueError, match=r"got labels\[0"):
        case.loss(logits, labels)


@pytest.mark.parametrize("name", ["gamma", "alpha", "where", "weights", "reduction"])
def test_options_go_by_keyword(name):
    with pytest.raises(TypeError, match="positional"):
        jf.sigmoid_focal_loss(X, BINARY, name)
