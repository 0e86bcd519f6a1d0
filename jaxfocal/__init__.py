"""Focal losses and multi-model updates for JAX, proven equal to PyTorch."""

from .losses import asymmetric_loss as asymmetric_loss
from .losses import sigmoid_focal_loss as sigmoid_focal_loss
from .losses import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from .losses import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from .losses import softmax_focal_loss as softmax_focal_loss
from .losses import softmax_poly_focal_loss as softmax_poly_focal_loss
from .updates import MultiState as MultiState
from .updates import MultiUpdate as MultiUpdate
from .updates import Player as Player
from .updates import gradient_routes as gradient_routes
from .updates import multi_update as multi_update
from .updates import scan_updates as scan_updates

__version__ = "0.1.0"
