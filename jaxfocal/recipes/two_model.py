"""Two models, two losses, two optimizers: ``jaxfocal train two-model``.

``model1`` reads an image of a handwritten digit and gives class logits; ``model2`` reads those logits and says whether
the digit is of a tail class, one of the three that training hardly shows. Each has its own loss and its own optimizer.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array
from sklearn.metrics import average_precision_score

import jaxfocal as jf

from ._digits import NUM_CLASSES, TAIL_CLASSES, Digits, long_tailed_digits
from ._progress import OnChunk, progress
from ._run_folder import run_folder
from ._training import check_finite, measured_on, pure, sample_batches
from ._two_model_config import LOSS_NAMES, LossName, TwoModelConfig
from ._two_model_report import Run, print_results, save_comparison, save_run

Params = dict[str, Any]
Batch = dict[str, Array]
Loss = Callable[..., Array]

CHUNK_STEPS = 50


class MLP(nnx.Module):
    """Two linear layers with a ReLU between."""

    def __init__(self, num_in: int, num_hidden: int, num_out: int, *, rngs: nnx.Rngs):
        """Draw the initial parameters from ``rngs``."""
        self.hidden = nnx.Linear(num_in, num_hidden, rngs=rngs)
        self.out = nnx.Linear(num_hidden, num_out, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        """``(n, num_in)`` to ``(n, num_out)``."""
        return self.out(nnx.relu(self.hidden(x)))


class TwoModels(NamedTuple):
    """The two models as pure functions of their parameters."""

    model1: Callable[[Any, Array], Array]
    model2: Callable[[Any, Array], Array]


def build_models(key: Array) -> tuple[TwoModels, Params]:
    """The models, and the dict of their initial parameters."""
    (model1, params1), (model2, params2) = map(pure, _init_modules(key))
    return TwoModels(model1, model2), {"model1": params1, "model2": params2}


@nnx.jit
def _init_modules(key: Array) -> tuple[MLP, MLP]:
    rngs = nnx.Rngs(key)
    return MLP(64, 128, NUM_CLASSES, rngs=rngs), MLP(NUM_CLASSES, 32, 1, rngs=rngs)


def build_loss_pair(name: LossName, class_counts: np.ndarray) -> tuple[Loss, Loss]:
    """The loss of the digit and the loss of being in the tail; ``class_counts`` are those of the training split."""
    if name == "focal":
        return partial(jf.softmax_focal_loss, gamma=2.0), partial(jf.sigmoid_focal_loss, gamma=2.0, alpha=0.25)
    if name == "balanced":
        frequency = class_counts / class_counts.sum()
        tail_frequency = float(frequency[list(TAIL_CLASSES)].sum())
        return (
            partial(jf.softmax_focal_loss, gamma=0.0, class_weights=1 / (NUM_CLASSES * frequency)),
            partial(jf.sigmoid_focal_loss, gamma=0.0, alpha=1 - tail_frequency),
        )
    return partial(jf.softmax_focal_loss, gamma=0.0), partial(jf.sigmoid_focal_loss, gamma=0.0)


def build_update(models: TwoModels, class_loss: Loss, tail_loss: Loss, config: TwoModelConfig) -> jf.MultiUpdate:
    """The training step: ``l1`` moves model1 and ``l2`` moves model2, each with its own Adam."""

    def losses(params: Params, batch: Batch) -> dict[str, Array]:
        logits = models.model1(params["model1"], batch["image"])
        tail_logits = models.model2(params["model2"], jax.lax.stop_gradient(logits))  # PyTorch: logits.detach()
        return {
            "l1": class_loss(logits, batch["label"], reduction="mean"),
            "l2": tail_loss(tail_logits[:, 0], batch["is_tail"], reduction="mean"),
        }

    return jf.multi_update(
        losses,
        {
            "model1": jf.Player(optax.adam(config.learning_rate), loss="l1", wrt="model1"),
            "model2": jf.Player(optax.adam(config.learning_rate), loss="l2", wrt="model2"),
        },
        order=config.order,
    )


def train(
    update: jf.MultiUpdate,
    params: Params,
    digits: Digits,
    key: Array,
    config: TwoModelConfig,
    on_chunk: OnChunk,
) -> tuple[Params, dict[str, np.ndarray]]:
    """The trained parameters, and the metrics of every step, each ``(steps,)``.

    The steps run in compiled chunks of 50; ``on_chunk(step, mean metrics)`` is called after each.

    Raises:
      FloatingPointError: where a loss is no longer finite.
    """
    data = jax.device_put({"image": digits.images, "label": digits.labels, "is_tail": digits.is_tail})
    state = update.init(params)
    chunks: list[dict[str, np.ndarray]] = []
    for start in range(0, config.steps, CHUNK_STEPS):
        steps = jnp.arange(start, min(start + CHUNK_STEPS, config.steps), dtype=jnp.int32)
        state, metrics = jf.scan_updates(update, state, sample_batches(data, key, steps, config.batch_size))
        chunks.append(jax.device_get(metrics))
        check_finite(chunks[-1], start)
        on_chunk(start + len(steps), {name: float(values.mean()) for name, values in chunks[-1].items()})
    return state.params, {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def evaluate(models: TwoModels, params: Params, digits: Digits) -> dict[str, Any]:
    """Scores on the test split.

    ``accuracy``, ``recall`` of each class and their mean ``macro_recall`` (equal to the accuracy where the classes are
    equally many), and ``tail_detector``: precision and recall of model2 at probability 1/2 (the precision is None
    where it names no image), and its average precision, which depends on no threshold.
    """
    logits = jax.jit(models.model1)(params["model1"], digits.images)
    tail_logits = np.asarray(jax.jit(models.model2)(params["model2"], logits))[:, 0]
    predicted = np.asarray(logits).argmax(axis=-1)
    recall = [float(np.mean(predicted[digits.labels == c] == c)) for c in range(NUM_CLASSES)]
    found, right = tail_logits > 0, (tail_logits > 0) & digits.is_tail
    return {
        "accuracy": float(np.mean(predicted == digits.labels)),
        "macro_recall": float(np.mean(recall)),
        "recall": recall,
        "tail_detector": {
            "precision": float(right.sum() / found.sum()) if found.any() else None,
            "recall": float(right.sum() / digits.is_tail.sum()),
            "average_precision": float(average_precision_score(digits.is_tail, tail_logits)),
        },
    }


def run(config: TwoModelConfig) -> Run:
    """Train and evaluate; shows progress, writes no files."""
    begin = time.perf_counter()
    train_digits, test_digits = long_tailed_digits(config.imbalance, config.seed)
    init_key, batch_key = jax.random.split(jax.random.key(config.seed))
    models, params = build_models(init_key)
    update = build_update(models, *build_loss_pair(config.loss, train_digits.counts), config)
    with progress(config.loss, config.steps) as on_chunk:
        params, metrics = train(update, params, train_digits, batch_key, config, on_chunk)
    summary = {
        "recipe": "two-model",
        "config": asdict(config),
        "train_counts": train_digits.counts.tolist(),
        "test_counts": test_digits.counts.tolist(),
        "tail_classes": list(TAIL_CLASSES),
        **evaluate(models, params, test_digits),
        **measured_on(begin),
    }
    return Run(metrics, summary)


def main(config: TwoModelConfig, out: Path) -> None:
    """One run: its files in ``out``, its scores on stdout."""
    with run_folder(out) as folder:
        finished = run(config)
        save_run(finished, folder)
    print_results([finished], out)


def compare(config: TwoModelConfig, out: Path) -> None:
    """A run of each loss from the same split, parameters and batches: a folder each in ``out``, one table on stdout."""
    with run_folder(out) as folder:
        finished = [run(replace(config, loss=name)) for name in LOSS_NAMES]
        save_comparison(finished, folder)
    print_results(finished, out)
