"""Average precision of boxes, by COCO's own code."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import NamedTuple

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from jaxfocal.detection import Detections

SHOWN = (0.5, 0.75)  # IoU


class Precision(NamedTuple):
    """``scores`` in [0, 1] by COCO's names, and the precision ``(101,)`` at the recalls 0 to 1 by IoU."""

    scores: dict[str, float]
    curves: dict[float, np.ndarray]


def average_precision(found: Detections, boxes: Sequence[np.ndarray]) -> Precision:
    """How well the detections ``(n, m, ...)`` of n images agree with their true boxes, each ``(k, 4)``, of one class.

    ``AP`` is the mean precision over the recalls and over IoUs of 0.5, 0.55 ... 0.95, ``AP50`` and ``AP75`` those at an
    IoU of 0.5 and 0.75, ``AR`` the mean recall over the IoUs, all with the best 100 boxes an image.
    There must be a true box somewhere.
    """
    with redirect_stdout(io.StringIO()):  # it reports on stdout
        truth = _annotated(boxes, [np.ones(len(of_image)) for of_image in boxes])
        evaluation = COCOeval(truth, _annotated(*_kept(found)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    scores = dict(zip(("AP", "AP50", "AP75"), evaluation.stats[:3].tolist(), strict=True))
    by_iou = dict(zip(evaluation.params.iouThrs.round(2), evaluation.eval["precision"][:, :, 0, 0, -1], strict=True))
    return Precision({**scores, "AR": float(evaluation.stats[8])}, {iou: by_iou[iou] for iou in SHOWN})


def _kept(found: Detections) -> tuple[list[np.ndarray], list[np.ndarray]]:
    boxes, scores, _, valid = map(np.asarray, found)
    return [b[v] for b, v in zip(boxes, valid, strict=True)], [s[v] for s, v in zip(scores, valid, strict=True)]


def _annotated(boxes: Sequence[np.ndarray], scores: Sequence[np.ndarray]) -> COCO:
    """Boxes ``(k, 4)`` and scores ``(k,)`` of each image as a data set of COCO's, of one class."""
    rows = [
        (image, box, score)
        for image, (of_image, with_scores) in enumerate(zip(boxes, scores, strict=True))
        for box, score in zip(of_image.tolist(), with_scores.tolist(), strict=True)
    ]
    annotations = [
        {
            "id": number,
            "image_id": image,
            "category_id": 0,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "area": (x2 - x1) * (y2 - y1),
            "iscrowd": 0,
            "score": score,
        }
        for number, (image, (x1, y1, x2, y2), score) in enumerate(rows, 1)
    ]
    images = [{"id": image} for image in range(len(boxes))]
    annotated = COCO()
    annotated.dataset = {"images": images, "categories": [{"id": 0}], "annotations": annotations}
    annotated.createIndex()
    return annotated
