"""Detector runs, short ones: they learn, the seed decides every number, and what they leave behind."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from jaxfocal.detection import pairwise_iou, retinanet_loss
from jaxfocal.detection.transform import MEAN, STD
from jaxfocal.recipes import detector
from jaxfocal.recipes._detector_config import LOSS_NAMES, DetectorConfig
from jaxfocal.recipes._digits import long_tailed_digits
from jaxfocal.recipes._scenes import MOST_DIGITS, SIZE, draw_scenes

CONFIG = DetectorConfig(steps=120, batch_size=4)


@pytest.fixture(scope="module")
def finished() -> detector.Run:
    """A run on fewer scenes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(detector, "TRAINING_SCENES", 40)
        patched.setattr(detector, "TEST_SCENES", 8)
        return detector.run(CONFIG)


@pytest.fixture(scope="module")
def out(finished: detector.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison: of the same run under every name, since each loss would be compiled for itself."""
    folder = tmp_path_factory.mktemp("detector")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(detector, "run", partial(under_its_name, finished))
        detector.compare(CONFIG, folder)
    return folder


def under_its_name(finished: detector.Run, config: DetectorConfig) -> detector.Run:
    named = {**finished.summary["config"], "loss": config.loss}
    return finished._replace(summary={**finished.summary, "config": named})


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def metrics(folder: Path) -> dict[str, np.ndarray]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def positives(finished: detector.Run) -> list[int]:
    """Of each scene: anchors of IoU 0.5 with a digit, and for each digit those that no other anchor exceeds."""
    anchors = detector.ANCHORS((SIZE, SIZE), [(n, n) for n in (16, 8, 4, 2, 1)])
    counts = []
    for boxes in finished.scenes.boxes:
        iou = np.asarray(pairwise_iou(jnp.asarray(boxes), anchors))
        counts.append(int(((iou.max(axis=0) >= 0.5) | (iou == iou.max(axis=1, keepdims=True)).any(axis=0)).sum()))
    return counts


def test_a_short_run_learns(finished):
    """Untrained it finds nothing."""
    losses = finished.metrics
    assert losses["classification"][-10:].mean() < losses["classification"][:10].mean() / 2
    assert losses["bbox_regression"][-10:].mean() < losses["bbox_regression"][:10].mean() / 1.5
    assert finished.summary["AP50"] > 0.1


def test_the_seed_decides_every_number_of_a_run(finished, monkeypatch):
    monkeypatch.setattr(detector, "TRAINING_SCENES", 40)
    monkeypatch.setattr(detector, "TEST_SCENES", 8)
    again = detector.run(CONFIG)
    assert {**again.summary, "duration_seconds": 0} == {**finished.summary, "duration_seconds": 0}
    for name, values in finished.metrics.items():
        np.testing.assert_array_equal(again.metrics[name], values)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_training_goes_by_the_loss_that_was_asked_for(loss):
    """The first step's losses are those of the untrained model on the first batch."""
    scenes = draw_scenes(long_tailed_digits(1.0, seed=0)[0].images, 4, np.random.default_rng(0))
    config = DetectorConfig(loss=loss, steps=1, batch_size=2, seed=3)
    _, metrics = detector.train(detector.build_model(config.seed), scenes, config, lambda step, metrics: None)
    (batch,) = detector.batches(scenes, config)
    model = detector.build_model(config.seed)
    expected = retinanet_loss(
        model(jnp.asarray(batch["images"]), train=True),
        model.anchors(SIZE, SIZE),
        batch["boxes"],
        batch["labels"],
        batch["valid"],
        classification_loss=detector.CLASSIFICATION_LOSSES[loss],
    )
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], [float(value)], rtol=1e-3)


def test_scenes_of_the_test_are_of_other_digits_and_the_seed_picks_all(monkeypatch):
    drawn = []

    def note(digits, n, rng):
        drawn.append(digits)
        return draw_scenes(digits, 3, rng)

    def train(model, scenes, config, on_chunk):
        weights.append(np.asarray(model.head.classification_head.cls_logits.kernel[...]))
        return model, {"classification": scenes.images}

    weights: list[np.ndarray] = []
    monkeypatch.setattr(detector, "draw_scenes", note)
    monkeypatch.setattr(detector, "train", train)
    monkeypatch.setattr(detector, "find", lambda model, scenes: None)
    monkeypatch.setattr(detector, "average_precision", lambda found, boxes: detector.Precision({}, {}))
    runs = [detector.run(DetectorConfig(seed=seed)) for seed in (1, 2)]
    for seed, training, test in zip((1, 2), drawn[::2], drawn[1::2], strict=True):
        expected = long_tailed_digits(1.0, seed)
        for digits, split in zip((training, test), expected, strict=True):
            np.testing.assert_array_equal(digits, split.images)
    first, second = (run.metrics["classification"] for run in runs)
    assert (first != second).any()
    assert (first != runs[0].scenes.images).any()
    assert (weights[0] != weights[1]).any()


def test_batches_are_scenes_as_the_model_takes_them():
    rng = np.random.default_rng(0)
    scenes = draw_scenes(long_tailed_digits(1.0, seed=0)[0].images, 5, rng)
    config = DetectorConfig(steps=3, batch_size=6, seed=1)
    first, second, third = batches = list(detector.batches(scenes, config))
    for batch in batches:
        assert {name: array.shape for name, array in batch.items()} == {
            "images": (6, SIZE, SIZE, 3),
            "boxes": (6, MOST_DIGITS, 4),
            "labels": (6, MOST_DIGITS),
            "valid": (6, MOST_DIGITS),
        }
        for image, boxes, valid in zip(batch["images"], batch["boxes"], batch["valid"], strict=True):
            red = image[..., 0] * STD[0] + MEAN[0]
            (i,) = (i for i, scene in enumerate(scenes.images) if np.allclose(scene, red, atol=1e-6))
            np.testing.assert_array_equal(boxes[valid], scenes.boxes[i])
    assert (first["images"] != second["images"]).any()
    np.testing.assert_array_equal(list(detector.batches(scenes, config))[2]["images"], third["images"])


