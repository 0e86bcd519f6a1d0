"""Focal losses and multi-model updates for JAX, proven equal to PyTorch."""

from .losses import EqualizedFocalState as EqualizedFocalState
from .losses import GHMState as GHMState
from .losses import SeesawState as SeesawState
from .losses import asymmetric_loss as asymmetric_loss
from .losses import balanced_sample_mask as balanced_sample_mask
from .losses import dice_loss as dice_loss
from .losses import distribution_focal_loss as distribution_focal_loss
from .losses import effective_number_weights as effective_number_weights
from .losses import equalized_focal_init as equalized_focal_init
from .losses import equalized_focal_loss as equalized_focal_loss
from .losses import focal_tversky_loss as focal_tversky_loss
from .losses import gaussian_focal_loss as gaussian_focal_loss
from .losses import ghm_init as ghm_init
from .losses import ghm_loss as ghm_loss
from .losses import inverse_frequency_weights as inverse_frequency_weights
from .losses import ldam_loss as ldam_loss
from .losses import linear_softmax_focal_loss as linear_softmax_focal_loss
from .losses import logit_adjustment as logit_adjustment
from .losses import lovasz_hinge_loss as lovasz_hinge_loss
from .losses import lovasz_softmax_loss as lovasz_softmax_loss
from .losses import ohem_mask as ohem_mask
from .losses import quality_focal_loss as quality_focal_loss
from .losses import seesaw_init as seesaw_init
from .losses import seesaw_loss as seesaw_loss
from .losses import sigmoid_focal_loss as sigmoid_focal_loss
from .losses import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from .losses import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from .losses import softmax_focal_loss as softmax_focal_loss
from .losses import softmax_poly_focal_loss as softmax_poly_focal_loss
from .losses import tversky_loss as tversky_loss
from .losses import unified_focal_loss as unified_focal_loss
from .losses import varifocal_loss as varifocal_loss
from .updates import MultiState as MultiState
from .updates import MultiUpdate as MultiUpdate
from .updates import Player as Player
from .updates import gradient_penalty as gradient_penalty
from .updates import gradient_routes as gradient_routes
from .updates import multi_update as multi_update
from .updates import scan_updates as scan_updates

__version__ = "0.1.0"
