"""What a jitted step computes: no more products and loops than one written by hand that shares its forward passes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxfocal import Player, multi_update
from parity_tests.updates._two_model import distance

SGD = optax.sgd(0.1)
RNG = np.random.default_rng(0)
SHAPE = (5, 4, 8)  # time, rows, features


def mlp(weights, x):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return x


def recurrent(weights, x):
    def cell(state, row):
        state = jnp.tanh(state @ weights[0] + row @ weights[1])
        return state, state

    return jax.lax.scan(cell, jnp.zeros(SHAPE[1:]), x)[1]


MODELS = {"mlp": mlp, "scan": recurrent}
COUNTS = {"mlp": {"dot": 10, "while": 0}, "scan": {"dot": 10, "while": 4}}


def losses_of(model, between=lambda a: a):
    def losses(params, x):
        a = model(params["model1"], x)
        b = model(params["model2"], between(a))
        return {"l1": jnp.mean((a - 1) ** 2), "l2": jnp.mean((b - 2) ** 2)}

    return losses


def by_hand(model):
    """Each model run once, and the output of the first handed to the second: what detach does in PyTorch."""

    def step(state, x):
        params = state.params
        a, pullback1 = jax.vjp(lambda w: model(w, x), params["model1"])
        b, pullback2 = jax.vjp(lambda w: model(w, a), params["model2"])
        l1, cotangent1 = jax.value_and_grad(lambda a: jnp.mean((a - 1) ** 2))(a)
        l2, cotangent2 = jax.value_and_grad(lambda b: jnp.mean((b - 2) ** 2))(b)
        gradients = {"model1": pullback1(cotangent1)[0], "model2": pullback2(cotangent2)[0]}
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), {"l1": l1, "l2": l2}

    return step


def compiled(step, state, x):
    return jax.jit(step).lower(state, x).compile()


def counts(program):
    return {name: len(re.findall(rf" {name}(?:\.\d+)?\(", program.as_text())) for name in ("dot", "while")}


def start():
    x = jnp.asarray(RNG.normal(size=SHAPE))
    return {name: list(jnp.asarray(RNG.normal(size=(2, 8, 8)))) for name in ("model1", "model2")}, x


@pytest.mark.parametrize("between", [lambda a: a, jax.lax.stop_gradient], ids=["attached", "detached"])
@pytest.mark.parametrize("name", MODELS)
def test_own_losses_cost_what_they_cost_by_hand(name, between):
    players = {f"p{i}": Player(SGD, loss=f"l{i}", wrt=f"model{i}") for i in (1, 2)}
    update = multi_update(losses_of(MODELS[name], between), players)
    params, x = start()
    state = update.init(params)
    ours, by_hands = compiled(update.update, state, x), compiled(by_hand(MODELS[name]), state, x)
    assert counts(by_hands) == COUNTS[name]  # the count sees what is there
    assert all(counts(ours)[what] <= n for what, n in COUNTS[name].items()), counts(ours)
    (after, metrics), (expected, losses) = ours(state, x), by_hands(state, x)
    assert distance(after.params, expected) < 1e-13
    assert distance({name: metrics[name] for name in losses}, losses) < 1e-13


def with_statistics_and_dropout(model):
    """A mean of what model1 gives is kept; the key comes with the batch, one for all players."""

    def losses(params, mean, batch):
        a = model(params["model1"], batch["x"])
        kept = jax.random.bernoulli(batch["key"], 0.5, a.shape)
        b = model(params["model2"], jnp.where(kept, a, 0))
        return {"l1": jnp.mean((a - 1) ** 2), "l2": jnp.mean((b - 2) ** 2)}, 0.9 * mean + 0.1 * jnp.mean(a)

    return losses


def players_with_state(first, second):
    return {
        name: Player(SGD, loss=f"l{name[-1]}", wrt=f"model{name[-1]}", updates_state=name == "p1")
        for name in (first, second)
    }


@pytest.mark.parametrize("name", MODELS)
def test_model_state_and_a_key_in_the_batch_cost_no_more(name):
    """As long as all players but the last to share the pass leave the state."""
    losses = with_statistics_and_dropout(MODELS[name])
    update, state_first = (
        multi_update(losses, players_with_state(*order), has_model_state=True) for order in (("p2", "p1"), ("p1", "p2"))
    )
    params, x = start()
    batch, state = {"x": x, "key": jax.random.key(0)}, update.init(params, model_state=0.5)
    program = compiled(update.update, state, batch)
    most = {**COUNTS[name], "while": COUNTS[name]["while"] + 1}  # a loop draws the random bits
    assert all(counts(program)[what] <= n for what, n in most.items()), counts(program)
    (after, metrics), (others, other_metrics) = program(state, batch), jax.jit(state_first.update)(state, batch)
    assert distance((after.params, after.model_state), (others.params, others.model_state)) < 1e-13
    assert distance(metrics, other_metrics) < 1e-13
    assert after.model_state != 0.5
    if name == "scan":
        assert counts(compiled(state_first.update, state, batch))["while"] > most["while"]


@pytest.mark.parametrize(("name", "most"), [("mlp", {"dot": 14, "while": 0}), ("scan", {"dot": 14, "while": 5})])
def test_two_losses_on_one_model_cost_one_forward_pass(name, most):
    """Forward, the backward of l1 through model1, that of l2 through both: 4 + 3 + 7 products for two layers each."""
    players = {
        "p2": Player(SGD, loss="l2", wrt=("model1", "model2")),
        "p1": Player(SGD, loss="l1", wrt="model1"),
    }
    update = multi_update(losses_of(MODELS[name]), players)
    params, x = start()
    found = counts(compiled(update.update, update.init(params), x))
    assert all(found[what] <= n for what, n in most.items()), found


def test_loops_of_two_forward_passes_would_not_be_merged():
    """Why the forward pass is shared: a gradient a loss, each with a forward pass of its own, has a loop more."""
    losses = losses_of(recurrent)

    def step(params, x):
        return [
            jax.grad(lambda own, i=i: losses({**params, f"model{i}": own}, x)[f"l{i}"])(params[f"model{i}"])
            for i in (1, 2)
        ]

    params, x = start()
    assert counts(compiled(step, params, x))["while"] == COUNTS["scan"]["while"] + 1
