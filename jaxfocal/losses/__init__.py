"""The focal-loss family: labels and logits in, losses out."""

from ._multilabel import asymmetric_loss as asymmetric_loss
from ._sigmoid import sigmoid_focal_loss as sigmoid_focal_loss
from ._sigmoid import sigmoid_focal_star_loss as sigmoid_focal_star_loss
from ._sigmoid import sigmoid_poly_focal_loss as sigmoid_poly_focal_loss
from ._softmax import softmax_focal_loss as softmax_focal_loss
from ._softmax import softmax_poly_focal_loss as softmax_poly_focal_loss
