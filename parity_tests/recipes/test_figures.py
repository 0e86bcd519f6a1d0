"""The figures show the losses: their curves are the written formulas, and the files are pictures."""

import numpy as np
import pytest
from matplotlib.image import imread

from jaxfocal.recipes import figures

P = np.array([0.002, 0.01, 0.1, 0.3, 0.5, 0.6, 0.9, 0.998])
Q = 1 - P


@pytest.fixture(scope="module")
def drawn():
    return figures.draw()


def lines(axes):
    """Label to the points of its line at p_t = P."""
    found = {}
    for line in axes.lines:
        p_t = line.get_xdata()
        at = [int(np.argmin(np.abs(p_t - p))) for p in P]
        np.testing.assert_allclose(p_t[at], P, rtol=1e-12)
        found[line.get_label()] = np.asarray(line.get_ydata(), np.float64)[at]
    return found


def test_focal_curves(drawn):
    """Figure 1 of the paper: gamma 0, 0.5, 1, 2 and 5."""
    (axes,) = drawn["focal_curves.png"].axes
    curves = lines(axes)
    assert list(curves) == [
        r"$\gamma = 0$, cross-entropy",
        *(rf"$\gamma = {gamma}$" for gamma in ("0.5", "1", "2", "5")),
    ]
    for gamma, values in zip((0, 0.5, 1, 2, 5), curves.values(), strict=True):
        np.testing.assert_allclose(values, -(Q**gamma) * np.log(P), rtol=3e-6)


def test_weighting(drawn):
    """The written gradients, by the logit, of each loss; for a negative, p is 1 - p_t."""
    p_m = np.maximum(Q - 0.05, 0)
    focal = Q**2 * (Q - 2 * P * np.log(P))
    expected = {
        "cross-entropy": Q,
        "focal": focal,
        "Poly-1": focal + 3 * Q**3 * P,
        "FL*": 1 / (1 + np.e * (P / Q) ** 2),
        "asymmetric, positives": Q * (Q - P * np.log(P)),
        "asymmetric, negatives": P * Q * (p_m**4 / (1 - p_m) - 4 * p_m**3 * np.log(1 - p_m)),
    }
    for axes in drawn["weighting.png"].axes:
        curves = lines(axes)
        assert len(curves) == len(expected)
        for (name, formula), (label, values) in zip(expected.items(), curves.items(), strict=True):
            assert label.startswith(name)
            np.testing.assert_allclose(values, formula, rtol=3e-5, atol=1e-12)


def test_class_weights(drawn):
    (axes,) = drawn["class_weights.png"].axes
    formulas = {r"inverse frequency": lambda n: 1 / n} | {
        rf"effective number, $\beta = {beta:g}$": lambda n, beta=beta: (1 - beta) / (1 - beta**n)
        for beta in (0.9, 0.99, 0.999, 0.9999)
    }
    assert [line.get_label() for line in axes.lines] == list(formulas)
    for line, formula in zip(axes.lines, formulas.values(), strict=True):
        counts = np.asarray(line.get_xdata(), np.float64)
        assert (counts[0], counts[-1]) == (1, 10_000)
        weights = formula(counts)
        np.testing.assert_allclose(line.get_ydata(), weights / weights.mean(), rtol=2e-6)


def test_the_files_are_pictures(tmp_path, capsys):
    figures.main(tmp_path)
    names = ["focal_curves.png", "weighting.png", "class_weights.png"]
    assert capsys.readouterr().out.splitlines() == [f"wrote {tmp_path / name}" for name in names]
    for name in names:
        assert (tmp_path / name).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        pixels = imread(tmp_path / name)
        assert min(pixels.shape[:2]) > 500
        assert 0.02 < np.mean(pixels[..., :3].min(axis=-1) < 0.9) < 0.9
