"""The parts of the two-model recipe."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxfocal as jf
from jaxfocal.recipes import two_model
from jaxfocal.recipes._digits import long_tailed_digits
from jaxfocal.recipes._two_model_config import TwoModelConfig

COUNTS = np.array([124, 74, 45, 27, 16, 10, 6, 3, 2, 1])


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("loss", "hinge", "one of focal, balanced, ce"),
        ("order", "random", "one of simultaneous, alternating"),
        ("steps", 0, "at least 1"),
        ("steps", 2.5, "an integer"),
        ("imbalance", 0.5, "at least 1"),
        ("imbalance", "10", "finite and at least 1"),
        ("imbalance", float("inf"), "finite"),
        ("imbalance", float("nan"), "finite"),
        ("seed", -1, "in [0, 2**31)"),
        ("seed", 2**31, "in [0, 2**31)"),
        ("learning_rate", 0.0, "above 0"),
        ("learning_rate", float("nan"), "finite"),
        ("batch_size", 0, "at least 1"),
    ],
)
def test_options_out_of_range_say_what_was_given_and_expected(option, value, expected):
    with pytest.raises(ValueError, match=option) as error:
        TwoModelConfig(**{option: value})
    assert expected in str(error.value)
    assert f"got {value!r}" in str(error.value)


def losses_of(name: str) -> tuple[np.ndarray, np.ndarray, jnp.ndarray, jnp.ndarray]:
    """Logits and labels of a batch, and both losses of it element by element."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 10)), rng.choice(10, 200, p=COUNTS / COUNTS.sum())
    class_loss, tail_loss = map(jax.jit, two_model.build_loss_pair(name, COUNTS))
    return logits, labels, class_loss(logits, labels), tail_loss(logits[:, 0], labels >= 7)


def test_ce_is_plain_cross_entropy():
    logits, labels, l1, l2 = losses_of("ce")
    np.testing.assert_allclose(l1, optax.softmax_cross_entropy_with_integer_labels(logits, labels), rtol=1e-12)
    np.testing.assert_allclose(l2, optax.sigmoid_binary_cross_entropy(logits[:, 0], labels >= 7), rtol=1e-12)


def test_balanced_gives_every_class_the_same_total_weight():
    _, labels, l1, l2 = losses_of("balanced")
    _, _, plain1, plain2 = losses_of("ce")
    class_weight = (308 / 10) / COUNTS
    tail_weight = np.where(labels >= 7, 302 / 308, 6 / 308)
    np.testing.assert_allclose(l1, class_weight[labels] * plain1, rtol=1e-12)
    np.testing.assert_allclose(l2, tail_weight * plain2, rtol=1e-12)
    np.testing.assert_allclose(class_weight * COUNTS, 308 / 10)


def test_focal_is_gamma_2_and_alpha_a_quarter():
    logits, labels, l1, l2 = losses_of("focal")
    p = np.asarray(jax.nn.softmax(logits))[np.arange(200), labels]
    np.testing.assert_allclose(l1, -((1 - p) ** 2) * np.log(p), rtol=1e-10)
    p = np.asarray(jax.nn.sigmoid(np.where(labels >= 7, logits[:, 0], -logits[:, 0])))
    np.testing.assert_allclose(l2, np.where(labels >= 7, 0.25, 0.75) * -((1 - p) ** 2) * np.log(p), rtol=1e-10)


def test_each_loss_reaches_its_own_model_alone():
    models, params = two_model.build_models(jax.random.key(0))
    update = two_model.build_update(models, *two_model.build_loss_pair("focal", COUNTS), TwoModelConfig())
    batch = {"image": jnp.ones((4, 64), jnp.float32), "label": jnp.arange(4), "is_tail": jnp.arange(4) > 2}
    assert jf.gradient_routes(update.losses, params, batch) == {
        "l1": {"model1": "all", "model2": "none"},
        "l2": {"model1": "none", "model2": "all"},
    }


