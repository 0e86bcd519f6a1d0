"""The parts of the GAN recipe."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxfocal as jf
from jaxfocal.recipes import gan
from jaxfocal.recipes._gan_config import GanConfig
from jaxfocal.recipes._gan_report import doublings


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("loss", "hinge", "one of bce, wgan-gp"),
        ("order", "random", "one of alternating, simultaneous"),
        ("n_critic", 0, "an integer of at least 1"),
        ("n_critic", 1.5, "an integer of at least 1"),
        ("steps", 0, "an integer of at least 1"),
        ("seed", -1, "in [0, 2**31)"),
        ("learning_rate", float("nan"), "finite and above 0"),
        ("learning_rate", "5e-4", "finite and above 0"),
        ("batch_size", True, "an integer of at least 1"),
        ("ema", 1.0, "in [0, 1)"),
        ("ema", None, "in [0, 1)"),
        ("ema", float("nan"), "in [0, 1)"),
    ],
)
def test_options_out_of_range_say_what_was_given_and_expected(option, value, expected):
    with pytest.raises(ValueError, match=option) as error:
        GanConfig(**{option: value})
    assert expected in str(error.value)
    assert f"got {value!r}" in str(error.value)


@pytest.mark.parametrize(
    ("options", "steps"), [({}, 1), ({"loss": "wgan-gp"}, 5), ({"loss": "wgan-gp", "n_critic": 2}, 2)]
)
def test_discriminator_steps(options, steps):
    assert GanConfig(**options).discriminator_steps == steps


@pytest.fixture(scope="module")
def models_and_params():
    return gan.build_models(jax.random.key(0))


@pytest.mark.parametrize("losses", [gan.bce_losses, gan.wgan_gp_losses])
def test_the_loss_of_the_discriminator_is_constant_to_the_generator(models_and_params, losses):
    models, params = models_and_params
    batch = {"image": jnp.zeros((4, 64), jnp.float32)}
    routes = jf.gradient_routes(partial(losses, models, key=jax.random.key(1)), params, batch)
    assert routes["d"]["generator"] == "none"
    assert routes["d"]["discriminator"] != "none"
    assert routes["g"] == {"generator": "all", "discriminator": "all"}


def test_the_players_are_those_asked_for(models_and_params):
    config = GanConfig(loss="wgan-gp", order="simultaneous", n_critic=3, ema=0.5)
    update = gan.build_update(models_and_params[0], config)
    assert update.order == "simultaneous"
    assert list(update.players) == ["discriminator", "generator"]
    assert update.players["discriminator"].n_steps == 3
    assert update.players["generator"].ema == 0.5


def test_generated_pixels_are_in_range(models_and_params):
    models, params = models_and_params
    images = models.generator(params["generator"], gan.draw_noise(jax.random.key(2), 8))
    assert images.shape == (8, 64)
    assert jnp.abs(images).max() <= 1
    assert models.discriminator(params["discriminator"], images).shape == (8,)


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([0, 4], [0, 4]),
        ([0, 250, 500, 750, 1000], [0, 250, 500, 1000]),
        ([0, 250, 500, 750, 900], [0, 250, 500, 900]),
    ],
)
def test_shown_steps_double(steps, shown):
    assert doublings(steps) == shown


def test_nearest_distance():
    images, others = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [3.0, 4.0]])
    assert gan.nearest_distance(images, others) == pytest.approx(0.5)
