"""Figures: arrays in, a matplotlib Figure out, with no global state."""

from ._curves import Curve as Curve
from ._curves import class_weights_figure as class_weights_figure
from ._curves import focal_curves_figure as focal_curves_figure
from ._curves import weighting_figure as weighting_figure
from ._detections import detections_figure as detections_figure
from ._detections import precision_figure as precision_figure
from ._drawing import moving_mean as moving_mean
from ._training import comparison_figure as comparison_figure
from ._training import distances_figure as distances_figure
from ._training import samples_figure as samples_figure
from ._training import training_figure as training_figure
