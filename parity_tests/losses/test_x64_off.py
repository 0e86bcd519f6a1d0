"""JAX without 64-bit numbers, as most programs run it: the same losses in float32, and no number too wide is cut off.

All other tests run with 64-bit numbers on. ``python -W error -m parity_tests.losses.test_x64_off FILE`` compares with
the float64 results in ``FILE``, shows everything that is wrong, and fails if anything is.
"""

import os
import re
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxfocal as jf
from parity_tests.cases import CASES, EPS

WIDE = 2**32 + 1  # 1, where the upper 32 bits are cut off
COUNTS = np.array([3_000_000_000, 2**40, 7, 0, 50_000])
LOGITS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
LABELS = np.array([0, 1, 2, 3, 4, 0])


def rounded(x, dtype):
    """Rounded to float32, in ``dtype``; integers, and what is no number, as they are."""
    if isinstance(x, float):
        return float(np.float32(x))
    return x.astype(np.float32).astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def named(arrays):
    return {f"array {i}": array for i, array in enumerate(arrays)}


def results_of(case, options, dtype):
    """Losses (of traced labels, and of known), their mean, slope, and what becomes of the state."""
    logits, labels = (rounded(a, dtype) for a in case.example())
    options = {name: rounded(o, dtype) for name, o in {**case.required, **options}.items()}
    state = () if case.state is None else (type(case.state)(*(rounded(leaf, dtype) for leaf in case.state)),)

    def loss(x, y, reduction="none"):
        result = getattr(jf, case.name)(x, y, *state, **options, reduction=reduction)
        return result if state else (result, ())

    def total(x, y):
        values, new = loss(x, y)
        return values.sum(), {"values": values, "mean": loss(x, y, reduction="mean")[0], **named(new)}

    (_, results), slope = jax.jit(jax.value_and_grad(total, has_aux=True))(logits, labels)
    return {"slope": slope, "known labels": loss(logits, labels)[0], **results}


def results_of_linear(dtype):
    hidden, kernel = (rounded(np.random.default_rng(i).normal(size=s), dtype) for i, s in enumerate([(6, 3), (3, 5)]))

    def total(*layer):
        values = jf.linear_softmax_focal_loss(*layer, LABELS, chunk_size=4)
        return values.sum(), values

    (_, values), slope = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))(hidden, kernel)
    return {"values": values, **named(slope)}


# the checks: each a name, and a function that fails


def registry():
    """Every row with its first and last variant, and float32 tolerances for its loss and its slope."""
    for case in CASES:
        for i in sorted({0, len(case.variants) - 1}):
            options = case.variants[i]
            logits, labels = case.example()
            relative, absolute = case.float32_tolerance(logits, labels, np.max(options.get("gamma", 2.0)))
            yield f"{case.id} {i}", partial(results_of, case, options), np.max(relative), absolute
    yield "linear", results_of_linear, 64 * EPS, 0


def check_against_float64(results, right, relative, absolute):
    for name, got in results(np.float32).items():
        assert got.dtype == jnp.float32, (name, got.dtype)
        assert not got.weak_type, name
        expected = right[str(name)]
        scale = expected if name in ("values", "known labels") else np.abs(expected).max()
        wrong = np.abs(np.float64(got) - expected) > relative * np.abs(scale) + absolute
        assert not wrong.any(), (name, np.asarray(got), expected)


def check_state_starts_in_float32(init, *arguments):
    assert all(leaf.dtype == jnp.float32 and not leaf.weak_type for leaf in init(*arguments))


def check_large_counts(traced):
    n, occurs = np.maximum(COUNTS, 1).astype(float), COUNTS > 0
    effective = -np.expm1(n * np.log(1 - 1e-9)) / 1e-9
    margins = 0.5 * (7 / np.where(occurs, n, 7)) ** 0.25
    z = 30 * (np.float64(LOGITS) - margins[LABELS][:, None] * np.eye(5)[LABELS])
    right = {
        "logit_adjustment": (jf.logit_adjustment, np.log(n / COUNTS.sum())),
        "inverse_frequency_weights": (jf.inverse_frequency_weights, average_one(occurs / n)),
        "effective_number_weights": (
            partial(jf.effective_number_weights, beta=1 - 1e-9),
            average_one(occurs / effective),
        ),
        "ldam_loss": (
            lambda counts: jf.ldam_loss(LOGITS, LABELS, counts=counts),
            np.log(np.exp(z).sum(-1)) - z[np.arange(6), LABELS],
        ),
    }
    for name, (function, expected) in right.items():
        got = jax.jit(lambda f=function: f(COUNTS))() if traced else function(COUNTS)
        assert got.dtype == jnp.float32, name
        atol = 2 * EPS if name == "logit_adjustment" else 0  # the logarithm of a share near 1
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=atol, err_msg=name)


