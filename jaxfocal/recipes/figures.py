"""What the losses look like, drawn: ``jaxfocal figures``.

Each curve is the loss of the library itself, evaluated at the logit that gives the probability, and each gradient is
that of ``jax.grad``.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jaxfocal as jf
from jaxfocal import plots

from ._run_folder import run_folder

Loss = Callable[..., jax.Array]


def _focal(gamma: float) -> Loss:
    return partial(jf.sigmoid_focal_loss, gamma=gamma)


_asymmetric = partial(jf.asymmetric_loss, gamma_pos=1.0, gamma_neg=4.0, clip=0.05)

GAMMAS = (0.0, 0.5, 1.0, 2.0, 5.0)
BETAS = (0.9, 0.99, 0.999, 0.9999)
WEIGHTED: dict[str, tuple[Loss, int]] = {
    "cross-entropy": (_focal(0.0), 1),
    r"focal, $\gamma = 2$": (_focal(2.0), 1),
    r"Poly-1 focal, $\gamma = 2$, $\epsilon = 1$": (partial(jf.sigmoid_poly_focal_loss, gamma=2.0, epsilon=1.0), 1),
    r"FL*, $\gamma = 2$, $\beta = 1$": (partial(jf.sigmoid_focal_star_loss, gamma=2.0, beta=1.0), 1),
    r"asymmetric, positives, $\gamma_+ = 1$": (_asymmetric, 1),
    r"asymmetric, negatives, $\gamma_- = 4$, $m = 0.05$": (_asymmetric, 0),
}  # name: loss, label
LONG_TAIL = np.unique(np.rint(np.geomspace(1, 10_000, 41)).astype(np.int32))


def loss_curve(loss: Loss, label: int) -> plots.Curve:
    """``loss`` of an example of this label, as a function of the probability ``p_t (n,)`` of that label."""

    def curve(p_t: np.ndarray) -> jax.Array:
        return loss(_logits(p_t, label), jnp.full(p_t.shape, label))

    return curve


def gradient_curve(loss: Loss, label: int) -> plots.Curve:
    """The absolute derivative of ``loss`` by the logit, as a function of the probability ``p_t (n,)`` of the label."""

    def curve(p_t: np.ndarray) -> jax.Array:
        labels = jnp.full(p_t.shape, label)
        return jnp.abs(jax.grad(lambda logits: loss(logits, labels, reduction="sum"))(_logits(p_t, label)))

    return curve


def _logits(p_t: np.ndarray, label: int) -> jax.Array:
    z = np.log(p_t) - np.log1p(-p_t)
    return jnp.asarray(z if label == 1 else -z, jnp.float32)


def draw() -> dict[str, Figure]:
    """The figures by file name."""
    focal = {
        rf"$\gamma = {gamma:g}${', cross-entropy' if gamma == 0 else ''}": loss_curve(_focal(gamma), 1)
        for gamma in GAMMAS
    }
    weighting = {name: gradient_curve(loss, label) for name, (loss, label) in WEIGHTED.items()}
    class_weights = {"inverse frequency": jf.inverse_frequency_weights(LONG_TAIL)} | {
        rf"effective number, $\beta = {beta:g}$": jf.effective_number_weights(LONG_TAIL, beta=beta) for beta in BETAS
    }
    return {
        "focal_curves.png": plots.focal_curves_figure(
            focal, title=r"Focal loss, $(1 - p_t)^\gamma$ times the cross-entropy"
        ),
        "weighting.png": plots.weighting_figure(weighting, title="What an example weighs in training"),
        "class_weights.png": plots.class_weights_figure(
            LONG_TAIL, class_weights, title=f"Weights of {len(LONG_TAIL)} classes, which average 1"
        ),
    }


def main(out: Path) -> None:
    """Write the figures to ``out``, and a line for each to stdout."""
    with run_folder(out) as folder:
        figures = draw()
        for name, figure in figures.items():
            figure.savefig(folder / name, dpi=150)
    for name in figures:
        print(f"wrote {out / name}")
