"""COCO's scores on detections whose scores follow by hand."""

import numpy as np
import pytest

from jaxfocal.detection import Detections
from jaxfocal.recipes._average_precision import average_precision

TRUE = [np.array([[10.0, 10, 50, 50]]), np.array([[0.0, 0, 20, 40]])]


def detections(*images: list[tuple[list[float], float]]) -> Detections:
    """Of each image boxes with their scores, padded to three rows."""
    boxes, scores, valid = np.zeros((len(images), 3, 4)), np.zeros((len(images), 3)), np.zeros((len(images), 3), bool)
    for i, found in enumerate(images):
        for row, (box, score) in enumerate(found):
            boxes[i, row], scores[i, row], valid[i, row] = box, score, True
    return Detections(boxes, scores, np.zeros(scores.shape, np.int32), valid)


def test_what_is_found_exactly_scores_1(capsys):
    scores, curves = average_precision(detections([([10, 10, 50, 50], 0.9)], [([0, 0, 20, 40], 0.3)]), TRUE)
    assert scores == pytest.approx({"AP": 1.0, "AP50": 1.0, "AP75": 1.0, "AR": 1.0})
    assert list(curves) == [0.5, 0.75]
    for curve in curves.values():
        np.testing.assert_allclose(curve, np.ones(101))
    assert capsys.readouterr().out == ""


def test_a_box_counts_up_to_its_iou():
    """Both boxes have an IoU of 0.625: right at 0.5, 0.55 and 0.6 of the ten thresholds."""
    found = detections([([10, 10, 50, 35], 0.9)], [([0, 0, 20, 25], 0.3)])
    scores, curves = average_precision(found, TRUE)
    assert scores == pytest.approx({"AP": 0.3, "AP50": 1.0, "AP75": 0.0, "AR": 0.3})
    np.testing.assert_array_equal(curves[0.75], np.zeros(101))


def test_a_better_scored_mistake_for_each_right_box_halves_the_precision():
    wrong = ([100.0, 100, 120, 120], 0.95)
    scores, _ = average_precision(detections([wrong, ([10, 10, 50, 50], 0.9)], [wrong, ([0, 0, 20, 40], 0.3)]), TRUE)
    assert scores == pytest.approx({"AP": 0.5, "AP50": 0.5, "AP75": 0.5, "AR": 1.0})


def test_half_of_the_boxes_found_is_half_of_the_recalls():
    scores, curves = average_precision(detections([([10, 10, 50, 50], 0.9)], []), TRUE)
    assert scores == pytest.approx({"AP": 51 / 101, "AP50": 51 / 101, "AP75": 51 / 101, "AR": 0.5})
    np.testing.assert_allclose(curves[0.5], [1] * 51 + [0] * 50)


def test_nothing_found_scores_0():
    scores, _ = average_precision(detections([], []), TRUE)
    assert scores == {"AP": 0.0, "AP50": 0.0, "AP75": 0.0, "AR": 0.0}


def test_rows_that_are_not_valid_do_not_count():
    found = detections([([10, 10, 50, 50], 0.9)], [([0, 0, 20, 40], 0.3)])
    found.boxes[0, 1], found.scores[0, 1] = [60, 60, 90, 90], 1.0
    assert average_precision(found, TRUE).scores["AP"] == pytest.approx(1.0)
