"""Suite ``segmentation``: value and gradient of losses of many classes, whose one-hot labels need not be held."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxfocal

from ._case import Case, Setup
from ._device import Device
from ._loss_providers import Competitors, from_torchref
from ._reference import dice_mean

SUITE = "segmentation"
SMOOTH = 1e-5


@dataclass(frozen=True)
class DiceSetup:
    """The mean Dice loss of images, integer masks."""

    images: int
    side: int
    classes: int

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks of squares of one class each, logits that know them a little."""
        rng = np.random.default_rng(0)
        squares = rng.integers(0, self.classes, (self.images, 8, 8), dtype=np.int32)
        labels = squares.repeat(self.side // 8, axis=1).repeat(self.side // 8, axis=2)
        logits = rng.normal(0, 1.0, (*labels.shape, self.classes)).astype(np.float32)
        known = np.take_along_axis(logits, labels[..., None], axis=-1)
        np.put_along_axis(logits, labels[..., None], known + np.float32(4.0), axis=-1)
        return logits, labels

    def case(self, device: Device) -> Case:
        logits, labels = self.data()
        make = Competitors({"gradient": logits}, labels, device)
        providers = (
            make.in_jax("jaxfocal", partial(jaxfocal.dice_loss, smooth=SMOOTH, reduction="mean")),
            make.in_jax("JAX, one-hot", _one_hot_dice),
            make.in_torch("torchref", from_torchref("dice_loss", smooth=SMOOTH, reduction="mean")),
            make.in_torch("MONAI, PyTorch", _monai_dice),
        )
        name = f"dice, {self.images} x {self.side} x {self.side} pixels x {self.classes} classes"
        return make.case(SUITE, name, providers, dice_mean, smooth=SMOOTH)


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    if quick:
        return [DiceSetup(1, 64, 1000)]
    return [DiceSetup(8, 256, 21), DiceSetup(1, 128, 1000)]


def _one_hot_dice(x: Any, y: Any) -> Any:
    """As a person would write it."""
    p, t = jax.nn.softmax(x), jax.nn.one_hot(y, x.shape[-1])
    overlap, sizes = jnp.sum(p * t, axis=(1, 2)), jnp.sum(p + t, axis=(1, 2))
    return jnp.mean(1 - (2 * overlap + SMOOTH) / (sizes + SMOOTH))


def _monai_dice() -> Callable:
    from monai.losses import DiceLoss

    loss = DiceLoss(softmax=True, to_onehot_y=True, smooth_nr=SMOOTH, smooth_dr=SMOOTH)
    return lambda x, y: loss(x.movedim(-1, 1), y[:, None])
