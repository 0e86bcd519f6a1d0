"""The losses in plain PyTorch, with the keywords and conventions of jaxfocal.

Shapes and values are those of the loss of the same name in jaxfocal; the derivatives are autograd's, and ``1 - p_t`` is
a subtraction. Hyperparameters and labels are not checked.
"""

from .multilabel import asymmetric_loss as asymmetric_loss
from .sigmoid import sigmoid_focal_loss as sigmoid_focal_loss
from .sigmoid import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from .sigmoid import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from .softmax import softmax_focal_loss as softmax_focal_loss
from .softmax import softmax_poly_focal_loss as softmax_poly_focal_loss
