"""Suite ``losses``: value and gradient together of the focal losses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import jaxfocal

from ._case import Case, Setup
from ._device import Device
from ._loss_providers import Competitors, from_torchref
from ._reference import sigmoid_focal_sum, softmax_focal_mean

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
        curve = {"gamma": self.gamma, "alpha": ALPHA}
        in_torchref = from_torchref("sigmoid_focal_loss", reduction="sum", **curve)

        def optax_loss(x: Any, y: Any) -> Any:
            return jnp.sum(optax.losses.sigmoid_focal_loss(x, y, **curve))

        def in_torchvision() -> Callable:
            from torchvision.ops import sigmoid_focal_loss

            return lambda x, y: sigmoid_focal_loss(x, y.to(x.dtype), reduction="sum", **curve)

        make = Competitors({"gradient": logits}, labels, device)
        providers = (
            make.in_jax("jaxfocal", partial(jaxfocal.sigmoid_focal_loss, reduction="sum", **curve)),
            make.in_jax("optax", optax_loss),
            make.in_torch("torchvision", in_torchvision),
            make.in_torch("torchref", in_torchref),
            make.under_torch_compile(COMPILED, in_torchref, self.torch_compile),
        )
        images, anchors, classes = logits.shape
        name = f"sigmoid focal, {images} x {anchors} anchors x {classes} classes, {labels.dtype} labels"
        return make.case(SUITE, name, providers, sigmoid_focal_sum, **curve)


@dataclass(frozen=True)
class SoftmaxSetup:
    """Mean focal loss of integer labels; with ``gamma=0`` it is cross-entropy, and both frameworks have their own."""

    rows: int
    classes: int
    gamma: float = 2.0
    torch_compile: bool = True

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Logits among which that of the label stands out, as in training that is under way."""
        rng = np.random.default_rng(0)
        logits = rng.normal(0, 2.0, (self.rows, self.classes)).astype(np.float32)
        labels = rng.integers(0, self.classes, self.rows, dtype=np.int32)
        logits[np.arange(self.rows), labels] += np.float32(4.0)
        return logits, labels

    def case(self, device: Device) -> Case:
        logits, labels = self.data()
        make = Competitors({"gradient": logits}, labels, device)
        in_torchref = from_torchref("softmax_focal_loss", gamma=self.gamma, reduction="mean")
        providers = (
            make.in_jax("jaxfocal", partial(jaxfocal.softmax_focal_loss, gamma=self.gamma, reduction="mean")),
            *(
                (
                    make.in_jax("optax cross-entropy", _optax_cross_entropy),
                    make.in_torch("torch cross_entropy", _torch_cross_entropy),
                )
                if self.gamma == 0
                else ()
            ),
            make.in_torch("torchref", in_torchref),
            make.under_torch_compile(COMPILED, in_torchref, self.torch_compile),
        )
        name = f"softmax focal, {self.rows} rows x {self.classes} classes, gamma={self.gamma:g}"
        return make.case(SUITE, name, providers, softmax_focal_mean, gamma=self.gamma)


def setups(quick: bool) -> list[Setup]:
    """The cases of the suite, small ones first."""
    if quick:
        return [
            SigmoidSetup(256, "uint8"),
            SigmoidSetup(256, "float32", torch_compile=False),
            SoftmaxSetup(1024, 1000),
            SoftmaxSetup(1024, 1000, gamma=0.0, torch_compile=False),
        ]
    return [
        SigmoidSetup(800, "uint8", images=2),
        SigmoidSetup(800, "float32", images=2, gamma=1.5),
        *(SoftmaxSetup(*shape, gamma=g) for shape in ((200_000, 21), (8192, 1000), (1024, 50_257)) for g in (2.0, 0.0)),
    ]


def _optax_cross_entropy(x: Any, y: Any) -> Any:
    return jnp.mean(optax.losses.softmax_cross_entropy_with_integer_labels(x, y))


def _torch_cross_entropy() -> Callable:
    from torch.nn.functional import cross_entropy

    return lambda x, y: cross_entropy(x, y.long())
