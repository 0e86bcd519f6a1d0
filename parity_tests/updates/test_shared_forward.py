"""One forward pass for several simultaneous players: the same gradients, and nothing of one loss in another's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal as jf
from jaxfocal import Player, multi_update
from parity_tests.updates._two_model import distance

SGD = optax.sgd(1.0)


@jax.custom_vjp
def reversed_slope(x):
    return jnp.sin(x)


reversed_slope.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (-cotangent * jnp.cos(x),))


def test_infinite_derivatives_inside_one_loop_stay_with_their_loss():
    """Both losses run through the same loop: a zero cotangent for the root would be NaN times zero inside of it."""

    def losses(params):
        def step(carry, _):
            root, square = carry
            return (jnp.sqrt(root * params["a"]), square * params["a"] * params["b"]), None

        (root, square), _ = jax.lax.scan(step, (params["b"] - 3, jnp.ones(())), length=2)
        return {"root": root, "square": square}

    params = {"a": jnp.array(2.0), "b": jnp.array(3.0)}
    _, pullback = jax.vjp(losses, params)
    assert jnp.isnan(pullback({"root": jnp.array(0.0), "square": jnp.array(1.0)})[0]["a"])
    update = multi_update(
        losses, {"a": Player(SGD, loss="square", wrt="a"), "b": Player(SGD, loss="root", wrt="b", skip_nonfinite=True)}
    )
    state, _ = jax.jit(update.update)(update.init(params))
    np.testing.assert_allclose(state.params["a"], 2 - 2 * 2 * 3**2, rtol=1e-15)
    assert state.skipped["b"] == 1


def test_custom_rules_checkpoints_and_branches():
    def losses(params, x):
        a = jax.checkpoint(lambda w: reversed_slope(x @ w))(params["w1"])
        b = jax.lax.cond(jnp.sum(a) > 0, lambda a: 2 * a, jnp.tanh, a @ params["w2"])
        rare = jf.linear_softmax_focal_loss(b, params["head"], np.arange(4) % 3, reduction="mean")
        return {"a": jnp.mean(a**2), "rare": rare, "constant": 1.0}

    rng = np.random.default_rng(0)
    shapes = {"w1": (3, 3), "w2": (3, 3), "head": (3, 3)}
    params = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    x = jnp.asarray(rng.normal(size=(4, 3)))
    update = multi_update(
        losses, {"one": Player(SGD, loss="a", wrt="w1"), "two": Player(SGD, loss="rare", wrt=("w2", "head"))}
    )
    state, metrics = jax.jit(update.update)(update.init(params), x)
    gradients = jax.jit(jax.jacrev(lambda params: {k: v for k, v in losses(params, x).items() if k != "constant"}))(
        params
    )
    expected = {
        "w1": params["w1"] - gradients["a"]["w1"],
        **{name: params[name] - gradients["rare"][name] for name in ("w2", "head")},
    }
    assert distance(state.params, expected) < 1e-14
    assert metrics["constant"] == 1


def test_players_that_stay_or_move_often_have_forward_passes_of_their_own():
    """The others share theirs, and each gradient is the one it would be alone."""

    def losses(params, x):
        a, b, c, d = (params[name] for name in "abcd")
        product = a * b * c * d * jnp.mean(x)
        return {"a": product, "b": product**2, "c": product**3, "d": product**4}

    options = {"a": {}, "b": {}, "c": {"every": 2}, "d": {"n_steps": 2}}
    params = {name: jnp.array(1.5 - 0.1 * i) for i, name in enumerate("abcd")}
    x = jnp.array([0.5, 0.75])
    update = multi_update(losses, {name: Player(SGD, loss=name, wrt=name, **of) for name, of in options.items()})
    state, _ = jax.jit(update.update)(update.init(params), x)
    moved = dict(params)
    for name, of in options.items():
        own = params[name]
        for j in range(of.get("n_steps", 1)):
            rows = x[j :: of.get("n_steps", 1)]
            own = own - jax.grad(lambda own, name=name, rows=rows: losses({**params, name: own}, rows)[name])(own)
        moved[name] = own
    assert distance(state.params, moved) < 1e-14
