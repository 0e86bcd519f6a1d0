"""The detectors of the suite ``detection``: random weights, a batch, and what jaxfocal does with them."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from jaxfocal import detection

from ._case import Outputs, Program
from ._device import Device
from ._jax import jax_program

Task = Literal["inference", "train step"]
Weights = dict[str, np.ndarray]

NUM_CLASSES = 91
LEARNING_RATE = 0.01
BOXES_AN_IMAGE, ROWS = 8, 16
NOT_TRAINED = ("running_mean", "running_var", "num_batches_tracked")
SPREAD = {"cls_logits": 0.03, "bbox_reg": 0.015}  # of a head's last kernel
PRIOR_LOGIT = -math.log(99)
RESIDUAL = 0.5  # scale of the later norms of a block


@dataclass(frozen=True)
class Detector:
    """RetinaNet on a ResNet with trainable BatchNorm, and normalised images padded to one size."""

    task: Task
    height: int
    width: int
    batch: int
    dtype: str = "float32"
    depth: int = 50

    def program(self, device: Device) -> Program:
        """In jaxfocal. In bfloat16, convolutions compute in it, on parameters in float32."""
        return (_inference if self.task == "inference" else _train_step)(self, device)

    def model(self) -> detection.RetinaNet:
        """With ``weights``."""
        return detection.load_torchvision(_abstract_model(self.depth, self.dtype), self.weights())

    def weights(self) -> Weights:
        """Under torchvision's names, float32."""
        return _weights(self.depth)

    def images(self) -> np.ndarray:
        """float32 (batch, height, width, 3)."""
        return np.random.default_rng(1).normal(size=(self.batch, self.height, self.width, 3)).astype(np.float32)

    def targets(self) -> detection.PaddedBoxes:
        """A few boxes an image, of all sizes."""
        rng = np.random.default_rng(2)
        shape = (self.batch, BOXES_AN_IMAGE, 2)
        image = np.array([self.width, self.height], np.float32)
        size = image * rng.uniform(0.1, 0.7, shape)
        corner = (image - size) * rng.uniform(0, 1, shape)
        boxes = np.concatenate([corner, corner + size], axis=2).astype(np.float32)
        labels = rng.integers(1, NUM_CLASSES, shape[:2])
        return detection.pad_boxes(list(boxes), list(labels), ROWS)

    def inference_outputs(self, scores: list[np.ndarray]) -> Outputs:
        """What is compared: the scores, best first. Rounding may swap near ones, and what belongs to them."""
        return {"scores": np.stack([np.pad(s, (0, 300 - len(s))) for s in scores])}

    def train_outputs(self, losses: dict[str, Any], weights: Weights) -> Outputs:
        """What is compared: both losses and how far one step moved all parameters."""
        before = self.weights()
        change = [(weights[key] - before[key]).ravel() for key in before if not key.endswith(NOT_TRAINED)]
        values = [np.asarray(losses[name]) for name in ("classification", "bbox_regression")]
        return {"losses": np.stack(values), "parameter change": np.concatenate(change)}


def _inference(detector: Detector, device: Device) -> Program:
    graphdef, state = nnx.split(detector.model())

    @jax.jit
    def detect(state: Any, images: jax.Array, image_sizes: jax.Array) -> detection.Detections:
        return detection.detect(nnx.merge(graphdef, state), images, image_sizes)

    image_sizes = np.array([[detector.height, detector.width]] * detector.batch, np.int32)
    args = jax.device_put((state, _images(detector), image_sizes), device.jax)

    def outputs(found: detection.Detections) -> Outputs:
        return detector.inference_outputs(list(np.asarray(found.scores)))

    return jax_program(detect, args, device, outputs=outputs)


def _train_step(detector: Detector, device: Device) -> Program:
    """Each call trains on from where the last one ended, in the same memory."""
    graphdef, state, step = detection.training_step(detector.model(), optax.sgd(LEARNING_RATE))
    compiled = jax.jit(step, donate_argnums=0)
    state, batch = jax.device_put((state, {"images": _images(detector), **detector.targets()._asdict()}), device.jax)
    args = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), (state, batch))

    def run() -> tuple[detection.TrainState, dict[str, jax.Array]]:
        nonlocal state
        state, losses = compiled(state, batch)
        return state, losses

    def outputs(returned: tuple[detection.TrainState, dict[str, jax.Array]]) -> Outputs:
        after, losses = returned
        model = nnx.merge(graphdef, after.params, after.model_state)
        return detector.train_outputs(losses, detection.export_torchvision(model))

    return jax_program(compiled, args, device, run=run, outputs=outputs)


def _images(detector: Detector) -> np.ndarray:
    return detector.images().astype(jnp.dtype(detector.dtype))


def _abstract_model(depth: int, dtype: str) -> detection.RetinaNet:
    def build() -> detection.RetinaNet:
        options: dict[str, Any] = {"dtype": jnp.dtype(dtype), "rngs": nnx.Rngs(0)}
        return detection.RetinaNet(detection.resnet_fpn(depth, **options), NUM_CLASSES, **options)

    return nnx.eval_shape(build)


@cache
def _weights(depth: int) -> Weights:
    """Variances that keep the size of what passes, and heads spread so that hundreds of boxes are found."""
    rng = np.random.default_rng(0)
    model = _abstract_model(depth, "float32")
    drawn = [
        (path, leaf.replace(_draw(rng, tuple(map(str, path)), leaf)))
        for path, leaf in nnx.to_flat_state(nnx.state(model))
    ]
    nnx.update(model, nnx.from_flat_state(drawn))
    return detection.export_torchvision(model)


def _draw(rng: np.random.Generator, path: tuple[str, ...], leaf: Any) -> jax.Array:
    *_, module, name = path
    if name == "kernel":
        deviation = SPREAD.get(module, 1.0) * math.sqrt(2 / math.prod(leaf.shape[:3]))
        return jnp.asarray(rng.normal(0, deviation, leaf.shape).astype(np.float32))
    if name == "scale":
        value = RESIDUAL if module in ("bn2", "bn3") else 1.0
    else:
        value = PRIOR_LOGIT if module == "cls_logits" else float(name == "var")
    return jnp.full(leaf.shape, value, leaf.dtype)
