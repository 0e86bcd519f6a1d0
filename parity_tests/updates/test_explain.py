"""Routes as a table, a step in plain words, and what is said once of groups that nobody moves."""

import warnings

import jax
import jax.numpy as jnp
import optax
import pytest

from jaxfocal import Player, gradient_routes, multi_update, scan_updates

stop = jax.lax.stop_gradient
SGD = optax.sgd(0.1)


def losses(params, x):
    fake = x * params["generator"]["scale"] + stop(params["generator"]["shift"])
    return {
        "d": jnp.mean((params["discriminator"] * (stop(fake) - x)) ** 2),
        "g": jnp.mean(fake * params["discriminator"]),
        "total": jnp.mean(fake * params["frozen"]),
    }


PARAMS = {"generator": {"scale": 1.0, "shift": 2.0}, "discriminator": jnp.ones(3), "frozen": 2.0}
X = jnp.arange(3.0)


def test_routes_print_as_a_table_and_compare_as_a_dict():
    routes = gradient_routes(losses, PARAMS, X)
    expected = {
        "d": {"generator": "none", "discriminator": "all", "frozen": "none"},
        "g": {"generator": "some", "discriminator": "all", "frozen": "none"},
        "total": {"generator": "some", "discriminator": "none", "frozen": "all"},
    }
    assert routes == expected
    assert repr(routes) == repr(expected)
    assert str(routes).splitlines() == [
        "loss   generator  discriminator  frozen",
        "d      none       all            none",
        "g      some       all            none",
        "total  some       none           all",
        "g reaches generator['scale'] of generator, not generator['shift']",
        "total reaches generator['scale'] of generator, not generator['shift']",
    ]


def test_the_leaves_behind_some():
    routes = gradient_routes(losses, PARAMS, X)
    assert routes.leaves("g", "generator", reached=True) == ["generator['scale']"]
    assert routes.leaves("g", "generator", reached=False) == ["generator['shift']"]
    assert routes.leaves("d", "discriminator", reached=True) == ["discriminator"]
    assert routes.leaves("d", "generator", reached=True) == []


def test_many_leaves_are_counted():
    params = {"net": {f"w{i}": 1.0 for i in range(9)} | {"frozen": 1.0}}
    routes = gradient_routes(
        lambda params: {"l": sum(value for name, value in params["net"].items() if name != "frozen")}, params
    )
    assert str(routes).endswith("net['w5'] and 3 more of net, not net['frozen']")


def gan(order, **generator):
    players = {
        "D": Player(SGD, loss="d", wrt="discriminator", n_steps=3, skip_nonfinite=True),
        "G": Player(SGD, loss="g", wrt="generator", **generator),
    }
    return multi_update(losses, players, order=order)


def test_alternating_in_words():
    text = gan("alternating", every=2, ema=0.9).explain(PARAMS, X)
    words, table = text.split("\n\n")
    assert words.splitlines() == [
        "alternating: each player takes its gradient at the parameters that the players before it left",
        "1. D moves 'discriminator' down loss 'd'",
        "   sees old 'generator', 'discriminator', 'frozen'",
        "   moves 3 times a step, over as many parts of the batch",
        "   stays where its gradient is not finite",
        "2. G moves 'generator' down loss 'g'",
        "   sees new 'discriminator' (from D), old 'generator', 'frozen'",
        "   'g' reaches 'discriminator' too, which is constant to this player",
        "   moves at the steps 0, 2, 4, ... only",
        "   its average, decay 0.9, is state.ema['G']",
        "nobody moves 'frozen'",
        "nobody minimises 'total'",
    ]
    assert table == str(gradient_routes(losses, PARAMS, X))


def test_simultaneous_in_words():
    lines = gan("simultaneous").explain(PARAMS, X).splitlines()
    assert lines[0] == "simultaneous: all gradients are taken at the parameters that the step began with"
    assert lines.count("   sees old 'generator', 'discriminator', 'frozen'") == 2
    assert not any("new" in line for line in lines)


def test_nothing_is_computed():
    def shape_of(leaf):
        return jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.float64)

    shapes = {group: jax.tree.map(shape_of, value) for group, value in PARAMS.items()}
    update = gan("alternating")
    assert update.explain(shapes, X) == update.explain(PARAMS, X)


def test_a_group_of_two_players_and_a_route_that_leads_nowhere():
    players = {"G": Player(SGD, loss="g", wrt="generator"), "both": Player(SGD, loss="d", wrt=tuple(PARAMS))}
    text = multi_update(losses, players).explain(PARAMS, X)
    assert "'generator' is moved by G and both: 2 optimizer states act on it, one update after the other" in text
    assert "no gradient of 'd' gets to 'generator': update will refuse this" in text
    assert "nobody moves" not in text


def test_model_state_in_words():
    def with_state(params, model_state, x):
        return losses(params, x), model_state

    players = {"G": Player(SGD, loss="g", wrt="generator", updates_state=False)}
    text = multi_update(with_state, players, has_model_state=True).explain(PARAMS, X, model_state=0.0)
    assert "leaves the model state as it found it" in text


@pytest.mark.parametrize(
    ("player", "message"),
    [
        (
            Player(SGD, loss="x", wrt="generator"),
            r"^player 'p' minimises loss 'x', but losses returned \['d', 'g', 'tot",
        ),
        (Player(SGD, loss="d", wrt="critic"), r"^player 'p' has wrt 'critic', which is no key of params: \['disc"),
    ],
)
def test_names_that_do_not_exist(player, message):
    with pytest.raises(ValueError, match=message):
        multi_update(losses, {"p": player}).explain(PARAMS, X)


def test_a_group_that_nobody_moves_is_a_warning_once_for_each_update():
    for _ in range(2):
        update = gan("simultaneous")
        state = update.init(PARAMS)
        with pytest.warns(UserWarning, match=r"^no player moves 'frozen', which will stay as given") as caught:
            jax.jit(update.update).lower(state, X)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            update.update(state, X)
            scan_updates(update, state, X[None])


def test_a_group_without_anything_to_move_is_no_warning():
    update = multi_update(lambda params: {"l": params["w"] ** 2}, {"p": Player(SGD, loss="l", wrt="w")})
    update.update(update.init({"w": 1.0, "count": jnp.arange(2), "function": jnp.tanh, "nothing": None}))
