"""Two small models that share a group, all arrays of one shape, so that uncompiled runs are quick too."""

import jax.numpy as jnp
import numpy as np
import optax

from jaxfocal import Player

PLAYERS = {
    "second": Player(optax.adam(0.1), loss="l2", wrt=("w1", "w2")),
    "first": Player(optax.sgd(0.1, momentum=0.5), loss="l1", wrt="w1"),
}
X = np.random.default_rng(0).normal(size=(2, 4))


def losses(params, x):
    a = jnp.tanh(params["w1"] @ x)
    return {"l1": jnp.mean((a - 1) ** 2), "l2": jnp.mean((params["w2"] @ a) ** 2)}


def params(seed=0):
    w1, w2 = np.random.default_rng(seed).normal(size=(2, 2, 2))
    return {"w1": jnp.asarray(w1), "w2": jnp.asarray(w2)}
