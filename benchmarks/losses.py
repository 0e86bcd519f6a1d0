"""Suite ``losses``: the sigmoid focal loss, value and gradient together, and its second derivative."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal

from . import _jax
from ._case import Case, Program, Provider, Setup
from ._copies import copy_providers
from ._device import Device
from ._loss_providers import Competitors, LossMaker, from_torchref
from ._reference import sigmoid_focal_hvp, sigmoid_focal_sum

SUITE = "losses"
COMPILED = "torchref, torch.compile"
ALPHA = 0.25
ANCHORS_A_CELL = 9
PYRAMID_STRIDES = (8, 16, 32, 64, 128)
COCO_CLASSES = 80


@dataclass(frozen=True)
class SigmoidSetup:
    """RetinaNet's classification loss on square images, summed over all anchors, labels as torchvision has them."""

    image_size: int
    label_dtype: str
    images: int = 1
    gamma: float = 2.0
    torch_compile: bool = True

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Logits around the prior 0.01; one anchor in 200 has an object, of which float labels hold the quality."""
        cells = sum(math.ceil(self.image_size / stride) ** 2 for stride in PYRAMID_STRIDES)
        anchors = self.images * ANCHORS_A_CELL * cells
        rng = np.random.default_rng(0)
        logits = rng.normal(-4.6, 2.0, (anchors, COCO_CLASSES)).astype(np.float32)
        labels = np.zeros(logits.shape, self.label_dtype)
        objects = rng.choice(anchors, anchors // 200, replace=False)
        quality = rng.uniform(0.5, 1.0, len(objects)) if labels.dtype.kind == "f" else 1
        labels[objects, rng.integers(0, COCO_CLASSES, len(objects))] = quality
        shape = (self.images, -1, COCO_CLASSES)
        return logits.reshape(shape), labels.reshape(shape)

    def case(self, device: Device) -> Case:
        logits, labels = self.data()
        images, anchors, classes = logits.shape
        name = f"sigmoid focal, {images} x {anchors} anchors x {classes} classes, {labels.dtype} labels"
        loss = SigmoidFocal(self.gamma)
        make = Competitors({"gradient": logits}, labels, device)
        providers = (
            make.in_jax("jaxfocal", loss.jaxfocal),
            make.in_jax("optax", loss.optax),
            make.in_torch("torchvision", loss.torchvision),
            make.in_torch("torchref", loss.torchref),
            make.under_torch_compile(COMPILED, loss.torchref, self.torch_compile),
        )
        return make.case(SUITE, name, providers, sigmoid_focal_sum, **loss.curve)


@dataclass(frozen=True)
class CurvatureSetup:
    """The second derivative of the summed loss times a vector; torch.compile has no double backward."""

    elements: int

    def case(self, device: Device) -> Case:
        rng = np.random.default_rng(0)
        logits, direction = rng.normal(0, 3.0, (2, self.elements)).astype(np.float32)
        labels = rng.integers(0, 2, self.elements, dtype=np.uint8)
        loss = SigmoidFocal()
        bytes_moved = logits.nbytes + direction.nbytes + labels.nbytes + logits.nbytes

        def in_jax(of: Callable) -> Callable[[], Program]:
            return partial(_jax.hvp_program, of, logits, direction, labels, device)

        def in_torch(make_loss: LossMaker) -> Program:
            from . import _torch

            return _torch.hvp_program(make_loss(), logits, direction, labels, device)

        return Case(
            suite=SUITE,
            name=f"second derivative of sigmoid focal, {self.elements} elements",
            providers=(
                Provider("jaxfocal", in_jax(loss.jaxfocal)),
                Provider("optax", in_jax(loss.optax)),
                Provider("torchvision", partial(in_torch, loss.torchvision)),
                Provider("torchref", partial(in_torch, loss.torchref)),
            ),
            reference=partial(sigmoid_focal_hvp, logits, labels, direction, **loss.curve),
            bytes_moved=bytes_moved,
            copies=copy_providers(bytes_moved, device),
        )


@dataclass(frozen=True)
class SigmoidFocal:
    """The summed loss under the names of all who have it."""

    gamma: float = 2.0

    @property
    def curve(self) -> dict[str, float]:
        return {"gamma": self.gamma, "alpha": ALPHA}

    def jaxfocal(self, x: Any, y: Any) -> Any:
        return jaxfocal.sigmoid_focal_loss(x, y, reduction="sum", **self.curve)

    def optax(self, x: Any, y: Any) -> Any:
        return jnp.sum(optax.losses.sigmoid_focal_loss(x, y, **self.curve))

    def torchvision(self) -> Callable:
        from torchvision.ops import sigmoid_focal_loss

        return lambda x, y: sigmoid_focal_loss(x, y.to(x.dtype), reduction="sum", **self.curve)

    def torchref(self) -> Callable:
        return from_torchref("sigmoid_focal_loss", reduction="sum", **self.curve)()


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    if quick:
        return [
            SigmoidSetup(256, "uint8"),
            SigmoidSetup(256, "float32", torch_compile=False),
            CurvatureSetup(1_000_000),
        ]
    return [
        CurvatureSetup(1_000_000),
        SigmoidSetup(800, "uint8", images=2),
        SigmoidSetup(800, "float32", images=2, gamma=1.5),
    ]
