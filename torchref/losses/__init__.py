"""The losses in plain PyTorch, with the keywords and conventions of jaxfocal.

Shapes and values are those of the loss of the same name in jaxfocal; the derivatives are autograd's, and ``1 - p_t`` is
a subtraction. Hyperparameters and labels are not checked.
"""

from .dense import distribution_focal_loss as distribution_focal_loss
from .dense import gaussian_focal_loss as gaussian_focal_loss
from .dense import quality_focal_loss as quality_focal_loss
from .dense import varifocal_loss as varifocal_loss
from .linear import linear_softmax_focal_loss as linear_softmax_focal_loss
from .longtail import EqualizedFocalState as EqualizedFocalState
from .longtail import GHMState as GHMState
from .longtail import SeesawState as SeesawState
from .longtail import equalized_focal_init as equalized_focal_init
from .longtail import equalized_focal_loss as equalized_focal_loss
from .longtail import ghm_init as ghm_init
from .longtail import ghm_loss as ghm_loss
from .longtail import ldam_loss as ldam_loss
from .longtail import seesaw_init as seesaw_init
from .longtail import seesaw_loss as seesaw_loss
from .lovasz import lovasz_hinge_loss as lovasz_hinge_loss
from .lovasz import lovasz_softmax_loss as lovasz_softmax_loss
from .mining import balanced_sample_mask as balanced_sample_mask
from .mining import ohem_mask as ohem_mask
from .multilabel import asymmetric_loss as asymmetric_loss
from .region import dice_loss as dice_loss
from .region import focal_tversky_loss as focal_tversky_loss
from .region import tversky_loss as tversky_loss
from .region import unified_focal_loss as unified_focal_loss
from .sigmoid import sigmoid_focal_loss as sigmoid_focal_loss
from .sigmoid import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from .sigmoid import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from .softmax import softmax_focal_loss as softmax_focal_loss
from .softmax import softmax_poly_focal_loss as softmax_poly_focal_loss
from .weights import effective_number_weights as effective_number_weights
from .weights import inverse_frequency_weights as inverse_frequency_weights
from .weights import logit_adjustment as logit_adjustment
