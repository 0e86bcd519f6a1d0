"""A RetinaNet that finds handwritten digits among things that look like them: ``jaxfocal train detector``.

Of some 3,000 anchors of a scene about nine lie on a digit. The losses that can be compared are the answers to that: the
focal loss, cross-entropy with the positives weighted up, with the hardest negatives alone, and as it is.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array

import jaxfocal as jf
from jaxfocal import detection

from ._average_precision import Precision, average_precision
from ._detector_config import LOSS_NAMES, DetectorConfig, LossName
from ._detector_report import Run, print_results, save_comparison, save_run
from ._digits import long_tailed_digits
from ._progress import OnChunk, progress
from ._run_folder import run_folder
from ._scenes import MOST_DIGITS, SIZE, Scenes, draw_scenes
from ._training import check_finite, measured_on

TRAINING_SCENES, TEST_SCENES = 1000, 200
ANCHORS = detection.AnchorGenerator(  # half as large as the paper's, for scenes of 128x128 pixels
    sizes=tuple(tuple(int(base * 2 ** (k / 3)) for k in range(3)) for base in (16, 32, 64, 128, 256))
)
CHUNK_STEPS = 50
MAX_DETECTIONS = 20


def build_model(seed: int) -> detection.RetinaNet:
    """A ResNet-18 of an eighth of the usual width, a feature pyramid and heads of 32 channels."""
    rngs = nnx.Rngs(seed)
    backbone = detection.resnet_fpn(18, width=8, out_channels=32, rngs=rngs)
    return detection.RetinaNet(backbone, num_classes=1, anchors=ANCHORS, rngs=rngs)


def ohem_loss(logits: Array, labels: Array, *, where: Array, normalizer: Array) -> Array:
    """Cross-entropy of all positive anchors, and of the hardest negative ones, three to each positive."""
    losses = jf.sigmoid_focal_loss(logits, labels, gamma=0.0, where=where).sum(axis=-1)
    hard = jf.ohem_mask(losses, labels.max(axis=-1), negative_ratio=3.0, where=where[:, 0])
    return jnp.sum(losses, where=hard) / jnp.maximum(normalizer, 1).astype(losses.dtype)


CLASSIFICATION_LOSSES: dict[LossName, Any] = {
    "focal": partial(jf.sigmoid_focal_loss, gamma=2.0, alpha=0.25, reduction="sum"),
    "balanced": partial(jf.sigmoid_focal_loss, gamma=0.0, alpha=0.75, reduction="sum"),
    "ohem": ohem_loss,
    "ce": partial(jf.sigmoid_focal_loss, gamma=0.0, reduction="sum"),
}


def build_optimizer(config: DetectorConfig) -> optax.GradientTransformation:
    """Adam under a warm-up and a cosine, the gradient no longer than 1."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, config.learning_rate, config.steps // 10, config.steps)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))


def batches(scenes: Scenes, config: DetectorConfig) -> Iterator[dict[str, np.ndarray]]:
    """The batch of every step, images normalised and boxes padded."""
    rng = np.random.default_rng(config.seed)
    for _ in range(config.steps):
        chosen = rng.integers(0, len(scenes.images), config.batch_size)
        images = preprocess(scenes.images[chosen]).images
        yield {"images": images, **pad([scenes.boxes[i] for i in chosen])._asdict()}


def preprocess(grey: np.ndarray) -> detection.ImageBatch:
    """Grey images ``(b, 128, 128)`` as the model takes them."""
    rgb = np.repeat(grey[..., None], 3, axis=-1)
    return detection.preprocess(list(rgb), min_size=SIZE, max_size=SIZE)


def pad(boxes: Sequence[np.ndarray]) -> detection.PaddedBoxes:
    """The boxes of each scene in as many rows as a scene can have, all of class 0."""
    return detection.pad_boxes(boxes, [np.zeros(len(box), np.int32) for box in boxes], max_boxes=MOST_DIGITS)


