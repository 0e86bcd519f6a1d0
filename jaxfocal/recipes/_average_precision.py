"""Average precision of boxes, by COCO's own code."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import NamedTuple

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from jaxfocal.detection import Detections

RECALLS = np.linspace(0, 1, 101)  # where COCO reads the precision off
SHOWN = (0.5, 0.75)  # IoU


class Precision(NamedTuple):
    """``scores`` in [0, 1] by COCO's names, and the precision ``(101,)`` at the recalls 0 to 1 by IoU."""

    scores: dict[str, float]
    curves: dict[float, np.ndarray]


def average_precision(found: Detections, boxes: Sequence[np.ndarray]) -> Precision:
    """How well the detections ``(n, m, ...)`` of n images agree with their true boxes, each ``(k, 4)``, of one class.

    ``AP`` is the mean precision over the recalls and over IoUs of 0.5, 0.55 ... 0.95, ``AP50`` and ``AP75`` those at an
    IoU of 0.5 and 0.75, ``AR`` the mean recall over the IoUs, all with the best 100 boxes an image.
    """
    with redirect_stdout(io.StringIO()):  # it reports on stdout
        truth = _truth(boxes)
        evaluation = COCOeval(truth, truth.loadRes(_rows(found)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    scores = dict(zip(("AP", "AP50", "AP75"), evaluation.stats[:3].tolist(), strict=True))
    by_iou = dict(zip(evaluation.params.iouThrs.round(2), evaluation.eval["precision"][:, :, 0, 0, -1], strict=True))
    return Precision({**scores, "AR": float(evaluation.stats[8])}, {iou: by_iou[iou] for iou in SHOWN})


def _truth(boxes: Sequence[np.ndarray]) -> COCO:
    images = [{"id": i} for i in range(len(boxes))]
    flat = [(i, box) for i, of_image in enumerate(boxes) for box in _as_width_and_height(of_image).tolist()]
    annotations = [
        {"id": k, "image_id": i, "category_id": 0, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for k, (i, box) in enumerate(flat, 1)
    ]
    truth = COCO()
    truth.dataset = {"images": images, "categories": [{"id": 0}], "annotations": annotations}
    truth.createIndex()
    return truth


def _rows(found: Detections) -> np.ndarray:
    """``(valid, 7)``: image, x, y, width, height, score, class."""
    boxes, scores, labels, valid = map(np.asarray, found)
    image = np.broadcast_to(np.arange(len(valid))[:, None], valid.shape)
    columns = (image[..., None], _as_width_and_height(boxes), scores[..., None], labels[..., None])
    return np.concatenate(columns, axis=-1)[valid].astype(np.float64)


def _as_width_and_height(boxes: np.ndarray) -> np.ndarray:
    return np.concatenate([boxes[..., :2], boxes[..., 2:] - boxes[..., :2]], axis=-1)
