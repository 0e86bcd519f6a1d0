"""The training step of a RetinaNet: one pure function."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from ._checks import check_array
from .objective import ClassificationLoss, Losses, check_losses, retinanet_focal_loss, retinanet_loss
from .retinanet import RetinaNet

BATCH = ("images", "boxes", "labels", "valid")


class TrainState(NamedTuple):
    """Parameters, running statistics of BatchNorm, and the state of the optimizer."""

    params: Any
    model_state: Any
    optimizer_state: Any


Step = Callable[[TrainState, dict[str, Array]], tuple[TrainState, Losses]]


def training_step(
    model: RetinaNet,
    optimizer: optax.GradientTransformation,
    *,
    classification_loss: ClassificationLoss = retinanet_focal_loss,
    box_loss: str | None = None,
) -> tuple[nnx.GraphDef, TrainState, Step]:
    """A model and an optimizer as a pure step, for one ``jax.jit``.

    The batch is a dict of ``images`` (normalised, padded), ``boxes``, ``labels`` and ``valid``. Where it is sharded
    over a mesh, losses and the statistics of BatchNorm are those of the whole batch.

    Args:
      model: as it is now. The step does not change it; a state that is donated uses up the arrays of the model.
      optimizer: of optax; it moves every parameter.
      classification_loss: of ``retinanet_loss``.
      box_loss: of ``retinanet_loss``; None: the model's.

    Returns:
      ``graphdef, state, step``: ``step(state, batch)`` gives the next state and the losses, and
      ``nnx.merge(graphdef, state.params, state.model_state)`` a model.

    Raises:
      ValueError: for another model or optimizer, an unknown box loss or a classification loss that is no function; when
        the step is traced, for another state, or a batch that lacks one of the four.

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
    box_loss = model.box_loss if box_loss is None else box_loss
    check_losses(classification_loss, box_loss)

    def total_loss(params: Any, model_state: Any, batch: dict[str, Array]) -> tuple[Array, tuple[Losses, Any]]:
        merged = nnx.merge(graphdef, params, model_state, copy=True)  # variables that this trace may write
        images = batch["images"]
        outputs = merged(images, train=True)
        wide = jnp.promote_types(batch["boxes"].dtype, jnp.float32)
        anchors = merged.anchors(images.shape[1], images.shape[2], wide if wide == jnp.float64 else jnp.float32)
        losses = retinanet_loss(
            outputs,
            anchors,
            batch["boxes"],
            batch["labels"],
            batch["valid"],
            classification_loss=classification_loss,
            box_loss=box_loss,
        )
        return losses["classification"] + losses["bbox_regression"], (losses, nnx.state(merged, nnx.Not(nnx.Param)))

    def step(state: TrainState, batch: dict[str, Array]) -> tuple[TrainState, Losses]:
        if not isinstance(state, TrainState):
            raise ValueError(
                f"state must be a TrainState, as training_step or step returns it, got {type(state).__name__}"
            )
        missing = [name for name in BATCH if name not in batch] if isinstance(batch, dict) else list(BATCH)
        if missing:
            raise ValueError(
                f"batch must be a dict of {', '.join(BATCH)}, got {type(batch).__name__} without {', '.join(missing)}"
            )
        for name in BATCH:
            check_array(name, batch[name])
        gradients, (losses, model_state) = jax.grad(total_loss, has_aux=True)(state.params, state.model_state, batch)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer_state, state.params)
        return TrainState(optax.apply_updates(state.params, updates), model_state, optimizer_state), losses

    return graphdef, TrainState(params, model_state, optimizer.init(params)), step
