"""What goes wrong in other people's programs of several models: an error here, or impossible."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update, scan_updates
from parity_tests.updates._two_model import GAN, apply, distance, draw_gan_batches, draw_params, gan_losses

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])
NOISE, REAL = (batch[0] for batch in draw_gan_batches(steps=1))
stop = jax.lax.stop_gradient


def gan(losses=gan_losses, order="alternating", g_optimizer=None, **options):
    players = {
        "D": Player(optax.adam(1e-2), loss="d", wrt="discriminator"),
        "G": Player(g_optimizer or optax.adam(1e-2), loss="g", wrt="generator", **options),
    }
    return multi_update(losses, players, order=order)


def start(update):
    return update.init(draw_params(GAN))


@ORDERS
def test_a_detach_left_in_the_generators_loss(order):
    def losses(params, noise, real):
        fake = stop(apply(params["generator"], noise))
        scores = apply(params["discriminator"], fake)
        return {"d": jnp.mean(scores) - jnp.mean(apply(params["discriminator"], real)), "g": -jnp.mean(scores)}

    update = gan(losses, order)
    with pytest.raises(ValueError, match=r"^player 'G' moves 'generator', but no gradient of its loss 'g' gets there"):
        jax.eval_shape(update.update, start(update), NOISE, REAL)


@ORDERS
def test_the_generators_gradient_does_not_move_the_discriminator(order):
    """Without ``zero_grad`` in PyTorch it would: D's parameters are the same with G's turn and without it."""
    with_g = gan(order=order)
    without = multi_update(
        gan_losses, {"D": with_g.players["D"], "G": Player(optax.set_to_zero(), loss="g", wrt="generator")}
    )
    ends = [jax.jit(update.update)(start(update), NOISE, REAL)[0] for update in (with_g, without)]
    assert distance(ends[0].params["discriminator"], ends[1].params["discriminator"]) < 1e-15
    assert distance(ends[0].params["generator"], ends[1].params["generator"]) > 1e-3


def twin_losses(params, x, y):
    return {name: jnp.mean((apply(params[name], x) - y[name]) ** 2) for name in ("critic1", "critic2")}


def twins(order, **options):
    players = {
        name: Player(optax.adam(1e-2), loss=name, wrt=name, **options) for name in ("critic2", "critic1")
    }  # not in the order of their names
    update = multi_update(twin_losses, players, order=order)
    return update, update.init({name: draw_params({name: (3, 4, 1)})[name] for name in ("critic1", "critic2")})


@ORDERS
def test_twin_critics_of_equal_form_do_not_swap_gradients(order):
    """They start equal and get different targets, so that an exchange would show."""
    update, state = twins(order)
    targets = {"critic1": jnp.ones((16, 1)), "critic2": -jnp.ones((16, 1))}
    step = jax.jit(update.update)
    for _ in range(5):
        state, _ = step(state, NOISE, targets)
    alone = {
        name: multi_update(
            lambda params, x, y, name=name: {name: jnp.mean((apply(params[name], x) - y) ** 2)},
            {name: Player(optax.adam(1e-2), loss=name, wrt=name)},
        )
        for name in targets
    }
    for name, single in alone.items():
        own = single.init({name: draw_params({name: (3, 4, 1)})[name]})
        batches = jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), (NOISE, targets[name]))
        expected, _ = scan_updates(single, own, *batches)
        assert distance({name: state.params[name]}, expected.params) < 1e-14
    assert distance(state.params["critic1"], state.params["critic2"]) > 1e-2


@ORDERS
@pytest.mark.parametrize("skip", [False, True])
def test_one_critics_nan_does_not_reach_the_other(order, skip):
    update, state = twins(order, skip_nonfinite=skip)
    targets = {"critic1": jnp.full((16, 1), jnp.nan), "critic2": jnp.ones((16, 1))}
    after, metrics = jax.jit(update.update)(state, NOISE, targets)
    assert np.isnan(metrics["critic1"])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after.params["critic2"]))
    assert distance(after.params["critic2"], state.params["critic2"]) > 1e-3
    bad = jax.tree.leaves(after.params["critic1"])
    assert all(np.isfinite(leaf).all() == skip for leaf in bad)


def normed(statistics, x):
    """BatchNorm in training: by the batch's own statistics, of which a running average is kept as PyTorch does."""
    mean, variance, n = jnp.mean(x, axis=0), jnp.var(x, axis=0), len(x)
    running = {
        "mean": 0.9 * statistics["mean"] + 0.1 * mean,
        "var": 0.9 * statistics["var"] + 0.1 * variance * n / (n - 1),
    }
    return (x - mean[None, :]) / jnp.sqrt(variance[None, :] + 1e-5), running


