"""Losses of regions: one value an image, from how far each predicted class overlaps the labelled one."""

from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from ._checks import NON_NEGATIVE, POSITIVE
from ._classes import one_or_nan
from ._overlap import class_mean, confusion, region_loss, tversky_of_class
from ._power import share_power
from ._residual import one_residual


def dice_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    smooth: ArrayLike = 1e-5,
    class_weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Dice loss of each image: 1 less the overlap of prediction and label, class by class.

    With ``p`` the softmax, ``t`` the label distribution (one-hot for integer labels), and sums over the image's pixels:

    .. math::
        TP_c = \sum p_c t_c \qquad FP_c = \sum p_c (1 - t_c) \qquad FN_c = \sum (1 - p_c) t_c

        L_c = 1 - \frac{2 TP_c + s}{2 TP_c + FP_c + FN_c + s}
        \qquad L = \frac{\sum_c w_c L_c}{\sum_c w_c}

        \frac{\partial L_c}{\partial x_j} = \frac{(1 - 2 t_c) - L_c}{2 TP_c + FP_c + FN_c + s}
        \, p_c ([c = j] - p_j)

    ``s = smooth``; the gradient is that by the logits of one pixel, with its ``p`` and ``t``. The loss is computed as
    ``(FP + FN) / (2 TP + FP + FN + s)``, and ``1 - p`` is never formed by subtraction. A class that is neither
    labelled nor predicted costs nothing, with ``smooth=0`` too. For soft labels the counts are expectations, so that
    predicting the label distribution itself is not a loss of 0.

    Args:
      logits: floating point, (B, ..., C) with classes along ``axis``: (B, H, W, C), or (B, C, H, W) with ``axis=1``.
        At least two classes: for one foreground logit ``x`` a pixel, ``jnp.stack([jnp.zeros_like(x), x], -1)``.
        float16 and bfloat16 are computed in float32. An infinite or NaN logit makes its image NaN.
      labels: integers in [0, C), of the shape of logits without ``axis``, or float distributions of logits' shape.
      smooth: a scalar, >= 0; may be traced and differentiated.
      class_weights: (C,), >= 0; the weights of the mean over classes. [0, 1, ..., 1] leaves the background out. All 0
        is a loss of 0.
      ignore_index: pixels with this integer label are dropped; any int32, 255 in most segmentation data.
      axis: the class axis.
      where: bool, of pixels, with the dimensions of logits without ``axis``, to which it broadcasts; pixels where it is
        False are dropped, and their values not looked at. An image that keeps no pixel is dropped: ``(B, 1, 1)`` masks
        images.
      weights: multiplies the loss of each image; broadcasts to (B,).
      reduction, normalizer: as in ``softmax_focal_loss``, over the images kept.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar.

    Raises:
      ValueError: for shapes that do not match, labels that are not in range, or hyperparameters out of theirs. Labels
        that are traced, or held by an accelerator, give NaN in the loss and the gradient of their image instead;
        hyperparameters that are traced are not checked.

    >>> import jax.numpy as jnp
    >>> logits = jnp.array([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(dice_loss(logits, jnp.array([[0, 1], [0, 255]]), ignore_index=255))
    [0.1952 0.6163]

    References:
      Milletari, Navab, Ahmadi, "V-Net: Fully Convolutional Neural Networks for Volumetric Medical Image Segmentation",
      2016, https://arxiv.org/abs/1606.04797
    """
    return region_loss(
        _dice,
        logits,
        labels,
        {"smooth": (smooth, NON_NEGATIVE)},
        class_weights=class_weights,
        ignore_index=ignore_index,
        axis=axis,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


def tversky_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    alpha: ArrayLike = 0.3,
    beta: ArrayLike = 0.7,
    smooth: ArrayLike = 1e-5,
    class_weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Tversky loss of each image: the Dice loss with a weight for false positives and one for false negatives.

    .. math::
        L_c = 1 - \frac{TP_c + s}{D_c} \qquad D_c = TP_c + \alpha FP_c + \beta FN_c + s
        \qquad L = \frac{\sum_c w_c L_c}{\sum_c w_c}

        \frac{\partial L_c}{\partial x_j} = \frac{(1 - L_c)(\alpha (1 - t_c) - \beta t_c) - L_c t_c}{D_c}
        \, p_c ([c = j] - p_j)

    with ``TP``, ``FP``, ``FN``, ``p``, ``t`` and ``s`` as in ``dice_loss``. ``alpha = beta = 0.5`` is the Dice loss
    with twice the ``smooth``, ``alpha = beta = 1`` the soft Jaccard loss.

    Args:
      logits, labels: as in ``dice_loss``.
      alpha: the weight of false positives, a scalar >= 0; may be traced and differentiated.
      beta: the weight of false negatives, a scalar >= 0; may be traced and differentiated.
      smooth, class_weights, ignore_index, axis: as in ``dice_loss``.
      where, weights, reduction, normalizer: as in ``dice_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar.

    Raises:
      ValueError: as ``dice_loss``, and for a negative alpha or beta.

    >>> import jax.numpy as jnp
    >>> logits = jnp.array([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(tversky_loss(logits, jnp.array([[0, 1], [0, 255]]), ignore_index=255))
    [0.1958 0.649 ]

    References:
      Salehi, Erdogmus, Gholipour, "Tversky loss function for image segmentation using 3D fully convolutional deep
      networks", 2017, https://arxiv.org/abs/1706.05721
    """
    return region_loss(
        _tversky,
        logits,
        labels,
        {"smooth": (smooth, NON_NEGATIVE), "alpha": (alpha, NON_NEGATIVE), "beta": (beta, NON_NEGATIVE)},
        class_weights=class_weights,
        ignore_index=ignore_index,
        axis=axis,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


def focal_tversky_loss(
    logits: Float[ArrayLike, "*n"],
    labels: ArrayLike,
    *,
    alpha: ArrayLike = 0.3,
    beta: ArrayLike = 0.7,
    gamma: ArrayLike = 4 / 3,
    smooth: ArrayLike = 1e-5,
    class_weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    axis: int = -1,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduction: str = "none",
    normalizer: ArrayLike | None = None,
) -> Float[Array, "..."]:
    r"""Focal Tversky loss of each image: a power of the Tversky loss of each class.

    .. math::
        L = \frac{\sum_c w_c L_c^{1/\gamma}}{\sum_c w_c} \qquad
        \frac{\partial L}{\partial x_j} =
        \frac{\sum_c w_c L_c^{1/\gamma - 1} \, \partial L_c / \partial x_j}{\gamma \sum_c w_c}

    with ``L_c`` and its gradient as in ``tversky_loss``. ``gamma > 1`` steepens the loss of classes that are nearly
    right; the gradient stays finite there, and where ``L_c = 0`` it is 0.

    Args:
      logits, labels: as in ``dice_loss``.
      alpha, beta: the weights of false positives and of false negatives, as in ``tversky_loss``. In the paper it is
        alpha that weighs the false negatives: its 0.7 and 0.3 are the defaults here.
      gamma: a scalar > 0; the paper takes 1 to 3. May be traced and differentiated.
      smooth, class_weights, ignore_index, axis: as in ``dice_loss``.
      where, weights, reduction, normalizer: as in ``dice_loss``.

    Returns:
      The loss in float32 (float64 for float64 logits): (B,) for "none", else a scalar.

    Raises:
      ValueError: as ``tversky_loss``, and for gamma <= 0.

    >>> import jax.numpy as jnp
    >>> logits = jnp.array([[[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    >>> with jnp.printoptions(precision=4, suppress=True):
    ...     print(focal_tversky_loss(logits, jnp.array([[0, 1], [0, 255]]), ignore_index=255))
    [0.2933 0.7016]

    References:
      Abraham, Khan, "A Novel Focal Tversky loss function with improved Attention U-Net for lesion segmentation", 2018,
      https://arxiv.org/abs/1810.07842
    """
    return region_loss(
        _focal_tversky,
        logits,
        labels,
        {
            "smooth": (smooth, NON_NEGATIVE),
            "alpha": (alpha, NON_NEGATIVE),
            "beta": (beta, NON_NEGATIVE),
            "gamma": (gamma, POSITIVE),
        },
        class_weights=class_weights,
        ignore_index=ignore_index,
        axis=axis,
        where=where,
        weights=weights,
        reduction=reduction,
        normalizer=normalizer,
    )


Options = dict[str, Array]


@one_residual
def _dice(logits: Array, labels: Array, kept: Array | None, class_weights: Array | None, o: Options) -> Array:
    of_class = tversky_of_class(*confusion(logits, labels, kept), 0.5, 0.5, o["smooth"] / 2)
    return one_or_nan(labels, logits) * class_mean(of_class, class_weights)


@one_residual
def _tversky(logits: Array, labels: Array, kept: Array | None, class_weights: Array | None, o: Options) -> Array:
    of_class = tversky_of_class(*confusion(logits, labels, kept), o["alpha"], o["beta"], o["smooth"])
    return one_or_nan(labels, logits) * class_mean(of_class, class_weights)


@one_residual
def _focal_tversky(logits: Array, labels: Array, kept: Array | None, class_weights: Array | None, o: Options) -> Array:
    of_class = tversky_of_class(*confusion(logits, labels, kept), o["alpha"], o["beta"], o["smooth"])
    return one_or_nan(labels, logits) * class_mean(share_power(of_class, 1 / o["gamma"]), class_weights)
