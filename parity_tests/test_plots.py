"""The figures hold the data they were given."""

import numpy as np
import pytest

from jaxfocal import plots

RECALL = [1.0, 0.5, 0.25]
COUNTS = [100, 10, 1]


def bars(axes, label: str) -> list[float]:
    (container,) = (container for container in axes.containers if container.get_label().startswith(label))
    return [bar.get_height() for bar in container]


@pytest.mark.parametrize("steps", [1, 7, 200])
def test_training_figure_draws_every_step_and_the_moving_mean(steps):
    losses = {name: np.random.default_rng(seed).uniform(0.1, 1.0, steps) for seed, name in enumerate(("l1", "l2"))}
    figure = plots.training_figure(losses, RECALL, COUNTS, title="a run")
    left, _ = figure.axes
    assert left.get_yscale() == "log"
    for (name, values), raw, smooth in zip(losses.items(), left.lines[::2], left.lines[1::2], strict=True):
        np.testing.assert_array_equal(raw.get_xdata(), np.arange(1, steps + 1))
        np.testing.assert_array_equal(raw.get_ydata(), values)
        np.testing.assert_allclose(smooth.get_ydata(), plots.moving_mean(values, max(1, steps // 50)))
        assert smooth.get_label() == name
    assert figure.get_suptitle() == "a run"


def test_training_figure_draws_the_recall_of_each_class():
    figure = plots.training_figure({"l1": [1.0, 0.5]}, RECALL, COUNTS, tail=[2])
    right = figure.axes[1]
    assert bars(right, "recall") == RECALL
    assert [label.get_text() for label in right.get_xticklabels()] == ["0\n100", "1\n10", "2\n1"]
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert labels == ["tail classes", "recall (mean 0.58)"]


def test_comparison_figure_draws_each_loss_and_leaves_undefined_scores_out():
    recalls = {"focal": RECALL, "ce": [0.9, 0.8, 0.0]}
    scores = {"focal": {"precision": None, "recall": 0.0}, "ce": {"precision": 0.5, "recall": 0.75}}
    figure = plots.comparison_figure(recalls, COUNTS, scores)
    left, right = figure.axes
    for name, values in recalls.items():
        assert bars(left, name) == values
    np.testing.assert_array_equal(bars(right, "focal"), [np.nan, 0.0])
    assert bars(right, "ce") == [0.5, 0.75]
    starts = [bar.get_x() for container in left.containers for bar in container]
    assert len(np.unique(np.round(starts, 6))) == 6
    figure.draw_without_rendering()


def test_samples_figure_draws_every_pixel_of_every_row():
    rows = {name: np.random.default_rng(seed).random((3, 2, 4)) for seed, name in enumerate(("first", "last"))}
    figure = plots.samples_figure(rows, title="samples")
    for axes, (name, images) in zip(figure.axes, rows.items(), strict=True):
        assert axes.get_ylabel() == name
        drawn = axes.images[0].get_array()
        for number, image in enumerate(images):
            np.testing.assert_array_equal(drawn[1:-1, 6 * number + 1 : 6 * number + 5], image)
    figure.draw_without_rendering()


def test_distances_figure_draws_losses_below_zero_and_distances_with_their_references():
    figure = plots.distances_figure({"d": [-1.0, -2.0]}, {"model": {0: 9.0, 50: 0.5}}, {"noise": 10.0})
    left, right = figure.axes
    assert left.get_yscale() == "linear"
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [-1.0, -2.0])
    distances, noise = right.lines
    np.testing.assert_array_equal(distances.get_xydata(), [[0, 9.0], [50, 0.5]])
    np.testing.assert_array_equal(noise.get_ydata(), [10.0, 10.0])
    figure.draw_without_rendering()


def test_moving_mean_is_the_mean_of_what_is_near():
    np.testing.assert_allclose(plots.moving_mean([1.0, 2.0, 6.0, 4.0], 3), [1.5, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(plots.moving_mean([1.0, 2.0, 6.0, 4.0], 2), [1.5, 4.0, 5.0, 4.0])
    np.testing.assert_allclose(plots.moving_mean([1.0, 2.0], 1), [1.0, 2.0])


def square(p_t):
    return (1 - p_t) ** 2


def half(p_t):
    return 0.5 * (1 - p_t)


def test_focal_curves_figure_draws_each_curve_from_end_to_end():
    (axes,) = plots.focal_curves_figure({"square": square, "half": half}, title="two losses").axes
    for line, (label, curve) in zip(axes.lines, {"square": square, "half": half}.items(), strict=True):
        p_t = line.get_xdata()
        assert 0 < p_t[0] < 0.01
        assert 0.99 < p_t[-1] < 1
        assert np.all(np.diff(p_t) > 0)
        np.testing.assert_array_equal(line.get_ydata(), curve(p_t))
        assert line.get_label() == label
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["square", "half"]
    assert axes.get_ylim() == (0, 5)
    (shaded,) = axes.patches
    assert (shaded.get_x(), shaded.get_width()) == pytest.approx((0.6, 0.4))


def test_weighting_figure_draws_each_curve_on_both_scales():
    figure = plots.weighting_figure({"square": square, "half": half}, title="two gradients")
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]
    for axes in figure.axes:
        for line, curve in zip(axes.lines, (square, half), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), curve(line.get_xdata()))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["square", "half"]
    assert figure.get_suptitle() == "two gradients"
    figure.draw_without_rendering()


def test_class_weights_figure_draws_weights_over_counts():
    weights = {"inverse": [0.01, 0.1, 1.0], "even": [1.0, 1.0, 1.0]}
    (axes,) = plots.class_weights_figure(COUNTS, weights).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for line, (label, values) in zip(axes.lines, weights.items(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), COUNTS)
        np.testing.assert_array_equal(line.get_ydata(), values)
        assert line.get_label() == label


def test_lines_of_a_figure_differ_in_colour_and_dashes():
    curves = {str(exponent): lambda p_t, exponent=exponent: p_t**exponent for exponent in range(12)}
    (axes,) = plots.focal_curves_figure(curves).axes
    assert len({(line.get_color(), str(line.get_linestyle()), str(line._dash_pattern)) for line in axes.lines}) == 12


def test_no_figure_is_known_to_pyplot():
    assert plots.training_figure({"l1": [1.0]}, RECALL, COUNTS).canvas.manager is None


def test_precision_figure_draws_each_curve_beside_the_losses():
    precisions = {"focal": [1.0, 0.5, 0.0], "ce": [1.0, 1.0, 1.0]}
    left, right = plots.precision_figure(precisions, losses={"l": [2.0, 1.0]}).axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [2.0, 1.0])
    for line, (name, values) in zip(right.lines, precisions.items(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0, 0.5, 1])
        np.testing.assert_array_equal(line.get_ydata(), values)
        assert line.get_label() == f"{name} ({np.mean(values):.2f})"
    (alone,) = plots.precision_figure(precisions, title="a detector").axes
    assert len(alone.lines) == 2


def test_detections_figure_outlines_true_and_found_boxes():
    images = np.random.default_rng(0).random((4, 8, 8))
    boxes = [[[1.0, 2, 5, 8]], np.zeros((0, 4)), [[0.0, 0, 8, 8]], [[1.0, 1, 2, 2], [3.0, 3, 4, 4]]]
    found, scores = [[[1.0, 2, 5, 7]], [[0.0, 0, 1, 1]], np.zeros((0, 4)), []], [[0.625], [0.5], [], []]
    figure = plots.detections_figure(images, boxes, found, scores, title="scenes")
    assert len(figure.axes) == 6
    for axes, image, true, seen, score in zip(figure.axes, images, boxes, found, scores, strict=False):
        np.testing.assert_array_equal(axes.images[0].get_array(), image)
        drawn = [[*patch.get_xy(), patch.get_width(), patch.get_height()] for patch in axes.patches]
        corners = np.array([*np.reshape(true, (-1, 4)), *np.reshape(seen, (-1, 4))])
        np.testing.assert_array_equal(drawn, np.c_[corners[:, :2] - 0.5, corners[:, 2:] - corners[:, :2]])
        assert [text.get_text() for text in axes.texts] == [f"{value:.2f}" for value in score]
    assert not figure.axes[5].images
    figure.draw_without_rendering()


def test_detections_figure_refuses_boxes_of_fewer_images():
    images, boxes, scores = np.zeros((2, 8, 8)), [np.zeros((0, 4))] * 2, [np.zeros(0)] * 2
    with pytest.raises(ValueError, match="must be of 2 images, got 1, 2 and 2"):
        plots.detections_figure(images, boxes[:1], boxes, scores)
