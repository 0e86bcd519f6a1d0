"""Whole GAN runs, short ones: they get nearer to digits, the seed decides every number, and what they leave behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from jaxfocal.recipes import gan
from jaxfocal.recipes._gan_config import GanConfig

CONFIG = GanConfig(steps=300, learning_rate=2e-3, ema=0.9)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("gan")
    gan.main(CONFIG, folder)
    return folder


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def metrics(folder: Path) -> dict[str, np.ndarray]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_a_short_run_comes_nearer_to_digits(out):
    """Noise is 10 away."""
    frechet = summary(out)["frechet"]
    assert frechet["training images"] < 0.1
    assert frechet["generator, averaged"] < 3
    assert frechet["untrained generator"] > 9
    assert frechet["uniform noise"] > 9


def test_the_seed_decides_every_number_of_a_run(out):
    run = gan.run(CONFIG)
    for name, values in run.metrics.items():
        np.testing.assert_array_equal(values.astype(np.float64), metrics(out)[name])
    assert run.summary["frechet"] == summary(out)["frechet"]


def test_wasserstein_with_two_critic_steps_in_simultaneous_order():
    run = gan.run(GanConfig(loss="wgan-gp", n_critic=2, order="simultaneous", steps=3, batch_size=4, seed=1))
    assert {values.shape for values in run.metrics.values()} == {(3,)}
    assert list(run.distances) == list(run.samples) == [0, 3]
    assert run.summary["config"]["n_critic"] == 2


def test_the_summary_says_what_was_run_and_what_came_out(out):
    said = summary(out)
    assert said["config"] == {
        "loss": "bce",
        "order": "alternating",
        "n_critic": 1,
        "steps": 300,
        "seed": 0,
        "learning_rate": 2e-3,
        "batch_size": 64,
        "ema": 0.9,
    }
    assert said["images"] == {"training": 1240, "held out": 500, "samples": 1240}
    assert list(said["frechet_by_step"]) == ["0", "250", "300"]
    assert said["frechet_by_step"]["300"] == said["frechet"]["generator, averaged"]
    assert 0 < said["nearest_training_image"]["held-out digits"] < said["nearest_training_image"]["samples"]
    assert set(said["versions"]) == {"jaxfocal", "jax", "flax", "optax", "numpy", "scikit-learn"}


def test_a_line_of_metrics_for_every_step(out):
    columns = metrics(out)
    assert list(columns) == ["step", "d", "g", "grad_norm/discriminator", "grad_norm/generator"]
    np.testing.assert_array_equal(columns["step"], np.arange(1, 301))


def test_the_figures_show_something(out):
    assert sorted(path.name for path in out.iterdir()) == ["gan.png", "metrics.jsonl", "samples.png", "summary.json"]
    for name in ("gan.png", "samples.png"):
        pixels = imread(out / name)
        assert min(pixels.shape[:2]) > 400
        assert 0.02 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.9


def test_the_table_has_the_distances(out, capsys):
    said = summary(out)
    gan.print_results(gan.Run({}, {}, {}, np.zeros(0), said), out)
    printed = capsys.readouterr().out
    for name, distance in said["frechet"].items():
        assert any(line.split() == [*name.split(), f"{distance:.3f}"] for line in printed.splitlines())
    assert "300 alternating steps, n_critic 1, seed 0" in printed
    assert f"wrote {out}" in printed
