"""A loss moves what its player names, and nothing else, whatever its value."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update

ORDERS = pytest.mark.parametrize("order", ["simultaneous", "alternating"])


def bits(x):
    return np.asarray(x).view(np.uint64)


@ORDERS
@pytest.mark.filterwarnings("ignore:no player moves 'backbone'")
def test_group_in_nobodys_wrt_keeps_every_bit(order):
    def losses(params, x):
        hidden = jnp.tanh(params["backbone"] * x)
        return {"l1": jnp.sum((hidden * params["head1"]) ** 2), "l2": jnp.sum(hidden * params["head2"])}

    players = {name: Player(optax.adamw(0.1), loss=f"l{name[-1]}", wrt=name) for name in ("head1", "head2")}
    update = multi_update(losses, players, order=order)
    backbone = jnp.array([0.1, -0.0, 1e-310, jnp.pi])
    state, step = (
        update.init({"backbone": backbone, "head1": jnp.ones(4), "head2": jnp.ones(4)}),
        jax.jit(update.update),
    )
    for _ in range(3):
        state, _ = step(state, jnp.arange(4.0))
    np.testing.assert_array_equal(bits(state.params["backbone"]), bits(backbone))
    assert not jnp.allclose(state.params["head1"], 1)


@ORDERS
def test_nan_in_one_loss_stays_in_its_model(order):
    def losses(params):
        return {"good": params["a"] ** 2, "bad": jnp.sqrt(-jnp.abs(params["b"])) + params["a"]}

    players = {
        "bad": Player(optax.adam(0.1), loss="bad", wrt="b"),
        "good": Player(optax.sgd(0.1), loss="good", wrt="a"),
    }
    update = multi_update(losses, players, order=order)
    state, metrics = jax.jit(update.update)(update.init({"a": jnp.array(2.0), "b": jnp.array(1.0)}))
    assert jnp.isnan(metrics["bad"])
    np.testing.assert_allclose(state.params["a"], 1.6, rtol=1e-15)
    assert jnp.isnan(state.params["b"])


@ORDERS
def test_infinite_derivative_of_one_loss_does_not_meet_the_zero_weight_of_another(order):
    """sqrt has an infinite derivative at 0, and 0 times that is NaN where one pullback serves both losses."""

    def losses(params):
        shared = params["a"] * params["b"]
        return {"root": jnp.sqrt(shared), "square": (shared - 1) ** 2}

    params = {"a": jnp.array(0.0), "b": jnp.array(3.0)}
    _, pullback = jax.vjp(losses, params)
    assert jnp.isnan(pullback({"root": jnp.array(0.0), "square": jnp.array(1.0)})[0]["a"])

    players = {"a": Player(optax.sgd(0.1), loss="square", wrt="a"), "b": Player(optax.sgd(0.1), loss="root", wrt="b")}
    update = multi_update(losses, players, order=order)
    state, metrics = jax.jit(update.update)(update.init(params))
    np.testing.assert_allclose(state.params["a"], 0.0 - 0.1 * 2 * (0 - 1) * 3.0, rtol=1e-15)
    assert metrics["grad_norm/a"] == 6


@pytest.mark.filterwarnings("ignore:no player moves 'b'")
def test_loss_that_reads_other_models_holds_them_constant():
    def losses(params):
        return {"l": jnp.exp(params["a"]) * jnp.exp(params["b"])}

    update = multi_update(losses, {"a": Player(optax.sgd(1.0), loss="l", wrt="a")})
    state, _ = update.update(update.init({"a": jnp.array(0.0), "b": jnp.array(0.5)}))
    np.testing.assert_allclose(state.params["a"], -jnp.exp(0.5), rtol=1e-15)
    assert state.params["b"] == 0.5
