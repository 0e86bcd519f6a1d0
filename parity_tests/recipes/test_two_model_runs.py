"""Whole two-model runs: what they learn, that the seed decides every number, and what they leave behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from jaxfocal.recipes import two_model
from jaxfocal.recipes._two_model_config import LOSS_NAMES, TwoModelConfig

CONFIG = TwoModelConfig(loss="focal", steps=200, imbalance=10.0)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison."""
    folder = tmp_path_factory.mktemp("comparison")
    two_model.compare(CONFIG, folder)
    return folder


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def metrics(folder: Path) -> dict[str, np.ndarray]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_a_short_run_learns(out, loss):
    """Chance is 0.1 for the digit and 0.3 for the tail."""
    scores = summary(out / loss)
    assert scores["accuracy"] > 0.75
    assert scores["tail_detector"]["average_precision"] > 0.75
    losses = metrics(out / loss)
    assert losses["l1"][-20:].mean() < losses["l1"][:20].mean() / 3
    assert losses["l2"][-20:].mean() < losses["l2"][:20].mean() / 2


def test_the_seed_decides_every_number_of_a_run(out):
    run = two_model.run(CONFIG)
    assert {**run.summary, "duration_seconds": 0} == {**summary(out / "focal"), "duration_seconds": 0}
    of_comparison = metrics(out / "focal")
    for name, values in run.metrics.items():
        np.testing.assert_array_equal(values.astype(np.float64), of_comparison[name])

    other = two_model.run(TwoModelConfig(loss="focal", steps=50, imbalance=10.0, seed=1))
    for name, values in other.metrics.items():
        assert np.all(values != run.metrics[name][:50])


def test_a_line_of_metrics_for_every_step(out):
    columns = metrics(out / "ce")
    assert list(columns) == ["step", "l1", "l2", "grad_norm/model1", "grad_norm/model2"]
    np.testing.assert_array_equal(columns["step"], np.arange(1, 201))


def test_the_summary_says_what_was_run_and_what_came_out(out):
    scores = summary(out / "balanced")
    assert scores["config"] == {
        "loss": "balanced",
        "order": "simultaneous",
        "steps": 200,
        "imbalance": 10.0,
        "seed": 0,
        "learning_rate": 1e-3,
        "batch_size": 64,
    }
    assert scores["train_counts"] == [124, 96, 74, 58, 45, 35, 27, 21, 16, 12]
    assert scores["test_counts"] == [50] * 10
    assert scores["tail_classes"] == [7, 8, 9]
    assert len(scores["recall"]) == 10
    assert scores["macro_recall"] == pytest.approx(np.mean(scores["recall"]))
    assert scores["macro_recall"] == pytest.approx(scores["accuracy"])
    assert set(scores["versions"]) == {"jaxfocal", "jax", "flax", "optax", "numpy", "scikit-learn"}
    assert scores["duration_seconds"] > 0


def test_the_comparison_holds_the_three_summaries(out):
    comparison = json.loads((out / "comparison.json").read_text())
    assert comparison == {loss: summary(out / loss) for loss in LOSS_NAMES}


def test_the_figures_show_something(out):
    for figure in [out / "comparison.png", *(out / loss / "two_model.png" for loss in LOSS_NAMES)]:
        pixels = imread(figure)
        assert min(pixels.shape[:2]) > 500
        assert 0.02 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.9


def test_the_table_has_a_column_a_loss(out, capsys):
    runs = [two_model.Run({}, summary(out / loss)) for loss in LOSS_NAMES]
    runs[0].summary["tail_detector"]["precision"] = None
    two_model.print_results(runs, out)
    printed = capsys.readouterr().out
    rows = {line[:34].strip(): line[34:].split() for line in printed.splitlines()}
    assert rows["test split"][-3:] == list(LOSS_NAMES)
    assert rows["accuracy"][1:] == [f"{run.summary['accuracy']:.3f}" for run in runs]
    assert rows["recall of 9, tail"] == ["12", *(f"{run.summary['recall'][9]:.3f}" for run in runs)]
    assert rows["tail detector, precision"][0] == "-"
    assert f"wrote {out}" in printed
