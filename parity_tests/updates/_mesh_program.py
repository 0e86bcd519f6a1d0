"""A GAN step over a mesh of devices, of one process or of two: a program for a process of its own.

``python -m parity_tests.updates._mesh_program [number-of-this-process port]`` prints one JSON object: for each layout
of the parameters (of two processes only the first) how far the trajectory is from that of one device, what travels
between devices, and whether the state was donated.
"""

import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal as jf

ROWS, NOISE, WIDTH, HIDDEN, STEPS = 64, 3, 6, 8, 2
COLLECTIVE = r" = (.*?) (all-gather|all-to-all|collective-permute|reduce-scatter|all-reduce)(?:-start)?\("


def apply(weights, x):
    return jnp.tanh(x @ weights["in"]) @ weights["out"]


def losses(params, batch):
    fake = apply(params["generator"], batch["noise"])
    caught = apply(params["discriminator"], jax.lax.stop_gradient(fake))
    fooled, real = (apply(params["discriminator"], x) for x in (fake, batch["real"]))
    return {
        "d": jf.sigmoid_focal_loss(real, jnp.ones_like(real), reduction="mean")
        + jf.sigmoid_focal_loss(caught, jnp.zeros_like(caught), reduction="mean"),
        "g": jf.sigmoid_focal_loss(fooled, jnp.ones_like(fooled), reduction="mean"),
    }


PLAYERS = {
    "discriminator": jf.Player(optax.adam(1e-2), loss="d", wrt="discriminator", n_steps=2, skip_nonfinite=True),
    "generator": jf.Player(optax.adam(1e-2), loss="g", wrt="generator", every=2, ema=0.9),
}
# The batch over all devices and the parameters on each, or the batch over four and the hidden units over two.
LAYOUTS = {
    "replicated": (jax.P(("data", "model")), {"in": jax.P(), "out": jax.P()}),
    "sharded": (jax.P("data"), {"in": jax.P(None, "model"), "out": jax.P("model", None)}),
}
ORDERS = {"replicated": "alternating", "sharded": "simultaneous"}


def draw():
    """Parameters, and a batch a step, the same in every process."""
    rng = np.random.default_rng(0)
    sizes = {"generator": (NOISE, WIDTH), "discriminator": (WIDTH, 1)}
    params = {
        name: {"in": rng.normal(size=(n_in, HIDDEN)), "out": rng.normal(size=(HIDDEN, n_out))}
        for name, (n_in, n_out) in sizes.items()
    }
    widths = {"noise": NOISE, "real": WIDTH}
    return params, [{name: rng.normal(size=(ROWS, width)) for name, width in widths.items()} for _ in range(STEPS)]


def spread(mesh, array, spec):
    """An array over the devices of all processes, each of which knows it whole."""
    return jax.make_array_from_callback(array.shape, jax.NamedSharding(mesh, spec), lambda index: array[index])


def run(update, params, batches):
    """The last parameters and averages, the compiled step, and whether each step used up the state it was given."""
    state, donated = update.init(params), True
    step = jax.jit(update.update, donate_argnums=0).lower(state, batches[0]).compile()
    for batch in batches:
        before, (state, _) = state, step(state, batch)
        donated &= all(leaf.is_deleted() for leaf in jax.tree.leaves(before))
    return {"params": state.params, "ema": state.ema}, step.as_text(), donated


def travels(program):
    """Name and number of elements of each array that a collective operation of a compiled program makes."""
    return [
        (operation, int(np.prod([int(n) for n in shape.split(",") if n], dtype=int)))
        for shapes, operation in re.findall(COLLECTIVE, program)
        for shape in re.findall(r"\[([\d,]*)\]", shapes)
    ]


def gathered(tree):
    """The arrays whole, in every process."""
    mesh = jax.tree.leaves(tree)[0].sharding.mesh
    whole = jax.jit(lambda tree: tree, out_shardings=jax.NamedSharding(mesh, jax.P()))(tree)
    return jax.tree.map(lambda array: np.asarray(array.addressable_data(0)), whole)


def compare(layout):
    rows, of_weights = LAYOUTS[layout]
    update = jf.multi_update(losses, PLAYERS, order=ORDERS[layout])
    params, batches = draw()
    expected, *_ = run(update, *jax.tree.map(jnp.asarray, (params, batches)))
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    params = {
        name: {key: spread(mesh, array, of_weights[key]) for key, array in weights.items()}
        for name, weights in params.items()
    }
    batches = jax.tree.map(lambda array: spread(mesh, array, rows), batches)
    result, program, donated = run(update, params, batches)
    differences = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), gathered(result), expected)
    return {"difference": max(jax.tree.leaves(differences)), "travels": travels(program), "donated": donated}


def main(arguments):
    jax.config.update("jax_enable_x64", True)
    layouts = list(LAYOUTS)
    if arguments:
        layouts, (number, port) = ["replicated"], arguments
        jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=int(number))
    assert jax.device_count() == 8
    print(json.dumps({layout: compare(layout) for layout in layouts}))


if __name__ == "__main__":
    main(sys.argv[1:])
