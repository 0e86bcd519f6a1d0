"""The laws can fail: a wrong formula in a copy of a module turns them red."""

import importlib
import importlib.util
import sys

import pytest

from parity_tests.cases import BY_ID
from parity_tests.losses.test_derivatives import test_both_orders_in_both_modes as derivatives_law
from parity_tests.losses.test_exact import test_value_and_gradient as exact_law


def exact(row):
    for options in BY_ID[row].variants:
        exact_law(BY_ID[row], options)


def derivatives(row):
    derivatives_law(BY_ID[row])


# what is wrong: (module, source, wrong source, the law that must see it, the row it runs on)
MUTATIONS = {
    "value without gamma": ("_margin", "power_of_q(margin, gamma) * s)", "s)", exact, "sigmoid_focal"),
    "slope with the wrong sign": ("_margin", "return -power_of_q(margin, gamma) * (q", "return power_of_q(margin, gamma) * (q", exact, "sigmoid_focal"),
    "slope without the gamma term": ("_margin", "gamma) * (q + gamma * p * s)\n", "gamma) * q\n", exact, "sigmoid_focal"),
    "slope without the gamma term, softmax": ("_margin", "gamma) * (q + gamma * p * s)\n", "gamma) * q\n", exact, "softmax_focal"),
    "gamma slope with the wrong sign": ("_margin", "return -power_of_q(margin, gamma) * s * r", "return power_of_q(margin, gamma) * s * r", derivatives, "sigmoid_focal"),
    "curvature with the wrong sign": ("_margin", "(p * q * z_dot, -p * q * z_dot,", "(p * q * z_dot, p * q * z_dot,", derivatives, "sigmoid_focal"),
    "margin with the wrong sign": ("_margin", "jnp.where(labels == 1, 1.0, -1.0)", "jnp.where(labels == 1, -1.0, 1.0)", exact, "sigmoid_focal"),
    "slope of the others with the wrong sign": ("_margin", "1, -_softmax_of_others", "1, _softmax_of_others", exact, "softmax_focal"),
    "the label among the others": ("_margin", "0, jnp.exp(logits - top))", "jnp.exp(logits - top), jnp.exp(logits - top))", exact, "softmax_focal"),
    "curvature of the others with the wrong sign": ("_margin", "return p, p * (tangents[0] - jnp", "return p, p * (tangents[0] + jnp", derivatives, "softmax_focal"),
    "curvature of all margins cut off": ("_margin", "jnp.exp(logits - largest(logits))\n    others", "jax.lax.stop_gradient(jnp.exp(logits - largest(logits)))\n    others", derivatives, "softmax_focal_soft"),
    "poly: the power of gamma": ("_margin", "power_of_q(margin, gamma + 1)", "power_of_q(margin, gamma)", exact, "sigmoid_poly_focal"),
    "classes: no weights": ("_rows", "weigh(class_weights[index], loss)", "loss", exact, "softmax_focal"),
    "classes: smoothing not spread": ("_rows", "smoothing / logits.shape[-1]", "smoothing", exact, "softmax_focal"),
    "powers: slope of abs_power": ("_power", "b * signed_power(x, b - 1)", "-b * signed_power(x, b - 1)", derivatives, "gaussian_soft"),
    "powers: slope of signed_power": ("_power", "b * abs_power(x, b - 1)", "-b * abs_power(x, b - 1)", derivatives, "asymmetric"),
    "powers: slope of share": ("_power", "-share(x, y) * r", "share(x, y) * r", derivatives, "tversky"),
    "powers: curvature of share": ("_power", "-(r * (r * tangents[0]))", "r * (r * tangents[0])", derivatives, "tversky"),
    "powers: slope of share_power": ("_power", "value * inverse(x))", "inverse(x))", derivatives, "focal_tversky"),
    "asymmetric: no shift": ("_multilabel", "p) - shift, 0)", "p), 0)", exact, "asymmetric"),
    "asymmetric: shift with the wrong sign": ("_multilabel", "p) - shift, 0)", "p) + shift, 0)", exact, "asymmetric"),
    "quality: slope with the wrong sign": ("_dense", "* value - (b - j)", "* value + (b - j)", derivatives, "quality"),
    "varifocal: no weight of the positives": ("_dense", "y * ce)", "ce)", exact, "varifocal_soft"),
    "gaussian: negatives not turned down": ("_dense", "weigh(abs_power(1 - y, beta), focal_curve(-logits, alpha))", "focal_curve(-logits, alpha)", exact, "gaussian_soft"),
    "distribution: weights swapped": ("_distribution", "weigh(1 - share, at_left) + weigh(share, at_right)", "weigh(share, at_left) + weigh(1 - share, at_right)", exact, "distribution"),
    "ldam: same margin for all": ("_longtail", "* rarity[index]", "", exact, "ldam"),
    "seesaw: no rarity": ("_longtail", "logits + p * rarer +", "logits +", exact, "seesaw"),
    "seesaw: scores move": ("_longtail", "q * jax.lax.stop_gradient(stronger)", "q * stronger", exact, "seesaw"),
    "equalized: no factor": ("_gradient_balanced", "gamma_j / gamma * focal_curve(", "focal_curve(", exact, "equalized_focal"),
    "ghm: bins not counted": ("_gradient_balanced", "jnp.sum(occupied, dtype=counts.dtype) * counts", "counts", exact, "ghm"),
    "dice: all of the smooth": ("_region", 'o["smooth"] / 2', 'o["smooth"]', exact, "dice"),
    "tversky: alpha and beta swapped": ("_overlap", "share(alpha * fp + beta * fn,", "share(beta * fp + alpha * fn,", exact, "tversky"),
    "overlap: own slope of the label": ("_overlap", "p * (q * own_dot - m)", "p * (own_dot - m)", derivatives, "dice"),
    "overlap: the label's share in the others": ("_overlap", "scale * (p * own_dot + m)", "scale * m", derivatives, "dice"),
    "overlap: counts not kept apart": ("_overlap", "return others, scale * own, scale * rest, scale", "return others, scale * own, scale * own, scale", exact, "dice"),
    "focal tversky: gamma for its inverse": ("_region", '1 / o["gamma"]', 'o["gamma"]', exact, "focal_tversky"),
    "unified: delta of regions swapped": ("_unified", "1 - delta, delta, smooth)", "delta, 1 - delta, smooth)", exact, "unified_focal"),
    "unified: delta of pixels swapped": ("_unified", "jnp.where(background, 1 - delta, delta) * curve", "jnp.where(background, delta, 1 - delta) * curve", exact, "unified_focal"),
    "unified: delta of soft pixels swapped": ("_unified", "labels * jnp.where(background, 1 - delta, delta)", "labels * jnp.where(background, delta, 1 - delta)", exact, "unified_focal_soft"),
}  # fmt: skip