def test_the_order_is_the_one_asked_for():
    models, _ = two_model.build_models(jax.random.key(0))
    for order in ("simultaneous", "alternating"):
        config = TwoModelConfig(order=order)
        assert two_model.build_update(models, *two_model.build_loss_pair("ce", COUNTS), config).order == order


def test_batches_depend_on_the_step_and_not_on_the_chunk():
    digits = {"label": jnp.arange(1000)}
    key = jax.random.key(0)
    whole, first, rest = (
        two_model.sample_batches(digits, key, jnp.array(steps), 8)["label"] for steps in ([0, 1], [0], [1])
    )
    assert whole.shape == (2, 8)
    np.testing.assert_array_equal(whole, jnp.concatenate([first, rest]))
    assert not np.array_equal(whole[0], whole[1])


def train_scale(learning_rate: float, **options) -> tuple[list[int], two_model.Params, dict[str, np.ndarray]]:
    """One number trained to be 1 / the mean brightness, in place of the two models: the loop of ``train``, cheaply."""
    digits, _ = long_tailed_digits(10.0, seed=0)
    update = jf.multi_update(
        lambda params, batch: {"l": (params["scale"] * batch["image"].mean() - 1) ** 2},
        {"scale": jf.Player(optax.sgd(learning_rate), loss="l", wrt="scale")},
    )
    steps: list[int] = []
    params, metrics = two_model.train(
        update,
        {"scale": jnp.ones((), jnp.float32)},
        digits,
        jax.random.key(0),
        TwoModelConfig(batch_size=8, **options),
        lambda step, _: steps.append(step),
    )
    return steps, params, metrics


def test_training_in_chunks_gives_the_metrics_of_every_step(monkeypatch):
    steps, params, metrics = train_scale(0.1, steps=60)
    assert steps == [50, 60]
    assert set(metrics) == {"l", "grad_norm/scale"}
    assert {values.shape for values in metrics.values()} == {(60,)}

    monkeypatch.setattr(two_model, "CHUNK_STEPS", 60)
    steps, other_params, other_metrics = train_scale(0.1, steps=60)
    assert steps == [60]
    np.testing.assert_allclose(params["scale"], other_params["scale"], rtol=1e-6)
    np.testing.assert_allclose(metrics["l"], other_metrics["l"], rtol=1e-5, atol=1e-12)


def test_training_that_diverges_is_an_error_and_not_a_result():
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) at step \d+; a lower learning rate may help"):
        train_scale(1e30, steps=50)


def constant_models(logits: np.ndarray, tail_logits: np.ndarray) -> two_model.TwoModels:
    return two_model.TwoModels(lambda _, x: jnp.asarray(logits), lambda _, x: jnp.asarray(tail_logits)[:, None])


def test_scores_of_known_predictions():
    _, test = long_tailed_digits(100.0, seed=0)
    predicted = np.where(test.labels == 9, 8, test.labels)
    found = test.labels >= 6
    models = constant_models(np.eye(10)[predicted], np.where(found, 1.0, -1.0))
    scores = two_model.evaluate(models, {"model1": None, "model2": None}, test)
    assert scores["recall"] == [1.0] * 9 + [0.0]
    assert scores["accuracy"] == scores["macro_recall"] == pytest.approx(0.9)
    assert scores["tail_detector"] == {"precision": 0.75, "recall": 1.0, "average_precision": pytest.approx(0.75)}


def test_precision_is_undefined_where_no_image_is_named():
    _, test = long_tailed_digits(100.0, seed=0)
    models = constant_models(np.zeros((500, 10)), np.full(500, -1.0))
    scores = two_model.evaluate(models, {"model1": None, "model2": None}, test)
    assert scores["accuracy"] == pytest.approx(0.1)
    assert scores["tail_detector"]["precision"] is None
    assert scores["tail_detector"]["recall"] == 0.0