STATISTICS = {"mean": jnp.zeros(4), "var": jnp.ones(4)}


def test_an_average_does_not_leave_the_statistics_at_their_start():
    """The running statistics are not part of the average: it is evaluated with those of the state, which have moved."""

    def losses(params, statistics, x):
        hidden, statistics = normed(statistics, x @ params["w"])
        return {"l": jnp.mean(hidden @ params["v"])}, statistics

    update = multi_update(
        losses, {"p": Player(optax.sgd(0.1), loss="l", wrt=("w", "v"), ema=0.9)}, has_model_state=True
    )
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=(4, 4))), "v": jnp.ones(4)}
    x = rng.normal(1.0, 2.0, size=(100, 8, 4))
    state, _ = scan_updates(update, update.init(params, model_state=STATISTICS), x)
    expected = jnp.mean(jnp.asarray(x).reshape(-1, 4), axis=0) @ state.params["w"]
    assert jnp.linalg.norm(state.model_state["mean"] - expected) < 0.3 * jnp.linalg.norm(expected)
    assert jax.tree.structure(state.ema["p"]) == jax.tree.structure({"w": 0, "v": 0})


@pytest.mark.parametrize("together", [False, True], ids=["two-passes", "concatenated"])
def test_batch_norm_of_real_and_fake_apart_or_together_against_torch(together):
    """D(real) then D(fake) norms each by itself and moves the statistics twice, in this order; D(concat) once."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    def losses(params, statistics, real, fake):
        def scores(statistics, x):
            hidden, statistics = normed(statistics, x @ params["w"])
            return jnp.tanh(hidden) @ params["v"], statistics

        if together:
            both, statistics = scores(statistics, jnp.concatenate([real, fake]))
            on_real, on_fake = jnp.split(both, 2)
        else:
            on_real, statistics = scores(statistics, real)
            on_fake, statistics = scores(statistics, fake)
        return {"d": jnp.mean(on_fake**2) + jnp.mean((on_real - 1) ** 2)}, statistics

    rng = np.random.default_rng(0)
    w, v = rng.normal(size=(4, 4)), rng.normal(size=4)
    real, fake = rng.normal(1.0, 2.0, size=(2, 20, 8, 4))
    update = multi_update(losses, {"D": Player(optax.sgd(0.1), loss="d", wrt=("w", "v"))}, has_model_state=True)
    state, _ = scan_updates(update, update.init({"w": w, "v": v}, model_state=STATISTICS), real, fake)

    norm = torch.nn.BatchNorm1d(4, affine=False, dtype=torch.float64)
    weights = [torch.tensor(array, requires_grad=True) for array in (w, v)]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def scores(x):
        return torch.tanh(norm(x @ weights[0])) @ weights[1]

    for pair in zip(map(torch.tensor, real), map(torch.tensor, fake), strict=True):
        on_real, on_fake = scores(torch.cat(pair)).chunk(2) if together else map(scores, pair)
        optimizer.zero_grad()
        ((on_fake**2).mean() + ((on_real - 1) ** 2).mean()).backward()
        optimizer.step()
    theirs = {"w": weights[0].detach().numpy(), "v": weights[1].detach().numpy()}
    assert distance(state.params, theirs) < 1e-11
    statistics = {"mean": norm.running_mean.numpy(), "var": norm.running_var.numpy()}
    assert distance(state.model_state, statistics) < 1e-11


@ORDERS
def test_gradients_accumulated_in_one_player_alone(order):
    """``optax.MultiSteps`` holds the generator for three steps; the discriminator moves at each of them."""
    accumulating = optax.MultiSteps(optax.sgd(0.1), 3)
    update = gan(order=order, g_optimizer=accumulating)
    state, step = start(update), jax.jit(update.update)
    generator, by_hand = state.params["generator"], accumulating.init(state.params["generator"])
    gradient = jax.jit(jax.grad(lambda own, at, *batch: gan_losses({**at, "generator": own}, *batch)["g"]))
    for number, batch in enumerate(zip(*draw_gan_batches(steps=3), strict=True)):
        after, _ = step(state, *batch)
        at = {**state.params, "discriminator": (after if order == "alternating" else state).params["discriminator"]}
        changes, by_hand = accumulating.update(gradient(generator, at, *batch), by_hand, generator)
        generator = optax.apply_updates(generator, changes)
        assert distance(after.params["discriminator"], state.params["discriminator"]) > 1e-3
        assert (distance(after.params["generator"], state.params["generator"]) == 0) == (number < 2)
        assert distance(after.params["generator"], generator) < 1e-14
        state = after