def source_of(name):
    return importlib.util.find_spec(name).loader.get_source(name)


def use(monkeypatch, name, source):
    """Let all of the package see the functions of a copy, with this source, of one of its modules."""
    module, copy = importlib.import_module(name), importlib.util.module_from_spec(importlib.util.find_spec(name))
    exec(compile(source, f"a copy of {name}", "exec"), copy.__dict__)
    originals = {name: value for name, value in vars(module).items() if callable(value)}
    copy.__dict__.update({name: value for name, value in originals.items() if isinstance(value, type)})  # of states
    users = [user for path, user in sys.modules.items() if path == "jaxfocal" or path.startswith("jaxfocal.losses")]
    for user in users:
        for name in vars(user).keys() & originals.keys():
            if getattr(user, name) is originals[name]:
                monkeypatch.setattr(user, name, getattr(copy, name))


@pytest.mark.parametrize(("module", "right", "wrong", "law", "row"), MUTATIONS.values(), ids=MUTATIONS)
def test_a_wrong_formula_breaks_the_law(monkeypatch, module, right, wrong, law, row):
    name = f"jaxfocal.losses.{module}"
    source = source_of(name)
    assert source.count(right) == 1, f"the mutation no longer fits the source: {right!r}"
    use(monkeypatch, name, source.replace(right, wrong))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        law(row)


@pytest.mark.parametrize(("module", "row"), {module: row for module, *_, row in MUTATIONS.values()}.items())
def test_an_exact_copy_breaks_none(monkeypatch, module, row):
    name = f"jaxfocal.losses.{module}"
    use(monkeypatch, name, source_of(name))
    exact(row)
    derivatives(row)
