"""The training step of a RetinaNet: one pure function."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from .objective import Losses, retinanet_loss
from .retinanet import RetinaNet

BATCH = ("images", "boxes", "labels", "valid")


class TrainState(NamedTuple):
    """Parameters, running statistics of BatchNorm, and the state of the optimizer."""

    params: Any
    model_state: Any
    optimizer_state: Any


Step = Callable[[TrainState, dict[str, Array]], tuple[TrainState, Losses]]


def training_step(
    model: RetinaNet, optimizer: optax.GradientTransformation, **options: Any
) -> tuple[nnx.GraphDef, TrainState, Step]:
    """A model and an optimizer as a pure step, for one ``jax.jit``.

    The batch is a dict of ``images`` (normalised, padded), ``boxes``, ``labels`` and ``valid``. Where it is sharded
    over a mesh, losses and the statistics of BatchNorm are those of the whole batch.

    Args:
      model: as it is now. The step does not change it; a state that is donated uses up the arrays of the model.
      optimizer: of optax; it moves every parameter.
      options: of ``retinanet_loss``; the box loss is the model's unless given.

    Returns:
      ``graphdef, state, step``: ``step(state, batch)`` gives the next state and the losses, and
      ``nnx.merge(graphdef, state.params, state.model_state)`` a model.

    Raises:
      ValueError: for another model or optimizer, or, when the step is traced, a batch that lacks one of the four.

    >>> from jaxfocal.detection.fpn import resnet_fpn
    >>> rngs = nnx.Rngs(0)
    >>> model = RetinaNet(resnet_fpn(18, width=8, out_channels=16, rngs=rngs), num_classes=3, rngs=rngs)
    >>> graphdef, state, step = training_step(model, optax.sgd(1e-2))
    >>> step = jax.jit(step, donate_argnums=0)
    """
    if not isinstance(model, RetinaNet):
        raise ValueError(f"model must be a RetinaNet, got {type(model).__name__}")
    if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise ValueError(f"optimizer must be of optax, as optax.sgd(1e-2), got {optimizer!r:.80}")
    split: Any = nnx.split(model, nnx.Param, ...)
    graphdef, params, model_state = split
    options = {"box_loss": model.box_loss} | options

    def total_loss(params: Any, model_state: Any, batch: dict[str, Array]) -> tuple[Array, tuple[Losses, Any]]:
        merged = nnx.merge(graphdef, params, model_state, copy=True)  # variables that this trace may write
        images = batch["images"]
        outputs = merged(images, train=True)
        wide = jnp.promote_types(batch["boxes"].dtype, jnp.float32)
        anchors = merged.anchors(images.shape[1], images.shape[2], wide if wide == jnp.float64 else jnp.float32)
        losses = retinanet_loss(outputs, anchors, batch["boxes"], batch["labels"], batch["valid"], **options)
        return losses["classification"] + losses["bbox_regression"], (losses, nnx.state(merged, nnx.Not(nnx.Param)))

    def step(state: TrainState, batch: dict[str, Array]) -> tuple[TrainState, Losses]:
        missing = [name for name in BATCH if name not in batch] if isinstance(batch, dict) else list(BATCH)
        if missing:
            raise ValueError(
                f"batch must be a dict of {', '.join(BATCH)}, got {type(batch).__name__} without {', '.join(missing)}"
            )
        gradients, (losses, model_state) = jax.grad(total_loss, has_aux=True)(state.params, state.model_state, batch)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer_state, state.params)
        return TrainState(optax.apply_updates(state.params, updates), model_state, optimizer_state), losses

    return graphdef, TrainState(params, model_state, optimizer.init(params)), step
