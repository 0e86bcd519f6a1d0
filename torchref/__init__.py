"""The PyTorch side of the comparison: the same names and keywords as jaxfocal, in plain autograd.

Nothing here is tuned. The losses are the textbook formulas, right in float64 at ordinary logits; the two-model programs
are the ones people write.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise ImportError("torchref needs PyTorch: pip install 'jaxfocal[torch]'") from None

from .losses import asymmetric_loss as asymmetric_loss
from .losses import sigmoid_focal_loss as sigmoid_focal_loss
from .losses import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from .losses import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from .losses import softmax_focal_loss as softmax_focal_loss
from .losses import softmax_poly_focal_loss as softmax_poly_focal_loss