def average_one(weights):
    return weights * np.sum(weights > 0) / np.sum(weights)


def check_wide_label(loss, logits, labels, where_shape):
    """A label beyond 32 bits is an error, or NaN where the mask is not known, and so it cannot be an error."""
    wide = labels.astype(np.int64)
    wide.flat[0] = WIDE
    try:
        values = jax.jit(lambda kept: loss(logits, wide, where=kept))(np.ones(where_shape, bool))
    except ValueError:
        return
    assert np.isnan(np.ravel(values)[0]), values


def check_wide_ignored(traced):
    """It is not the ``ignore_index`` either."""
    loss = partial(jf.softmax_focal_loss, LOGITS, np.where(LABELS == 0, WIDE, LABELS), ignore_index=1)
    try:
        values = jax.jit(lambda kept: loss(where=kept))(np.ones(6, bool)) if traced else loss()
    except ValueError:
        return
    assert np.isnan(values[0]), values


def check_masks():
    losses = LOGITS[0]
    for many in (2**40, np.int64(2**40), np.asarray(2**40)):
        assert jf.ohem_mask(losses, num_samples=many).all(), many
    assert jf.balanced_sample_mask(jax.random.key(0), LABELS, num_samples=2**40, positive_fraction=1.0).all()
    labels = np.array([2**32, 0, 0, 0, 0])  # 0, where the upper bits are cut off
    assert jf.ohem_mask(losses, labels, negative_ratio=1.0).sum() == 2
    chosen = jf.balanced_sample_mask(jax.random.key(0), labels, num_samples=1, positive_fraction=1.0)
    assert chosen.tolist() == [True, False, False, False, False]


def all_checks(right):
    for name, results, *tolerance in registry():
        of_row = {key.removeprefix(f"{name}/"): value for key, value in right.items() if key.startswith(f"{name}/")}
        yield name, partial(check_against_float64, results, of_row, *tolerance)
    for init, *arguments in ((jf.seesaw_init, 5), (jf.equalized_focal_init, 5), (jf.ghm_init,)):
        yield init.__name__, partial(check_state_starts_in_float32, init, *arguments)
    for traced in (False, True):
        yield f"large counts, traced={traced}", partial(check_large_counts, traced)
        yield f"wide label and ignore_index, traced={traced}", partial(check_wide_ignored, traced)
    for case in CASES:
        logits, labels = case.example()
        if labels.dtype.kind == "i":
            arguments = case.loss, logits.astype(np.float32), labels, case.where_shape(logits.shape)
            yield f"{case.id}, wide label", partial(check_wide_label, *arguments)
    yield "distribution, wide label", partial(check_wide_label, jf.distribution_focal_loss, LOGITS, LABELS, (6,))
    linear = partial(check_wide_label, lambda x, y, **o: jf.linear_softmax_focal_loss(x, np.eye(5, dtype="f"), y, **o))
    yield "linear, wide label", partial(linear, LOGITS, LABELS, (6,))
    yield "masks", check_masks


def main(path):
    assert not jax.config.jax_enable_x64
    failed, checks = [], list(all_checks(dict(np.load(path))))
    for name, check in checks:
        try:
            check()
        except Exception:
            failed.append(f"--- {name}\n{traceback.format_exc(limit=-3)}")
    print(f"{len(failed)} of {len(checks)} checks failed", *failed, sep="\n", file=sys.stderr)
    sys.exit(bool(failed))


def test_every_loss_and_option_without_64_bits(tmp_path):
    right = {f"{name}/{key}": r for name, of, *_ in registry() for key, r in of(np.float64).items()}
    assert {case.name for case in CASES} | {"linear_softmax_focal_loss"} == {n for n in dir(jf) if n.endswith("_loss")}
    np.savez(tmp_path / "right.npz", **right)
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "parity_tests.losses.test_x64_off", str(tmp_path / "right.npz")],
        capture_output=True,
        text=True,
        env={**environment, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stderr
    assert re.match("0 of [1-9]", result.stderr), result.stderr


if __name__ == "__main__":
    main(sys.argv[1])
