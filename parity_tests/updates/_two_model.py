"""Two chained models and a GAN in plain arrays: weights, batches, losses, optimizers, and a run of many steps."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import optax

import jaxfocal as jf
from benchmarks._program_losses import gan

STEPS = 20
SHALLOW = {"model1": (10, 2), "model2": (2, 2)}
DEEPER = {"model1": (10, 4, 2), "model2": (2, 2)}
GAN = {"generator": (3, 8, 4), "discriminator": (4, 8, 1)}

# Both frameworks round a parameter in each of the steps, by half an eps of its size: at most STEPS * eps in all, 2.4e-6
# in float32 if every rounding went the same way. In float64 that is 4e-15; the rest is room for the rounding of the
# gradients, which a step multiplies by the learning rate and the curvature.
TOLERANCES = [("float64", 1e-12), ("float32", 2e-6)]

OPTAX: dict[str, Callable[[], optax.GradientTransformation]] = {
    "adam": lambda: optax.adam(1e-3, b1=0.5, b2=0.999, eps=1e-8),
    "adamw": lambda: optax.adamw(1e-3, b1=0.9, b2=0.99, eps=1e-8, weight_decay=0.1),
    "sgd": lambda: optax.sgd(0.1, momentum=0.9),
}

ADAM = ("adam", "adam")
MIXED = ("sgd", "adamw")  # of model1 and model2, or of generator and discriminator

RUNS = {"adam64": (ADAM, *TOLERANCES[0]), "adam32": (ADAM, *TOLERANCES[1]), "mixed64": (MIXED, *TOLERANCES[0])}

# The criteria of the two models differ, so that no test passes with the two exchanged.
GAMMA1, GAMMA2 = 0.0, 2.0


def draw_params(sizes: dict[str, tuple[int, ...]], dtype: str = "float64") -> dict[str, Any]:
    """``{model: [(weight (out, in), bias (out,)), ...]}``, uniform as ``torch.nn.Linear`` draws them."""
    rng = np.random.default_rng(0)

    def layer(n_in: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
        bound = n_in**-0.5
        return tuple(rng.uniform(-bound, bound, shape).astype(dtype) for shape in ((n_out, n_in), (n_out,)))

    return {name: [layer(*pair) for pair in pairwise(of)] for name, of in sizes.items()}


def draw_batches(dtype: str = "float64", steps: int = STEPS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``x (steps, 16, 10)`` and the labels of either model ``(steps, 16)``."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(steps, 16, 10)).astype(dtype)
    return x, rng.integers(0, 2, size=(steps, 16)), rng.integers(0, 2, size=(steps, 16))


def draw_gan_batches(dtype: str = "float64", steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """``noise (steps, 16, 3)`` and ``real (steps, 16, 4)``."""
    rng = np.random.default_rng(2)
    return rng.normal(size=(steps, 16, 3)).astype(dtype), rng.normal(1.0, 0.5, size=(steps, 16, 4)).astype(dtype)


def apply(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    """Linear layers with tanh between them."""
    for i, (weight, bias) in enumerate(layers):
        x = (jax.numpy.tanh(x) if i else x) @ weight.T + bias[None, :]
    return x


def chain_losses(params: dict[str, Any], x: jax.Array, y1: jax.Array, y2: jax.Array) -> dict[str, jax.Array]:
    """model2 reads what model1 gives; the gradient of ``l2`` reaches both."""
    return _chain(params, x, y1, y2, lambda a: a)


def detached_losses(params: dict[str, Any], x: jax.Array, y1: jax.Array, y2: jax.Array) -> dict[str, jax.Array]:
    """model2 reads what model1 gives; the gradient of ``l2`` stops between them."""
    return _chain(params, x, y1, y2, jax.lax.stop_gradient)


def _chain(params, x, y1, y2, between):
    a = apply(params["model1"], x)
    b = apply(params["model2"], between(a))
    l1 = jf.softmax_focal_loss(a, y1, gamma=GAMMA1, reduction="mean")
    l2 = jf.softmax_focal_loss(b, y2, gamma=GAMMA2, reduction="mean")
    return {"l1": l1, "l2": l2, "total": l1 + l2}


def gan_losses_of(call: Callable[[str, Any, jax.Array], jax.Array]) -> Callable[..., dict[str, jax.Array]]:
    """The losses function of a GAN whose models are called as ``call(name, params[name], x)``."""

    def losses(params: dict[str, Any], noise: jax.Array, real: jax.Array) -> dict[str, jax.Array]:
        return gan(lambda name, x: call(name, params[name], x), noise, real, gamma=GAMMA2)

    return losses


gan_losses = gan_losses_of(lambda _, params, x: apply(params, x))


def chain_players(
    optimizers: tuple[str, str] = ADAM,
    *,
    loss1: str = "l1",
    loss2: str = "l2",
    wrt2: str | tuple[str, ...] = "model2",
) -> dict[str, jf.Player]:
    """model2's player first, as the PyTorch programs step it first; ``optimizers`` are model1's and model2's."""
    return {
        "model2": jf.Player(OPTAX[optimizers[1]](), loss=loss2, wrt=wrt2),
        "model1": jf.Player(OPTAX[optimizers[0]](), loss=loss1, wrt="model1"),
    }


def run_side_by_side(
    updates: dict[str, jf.MultiUpdate], params: dict[str, Any], batches: tuple[np.ndarray, ...]
) -> dict[str, tuple[jf.MultiState, Any]]:
    """For each update, a step a batch: the last state, and the metrics stacked over the steps.

    One jitted function steps them all, and XLA is told not to optimize: compiling is most of what such a run takes.
    """
    states, history = {name: update.init(params) for name, update in updates.items()}, []

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def step(states, *batch):
        pairs = {name: update.update(states[name], *batch) for name, update in updates.items()}
        return tuple({name: pair[i] for name, pair in pairs.items()} for i in range(2))

    for batch in zip(*batches, strict=True):
        states, metrics = step(states, *batch)
        history.append(metrics)
    history = jax.tree.map(lambda *leaves: np.stack(leaves), *history)
    return {name: (states[name], history[name]) for name in updates}


def run(update: jf.MultiUpdate, params: dict[str, Any], batches: tuple[np.ndarray, ...]) -> tuple[jf.MultiState, Any]:
    """The last state, and the metrics stacked over the steps."""
    return run_side_by_side({"only": update}, params, batches)["only"]


def distance(ours: Any, theirs: Any) -> float:
    """The largest difference between two pytrees of the same structure, relative to the largest entry."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    assert all(np.shape(a) == np.shape(b) and a.dtype == b.dtype for a, b in pairs)
    return float(max(np.abs(a - b).max() for a, b in pairs) / max(np.abs(b).max() for _, b in pairs))
