"""What the laws need to know of a loss."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from mpmath import mpf

import jaxfocal as jf

SHAPE = (4, 5)
EPS = 2.0**-23
SMALLEST_NORMAL = float(np.finfo(np.float32).smallest_normal)
Example = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LossCase:
    """A loss with one kind of label.

    Attributes:
      id: the name of the row.
      name: the name of the loss, in jaxfocal and in torchref.
      labels: makes labels for logits of shape ``logits_shape``.
      variants: hyperparameters to run the laws with, float64 arrays or scalars.
      exact: the value of one element (row, image) at mpmath's precision, from the textbook formula, called with its
        logits and label as floats or (nested) lists, and the hyperparameters.
      over: what one value of the loss is taken over: each logit, a row of logits, an image of rows, or an image of
        logits (``binary image``). The loss has the leading dimensions.
      sweep: a hyperparameter, and the values that the laws about extremes and vmap run through.
      differentiable: the arguments, beside the logits, that the loss is differentiated by, and values to do it at; for
        ``labels`` those of the example are taken, whatever stands here.
      margin: how far the logits of one element or row lie apart, the ``m`` of the float32 bound; None for a loss that
        is not a function of a margin, and held to ``64 eps`` on ordinary logits instead.
      cancels: the absolute float32 error, in eps, of a loss with a genuine cancellation.
      slope_cancels: the same of its gradient alone, for the logit that a pixel is surely wrong about.
      any_size: whether the float32 bound is claimed, and tested, for logits of any size (``float32_error.py``).
      smallest: where the right value is smaller, the bound is not claimed; more than the smallest normal number for a
        loss that adds or rescales terms, which may be subnormal when the result is not.
      state: the running statistics that the loss takes and returns.
      required: the hyperparameters that the loss has no default for, or that are no numbers; a variant may replace
        those that are.
      held: hyperparameters, where the laws compare with finite differences, at which the gradient of a loss that holds
        a part of itself constant is the derivative of its value.
      spread: the standard deviation of the example's logits.
      local: whether each value depends on its own logits and label alone.
      classes: whether labels are integer classes, so that ``ignore_index``, ``axis`` and the like apply.
      logits_shape: of the example.
    """

    id: str
    name: str
    labels: Callable[[np.random.Generator], np.ndarray]
    variants: tuple[dict[str, Any], ...]
    exact: Callable[..., mpf]
    over: Literal["logit", "row", "image", "binary image"]
    sweep: tuple[str, tuple[float, ...]] | None = None
    differentiable: dict[str, Any] = field(default_factory=dict)
    margin: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    cancels: float = 0
    slope_cancels: float = 0
    any_size: bool = False
    smallest: float = SMALLEST_NORMAL
    state: Any = None
    required: dict[str, Any] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)
    spread: float = 2.0
    local: bool = True
    classes: bool = False
    logits_shape: tuple[int, ...] = SHAPE

    @property
    def loss(self) -> Callable:
        """The loss of jaxfocal; one with running statistics gets ``state`` and returns the loss alone."""
        loss = partial(getattr(jf, self.name), **self.required)
        return loss if self.state is None else partial(_without_new_state, loss, self.state)

    def loss_shape(self, logits_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the loss without reduction."""
        kept = {"logit": None, "row": -1, "image": 1, "binary image": 1}[self.over]
        return logits_shape[:kept]

    def where_shape(self, logits_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what ``where`` may drop: elements, rows, or the pixels of an image."""
        return logits_shape[:-1] if self.over in ("row", "image") else logits_shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the example's loss."""
        return self.loss_shape(self.logits_shape)

    def as_where(self, kept: np.ndarray) -> np.ndarray:
        """A mask of loss values as a ``where``, which for an image is one of pixels."""
        return kept.reshape(kept.shape + (1,) * (len(self.where_shape(self.logits_shape)) - kept.ndim))

    def like_logits(self, kept: np.ndarray) -> np.ndarray:
        """A mask of loss values with the dimensions of the logits."""
        return kept.reshape(kept.shape + (1,) * (len(self.logits_shape) - kept.ndim))

    def example(self, seed: int = 0) -> Example:
        """Float64 logits at ordinary sizes and labels."""
        rng = np.random.default_rng(seed)
        return rng.normal(scale=self.spread, size=self.logits_shape), self.labels(rng)

    def float32_tolerance(self, logits: np.ndarray, labels: np.ndarray, gamma: float = 2.0) -> tuple[Any, float]:
        """The relative error, one value a loss, and the absolute error that float32 may have on these logits."""
        relative = 64 * EPS if self.margin is None else 4 * EPS * (1 + (1 + gamma) * self.margin(logits, labels))
        return relative, self.cancels * EPS


def _without_new_state(loss: Callable, state: Any, logits: Any, labels: Any, **options: Any) -> Any:
    return loss(logits, labels, state, **options)[0]
