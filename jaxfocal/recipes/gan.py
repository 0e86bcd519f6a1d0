"""A generator and a discriminator of handwritten digits: ``jaxfocal train gan``.

Two players move in turn, each down its own loss: the discriminator, which tells digits from what the generator makes,
and the generator, which wants to be taken for real. Samples are drawn from an average of the generator's parameters.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array

import jaxfocal as jf

from ._digits import long_tailed_digits
from ._frechet import frechet_distance
from ._gan_config import GanConfig
from ._gan_report import Run, print_results, save_run
from ._progress import progress
from ._run_folder import run_folder
from ._training import check_finite, measured_on, pure, sample_batches

Params = dict[str, Any]
Batch = dict[str, Array]

NUM_PIXELS, NUM_LATENT, NUM_HIDDEN = 64, 32, 128
INSTANCE_NOISE = 0.4  # on images in [-1, 1]; without it the discriminator soon knows its 1,240 images by heart
GRADIENT_PENALTY = 10.0
CHUNK_STEPS = 250
NUM_SHOWN = 16


class MLP(nnx.Module):
    """Three linear layers with leaky ReLUs between."""

    def __init__(self, num_in: int, num_out: int, *, rngs: nnx.Rngs):
        """Draw the initial parameters from ``rngs``."""
        he = nnx.initializers.he_normal()
        self.first = nnx.Linear(num_in, NUM_HIDDEN, kernel_init=he, rngs=rngs)
        self.second = nnx.Linear(NUM_HIDDEN, NUM_HIDDEN, kernel_init=he, rngs=rngs)
        self.out = nnx.Linear(NUM_HIDDEN, num_out, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        """``(n, num_in)`` to ``(n, num_out)``."""
        x = nnx.leaky_relu(self.first(x), 0.2)
        return self.out(nnx.leaky_relu(self.second(x), 0.2))


class Models(NamedTuple):
    """Both models as pure functions of their parameters."""

    generator: Callable[[Any, Array], Array]
    """Latent noise ``(n, 32)`` to images ``(n, 64)`` in [-1, 1]."""
    discriminator: Callable[[Any, Array], Array]
    """Images ``(n, 64)`` to logits of being real ``(n,)``, or with wgan-gp to scores."""


def build_models(key: Array) -> tuple[Models, Params]:
    """The models, and the dict of their initial parameters."""
    (generator, g_params), (discriminator, d_params) = map(pure, _init_modules(key))
    models = Models(
        lambda params, noise: jnp.tanh(generator(params, noise)),
        lambda params, images: discriminator(params, images)[:, 0],
    )
    return models, {"generator": g_params, "discriminator": d_params}


@nnx.jit
def _init_modules(key: Array) -> tuple[MLP, MLP]:
    rngs = nnx.Rngs(key)
    return MLP(NUM_LATENT, NUM_PIXELS, rngs=rngs), MLP(NUM_PIXELS, 1, rngs=rngs)


def bce_losses(models: Models, params: Params, batch: Batch, *, key: Array) -> dict[str, Array]:
    """Cross-entropy: ``d`` of telling real from made, ``g`` of being taken for real."""
    noise_key, *keys = jax.random.split(key, 4)

    def logits(images: Array, key: Array) -> Array:
        blurred = images + INSTANCE_NOISE * jax.random.normal(key, images.shape, images.dtype)
        return models.discriminator(params["discriminator"], blurred)

    def cross_entropy(logits: Array, label: int) -> Array:
        return jf.sigmoid_focal_loss(logits, jnp.full(logits.shape, label), gamma=0.0, reduction="mean")

    fake = models.generator(params["generator"], draw_noise(noise_key, len(batch["image"])))
    caught = logits(jax.lax.stop_gradient(fake), keys[1])  # PyTorch: fake.detach()
    return {
        "d": cross_entropy(logits(batch["image"], keys[0]), 1) + cross_entropy(caught, 0),
        "g": cross_entropy(logits(fake, keys[2]), 1),
    }


def wgan_gp_losses(models: Models, params: Params, batch: Batch, *, key: Array) -> dict[str, Array]:
    """Wasserstein: ``d`` is minus the difference of the mean scores, and the gradient penalty; ``g`` minus a score."""
    noise_key, penalty_key = jax.random.split(key)
    score = partial(models.discriminator, params["discriminator"])
    fake = models.generator(params["generator"], draw_noise(noise_key, len(batch["image"])))
    constant = jax.lax.stop_gradient(fake)  # PyTorch: fake.detach()
    penalty = jf.gradient_penalty(score, batch["image"], constant, penalty_key)
    return {
        "d": jnp.mean(score(constant)) - jnp.mean(score(batch["image"])) + GRADIENT_PENALTY * penalty,
        "g": -jnp.mean(score(fake)),
    }


def draw_noise(key: Array, n: int) -> Array:
    """Latent noise ``(n, 32)``."""
    return jax.random.normal(key, (n, NUM_LATENT), jnp.float32)


def build_update(models: Models, config: GanConfig) -> jf.MultiUpdate:
    """The training step: the discriminator on each of ``n_critic`` parts of the batch, the generator on all of it."""
    if config.loss == "bce":
        losses, adam = bce_losses, optax.adam(config.learning_rate, b1=0.5)
    else:
        losses, adam = wgan_gp_losses, optax.adam(config.learning_rate, b1=0.0, b2=0.9)
    return jf.multi_update(
        partial(losses, models),
        {
            "discriminator": jf.Player(adam, loss="d", wrt="discriminator", n_steps=config.discriminator_steps),
            "generator": jf.Player(adam, loss="g", wrt="generator", ema=config.ema),
        },
        order=config.order,
        has_key=True,
    )


def train(
    update: jf.MultiUpdate,
    state: jf.MultiState,
    images: np.ndarray,
    key: Array,
    config: GanConfig,
    on_chunk: Callable[[int, jf.MultiState, dict[str, float]], None],
) -> tuple[jf.MultiState, dict[str, np.ndarray]]:
    """The last state, and the metrics of every step, each ``(steps,)``.

    The steps run in compiled chunks of 250; ``on_chunk(step, state, mean metrics)`` is called after each.

    Raises:
      FloatingPointError: where a loss is no longer finite.
    """
    data = {"image": jnp.asarray(2 * images - 1)}
    images_a_step = config.batch_size * config.discriminator_steps
    chunks: list[dict[str, np.ndarray]] = []
    for start in range(0, config.steps, CHUNK_STEPS):
        steps = jnp.arange(start, min(start + CHUNK_STEPS, config.steps), dtype=jnp.int32)
        state, metrics = jf.scan_updates(update, state, sample_batches(data, key, steps, images_a_step))
        chunks.append(jax.device_get(metrics))
        check_finite(chunks[-1], start)
        on_chunk(start + len(steps), state, {name: float(values.mean()) for name, values in chunks[-1].items()})
    return state, {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def nearest_distance(images: np.ndarray, others: np.ndarray) -> float:
    """The mean Euclidean distance from an image ``(n, 64)`` to the nearest of the others ``(m, 64)``."""
    squares = (images**2).sum(1)[:, None] + (others**2).sum(1) - 2 * images @ others.T
    return float(np.sqrt(squares.min(axis=1).clip(min=0)).mean())


def run(config: GanConfig) -> Run:
    """Train and measure; shows progress, writes no files."""
    begin = time.perf_counter()
    digits, held_out = (split.images for split in long_tailed_digits(imbalance=1.0, seed=config.seed))
    model_key, batch_key, update_key, sample_key = jax.random.split(jax.random.key(config.seed), 4)
    models, params = build_models(model_key)
    update = build_update(models, config)

    generator, noise = jax.jit(models.generator), draw_noise(sample_key, len(digits))
    samples: dict[int, np.ndarray] = {}

    def sample(params: Any) -> np.ndarray:
        return np.asarray(generator(params, noise)) / 2 + 0.5

    with progress(config.loss, config.steps) as show:

        def on_chunk(step: int, state: jf.MultiState, metrics: dict[str, float]) -> None:
            samples[step] = sample(state.ema["generator"])
            show(step, {**metrics, "Fréchet": frechet_distance(samples[step], held_out)})

        samples[0] = sample(params["generator"])
        state, metrics = train(update, update.init(params, key=update_key), digits, batch_key, config, on_chunk)

    uniform = np.random.default_rng(config.seed).random(digits.shape)
    to_held_out = partial(frechet_distance, b=held_out)
    distances = {step: to_held_out(images) for step, images in samples.items()}
    summary = {
        "recipe": "gan",
        "config": {**asdict(config), "n_critic": config.discriminator_steps},
        "images": {"training": len(digits), "held out": len(held_out), "samples": len(noise)},
        "frechet": {
            "uniform noise": to_held_out(uniform),
            "untrained generator": distances[0],
            "generator, last step": to_held_out(sample(state.params["generator"])),
            "generator, averaged": distances[config.steps],
            "training images": to_held_out(digits),
        },
        "nearest_training_image": {
            "samples": nearest_distance(samples[config.steps], digits),
            "held-out digits": nearest_distance(held_out, digits),
        },
        **measured_on(begin),
    }
    shown = {step: images[:NUM_SHOWN] for step, images in samples.items()}
    return Run(metrics, distances, shown, digits[:: len(digits) // NUM_SHOWN][:NUM_SHOWN], summary)


def main(config: GanConfig, out: Path) -> None:
    """One run: its files in ``out``, its distances on stdout."""
    with run_folder(out) as folder:
        finished = run(config)
        save_run(finished, folder)
    print_results(finished, out)
