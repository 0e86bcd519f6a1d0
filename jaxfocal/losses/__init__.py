"""The focal-loss family: labels and logits in, losses out."""

from ._sigmoid import sigmoid_focal_loss as sigmoid_focal_loss
from ._softmax import softmax_focal_loss as softmax_focal_loss
