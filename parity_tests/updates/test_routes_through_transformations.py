"""Routes through programs that hold other programs."""

import jax
import jax.numpy as jnp
import pytest

from jaxfocal import gradient_routes

stop = jax.lax.stop_gradient


def params():
    return {"a": jnp.array([0.5, 1.0]), "b": jnp.array([1.5, 2.0])}


def joined(a, b):
    return jnp.sin(a) * b


def b_stopped(a, b):
    return jnp.sin(a) * stop(b)


def by_scan(fn):
    return lambda a, b: jax.lax.scan(lambda carry, _: (fn(carry, b), None), a, length=3)[0]


def by_stacked_scan(fn):
    return lambda a, b: jax.lax.scan(lambda _, row: (None, fn(*row)), None, (a, b))[1]


def by_cond(fn):
    return lambda a, b: jax.lax.cond(jnp.sum(b) > 0, fn, lambda a, b: a, a, b)


def by_switch(fn):
    return lambda a, b: jax.lax.switch(1, [lambda a, b: a, fn, lambda a, b: 2 * a], a, b)


def by_fori_loop(fn):
    return lambda a, b: jax.lax.fori_loop(0, 3, lambda _, carry: fn(carry, b), a)


def by_custom_jvp(fn):
    custom = jax.custom_jvp(fn)
    custom.defjvp(lambda primals, tangents: jax.jvp(fn, primals, tangents))
    return custom


def by_custom_vjp(fn):
    custom = jax.custom_vjp(fn)
    custom.defvjp(lambda *args: jax.vjp(fn, *args), lambda pullback, cotangent: pullback(cotangent))
    return custom


def by_debug_print(fn):
    def printing(a, b):
        jax.debug.callback(lambda *_: None, a, b)
        return fn(a, b)

    return printing


def by_gradient(fn):
    return jax.grad(lambda a, b: jnp.sum(fn(a, b) * a))


WRAPPERS = {
    "plain": lambda fn: fn,
    "jit": jax.jit,
    "nested jit": lambda fn: jax.jit(lambda a, b: jax.jit(fn)(a, b)),
    "checkpoint": jax.checkpoint,
    "vmap": jax.vmap,
    "scan": by_scan,
    "stacked scan": by_stacked_scan,
    "fori_loop": by_fori_loop,
    "cond": by_cond,
    "switch": by_switch,
    "custom_jvp": by_custom_jvp,
    "debug callback": by_debug_print,
    "gradient inside": by_gradient,
    "checkpointed scan under jit": lambda fn: jax.jit(by_scan(jax.checkpoint(fn))),
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize(("fn", "extent"), [(joined, "all"), (b_stopped, "none")])
def test_stop_gradient_inside(wrapper, fn, extent):
    def losses(params):
        return {"l": jnp.sum(wrapper(fn)(params["a"], params["b"]))}

    assert gradient_routes(losses, params()) == {"l": {"a": "all", "b": extent}}


@pytest.mark.parametrize("wrapper", [*WRAPPERS.values(), by_custom_vjp], ids=[*WRAPPERS, "custom_vjp"])
def test_stop_gradient_before(wrapper):
    def losses(params):
        return {"l": jnp.sum(wrapper(joined)(params["a"], stop(params["b"])))}

    assert gradient_routes(losses, params()) == {"l": {"a": "all", "b": "none"}}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_gradient_is_zero_exactly_where_no_route_leads(wrapper):
    gradient = jax.jit(jax.grad(lambda params: jnp.sum(wrapper(b_stopped)(params["a"], params["b"]))))(params())
    assert jnp.any(gradient["a"] != 0)
    assert jnp.all(gradient["b"] == 0)


def test_carries_of_one_scan_keep_apart():
    def losses(params):
        def step(carry, x):
            a, b, product = carry
            return (a + x, 2 * b, product * a), x * a

        carry = params["a"], params["b"], jnp.ones(2)
        (a, b, product), ys = jax.lax.scan(step, carry, jnp.arange(3.0))
        return {"a": jnp.sum(a), "b": jnp.sum(b), "product": jnp.sum(product), "ys": jnp.sum(ys)}

    only_a, only_b = {"a": "all", "b": "none"}, {"a": "none", "b": "all"}
    assert gradient_routes(losses, params()) == {"a": only_a, "b": only_b, "product": only_a, "ys": only_a}


def test_a_carry_passed_on_reaches_what_is_read_steps_later():
    def losses(params):
        def step(carry, _):
            first, second, _ = carry
            return (first, first, second), None

        return {"l": jnp.sum(jax.lax.scan(step, (params["a"], params["b"], params["b"]), length=2)[0][2])}

    assert gradient_routes(losses, params())["l"]["a"] == "all"


@pytest.mark.parametrize(
    ("branches", "routes"),
    [
        ((lambda p: p["a"], lambda p: p["b"]), {"a": "all", "b": "all"}),
        ((lambda p: p["a"], lambda p: stop(p["b"])), {"a": "all", "b": "none"}),
        ((lambda p: stop(p["a"]), lambda p: 0 * stop(p["b"])), {"a": "none", "b": "none"}),
    ],
    ids=["either", "one-stopped", "both-stopped"],
)
def test_any_branch_of_cond_counts(branches, routes):
    def losses(params):
        return {"l": jnp.sum(jax.lax.cond(params["a"][0] > 0, *branches, params))}

    assert gradient_routes(losses, params()) == {"l": routes}


def test_predicate_of_cond_does_not_count():
    def losses(params):
        return {"l": jnp.sum(jax.lax.cond(params["a"][0] > 0, lambda b: b, lambda b: 2 * b, params["b"]))}

    assert gradient_routes(losses, params()) == {"l": {"a": "none", "b": "all"}}


def test_while_loop():
    def losses(params):
        grown = jax.lax.while_loop(lambda x: jnp.sum(x) < 10, lambda x: x * (1 + params["b"]), params["a"])
        stopped = jax.lax.while_loop(
            lambda x: jnp.sum(x) < 10, lambda x: x * (1 + stop(params["b"])), stop(params["a"])
        )
        return {"grown": jnp.sum(grown), "stopped": jnp.sum(stopped)}

    assert gradient_routes(losses, params()) == {
        "grown": {"a": "all", "b": "all"},
        "stopped": {"a": "none", "b": "none"},
    }


def test_custom_jvp_counts_as_its_rule_says():
    @jax.custom_jvp
    def product(a, b):
        return a * b

    @product.defjvp
    def only_by_a(primals, tangents):
        return product(*primals), primals[1] * tangents[0]

    def losses(params):
        return {"l": jnp.sum(product(params["a"], params["b"]))}

    assert gradient_routes(losses, params()) == {"l": {"a": "all", "b": "none"}}


def test_custom_vjp_counts_as_depending_on_all_its_arguments():
    """Its rule runs backwards only, and cannot be looked into."""

    @jax.custom_vjp
    def product(a, b):
        return a * b

    product.defvjp(lambda a, b: (a * b, b), lambda b, cotangent: (b * cotangent, None))

    def losses(params):
        return {"l": jnp.sum(product(params["a"], params["b"])), "other": jnp.sum(params["a"])}

    assert gradient_routes(losses, params()) == {"l": {"a": "all", "b": "all"}, "other": {"a": "all", "b": "none"}}


def test_mean_over_a_mapped_axis():
    def losses(params):
        means = jax.vmap(lambda a, b: jax.lax.pmean(a * stop(b), "devices"), axis_name="devices")
        return {"l": jnp.sum(means(params["a"], params["b"]))}

    assert gradient_routes(losses, params()) == {"l": {"a": "all", "b": "none"}}