def train(
    model: detection.RetinaNet, scenes: Scenes, config: DetectorConfig, on_chunk: OnChunk
) -> tuple[detection.RetinaNet, dict[str, np.ndarray]]:
    """The trained model, and both losses of every step, each ``(steps,)``.

    The loop is Python's around one compiled step: on CPUs, XLA is many times slower at the gradients of convolutions
    inside a compiled loop.

    Raises:
      FloatingPointError: where a loss is no longer finite.
    """
    graphdef, state, step = detection.training_step(
        model, build_optimizer(config), classification_loss=CLASSIFICATION_LOSSES[config.loss]
    )
    step = jax.jit(step)
    rows: list[dict[str, float]] = []
    pending: list[dict[str, Array]] = []
    for number, batch in enumerate(batches(scenes, config), 1):
        state, losses = step(state, batch)
        pending.append(losses)
        if len(pending) == CHUNK_STEPS or number == config.steps:
            chunk, pending = jax.device_get(pending), []
            check_finite(_columns(chunk), len(rows))
            rows += chunk
            on_chunk(number, {name: float(values.mean()) for name, values in _columns(chunk).items()})
    return nnx.merge(graphdef, state.params, state.model_state), _columns(rows)


def _columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def find(model: detection.RetinaNet, scenes: Scenes, batch_size: int = 50) -> detection.Detections:
    """What the model finds in each scene, ``(n, 20, ...)``."""
    starts = range(0, len(scenes.images), batch_size)
    found = [
        detection.detect(model, *preprocess(scenes.images[start : start + batch_size]), max_detections=MAX_DETECTIONS)
        for start in starts
    ]
    return jax.tree.map(lambda *parts: np.concatenate(parts), *found)


def positive_anchors(model: detection.RetinaNet, scenes: Scenes) -> float:
    """How many anchors of a scene match a digit, on average."""
    anchors = model.anchors(SIZE, SIZE)
    targets = pad(scenes.boxes)
    matches = jax.jit(jax.vmap(partial(detection.match_anchors, anchors)))(targets.boxes, targets.valid)
    return float(np.mean(np.sum(np.asarray(matches) >= 0, axis=-1)))


def run(config: DetectorConfig) -> Run:
    """Train and evaluate; shows progress, writes no files."""
    begin = time.perf_counter()
    training_digits, test_digits = (split.images for split in long_tailed_digits(imbalance=1.0, seed=config.seed))
    rng = np.random.default_rng(config.seed)
    training, test = draw_scenes(training_digits, TRAINING_SCENES, rng), draw_scenes(test_digits, TEST_SCENES, rng)
    with progress(config.loss, config.steps) as on_chunk:
        model, metrics = train(build_model(config.seed), training, config, on_chunk)
    found = find(model, test)
    precision: Precision = average_precision(found, test.boxes)
    summary = {
        "recipe": "detector",
        "config": asdict(config),
        "scenes": {"training": TRAINING_SCENES, "test": TEST_SCENES},
        "digits": {"training": sum(map(len, training.boxes)), "test": sum(map(len, test.boxes))},
        "anchors": len(model.anchors(SIZE, SIZE)),
        "positive_anchors": positive_anchors(model, test),
        **precision.scores,
        **measured_on(begin),
    }
    return Run(metrics, precision.curves, test, found, summary)


def main(config: DetectorConfig, out: Path) -> None:
    """One run: its files in ``out``, its scores on stdout."""
    with run_folder(out) as folder:
        finished = run(config)
        save_run(finished, folder)
    print_results([finished], out)


def compare(config: DetectorConfig, out: Path) -> None:
    """A run of each loss from the same scenes, parameters and batches: a folder each in ``out``, a table on stdout."""
    with run_folder(out) as folder:
        finished = [run(replace(config, loss=name)) for name in LOSS_NAMES]
        save_comparison(finished, folder)
    print_results(finished, out)