def test_ohem_is_cross_entropy_of_the_positives_and_three_times_as_many_hardest_negatives():
    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(50, 1)), np.zeros((50, 1), np.int8)
    labels[[3, 20]] = 1
    where = np.ones((50, 1), bool)
    where[np.argsort(logits[:, 0])[-3:]] = False  # of which none is a positive
    assert where[[3, 20]].all()
    cross_entropy = np.logaddexp(0, np.where(labels == 1, -logits, logits))[:, 0]
    negatives = np.sort(cross_entropy[where[:, 0] & (labels[:, 0] == 0)])[-6:]
    expected = (cross_entropy[[3, 20]].sum() + negatives.sum()) / 2
    loss = detector.ohem_loss(jnp.asarray(logits), jnp.asarray(labels), where=jnp.asarray(where), normalizer=2)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "of_positive", "of_negative"),
    [("focal", 0.25 * 0.25, 0.75 * 0.25), ("balanced", 0.75, 0.25), ("ce", 1, 1)],
)
def test_the_other_losses_at_probability_one_half(name, of_positive, of_negative):
    """There each is a multiple of log 2."""
    labels = jnp.array([[1], [0], [0]], jnp.int8)
    where = jnp.array([[True], [True], [False]])
    loss = detector.CLASSIFICATION_LOSSES[name](jnp.zeros((3, 1)), labels, where=where, normalizer=4)
    assert float(loss) == pytest.approx((of_positive + of_negative) * np.log(2) / 4)


def test_the_learning_rate_rises_and_falls():
    optimizer = detector.build_optimizer(DetectorConfig(steps=100, learning_rate=0.5))
    weights, gradient = jnp.zeros(3), jnp.full(3, 1e-3)
    state, moved = optimizer.init(weights), []
    for _ in range(101):
        updates, state = optimizer.update(gradient, state, weights)
        moved.append(-float(updates[0]))  # a steady gradient moves each weight by the learning rate
    assert np.argmax(moved) == 10
    assert max(moved) == pytest.approx(0.5, rel=1e-3)
    assert (np.diff(moved[:11]) > 0).all()
    assert (np.diff(moved[10:]) < 0).all()
    assert (moved[0], moved[-1]) == (0, 0)


def test_a_run_of_one_step_is_a_run():
    """Its learning rate neither rises nor is it 0."""
    optimizer = detector.build_optimizer(DetectorConfig(steps=1))
    updates, _ = optimizer.update(jnp.ones(3), optimizer.init(jnp.zeros(3)), jnp.zeros(3))
    assert (np.asarray(updates) != 0).all()


def test_the_summary_says_what_was_run_and_what_came_out(finished, out):
    said = summary(out / "focal")
    assert said["config"] == {"loss": "focal", "steps": 120, "seed": 0, "learning_rate": 3e-3, "batch_size": 4}
    assert said["scenes"] == {"training": 40, "test": 8}
    assert said["digits"]["test"] == sum(map(len, finished.scenes.boxes))
    assert said["anchors"] == 9 * (16**2 + 8**2 + 4**2 + 2**2 + 1)
    assert said["positive_anchors"] == pytest.approx(np.mean(positives(finished)))
    assert said["AP50"] == pytest.approx(finished.precision[0.5].mean())
    assert said["AP75"] == pytest.approx(finished.precision[0.75].mean())
    assert 0 <= said["AP"] <= said["AP50"] <= 1
    assert said["duration_seconds"] > 0


def test_a_line_of_metrics_for_every_step(finished, out):
    columns = metrics(out / "ce")
    assert list(columns) == ["step", "bbox_regression", "classification"]
    np.testing.assert_array_equal(columns["step"], np.arange(1, 121))
    np.testing.assert_array_equal(columns["classification"], finished.metrics["classification"].astype(np.float64))


def test_the_comparison_holds_the_four_summaries(out):
    assert json.loads((out / "comparison.json").read_text()) == {loss: summary(out / loss) for loss in LOSS_NAMES}


def test_the_figures_show_something(out):
    figures = [out / "comparison.png", *(out / "ohem" / name for name in ("detector.png", "detections.png"))]
    for figure in figures:
        pixels = imread(figure)
        assert min(pixels.shape[:2]) > 500
        assert 0.02 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.9


def test_the_table_has_a_column_a_loss(finished, out, capsys):
    runs = [under_its_name(finished, replace(CONFIG, loss=loss)) for loss in LOSS_NAMES]
    detector.print_results(runs, out)
    printed = capsys.readouterr().out
    heading = f"8 test scenes, {finished.summary['digits']['test']} digits"
    (columns,) = (line for line in printed.splitlines() if line.startswith(heading))
    assert columns.split()[-4:] == list(LOSS_NAMES)
    (row,) = (line for line in printed.splitlines() if line.startswith("AP, IoU 0.5  "))
    assert row.split()[-4:] == [f"{finished.summary['AP50']:.3f}"] * 4
    assert f"Of 3,069 anchors a scene {finished.summary['positive_anchors']:.1f} match a digit." in printed
    assert f"wrote {out}" in printed
