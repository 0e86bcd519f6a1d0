"""What the PyTorch two-model programs compute: the same losses and parameters in every one of 20 steps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import (
    ADAM,
    RUNS,
    SHALLOW,
    TOLERANCES,
    chain_losses,
    chain_players,
    detached_losses,
    distance,
    draw_batches,
    draw_params,
    run_side_by_side,
)

torch = pytest.importorskip("torch", reason="compares with PyTorch")
from parity_tests.updates._torch_two_model import run_pair, two_models  # noqa: E402
from torchref import two_model as programs  # noqa: E402


@dataclass(frozen=True)
class Row:
    """A PyTorch program, and the same thing said in jaxfocal."""

    step: Callable
    losses: Callable
    players: dict[str, Any] = field(default_factory=dict)
    optimizer2_over_both: bool = False


ROWS = {
    "retain": Row(programs.retain_step, chain_losses),
    "detach": Row(programs.detach_step, detached_losses),
    "summed_detach": Row(programs.summed_detach_step, detached_losses, {"loss1": "total", "loss2": "total"}),
    "retain_zero_first": Row(programs.retain_zero_first_step, chain_losses, {"loss1": "total"}),
    "retain_optimizer2_over_both": Row(
        programs.retain_step, chain_losses, {"wrt2": ("model1", "model2")}, optimizer2_over_both=True
    ),
}


@cache
def torch_run(row, optimizers=ADAM, dtype="float64"):
    row = ROWS[row]
    pair = two_models(draw_params(SHALLOW, dtype), optimizers, optimizer2_over_both=row.optimizer2_over_both)
    return run_pair(row.step, pair, draw_batches(dtype))


@cache
def jax_runs(optimizers, dtype):
    updates = {
        name: jf.multi_update(row.losses, chain_players(optimizers, **row.players)) for name, row in ROWS.items()
    }
    return run_side_by_side(updates, draw_params(SHALLOW, dtype), draw_batches(dtype))


@pytest.mark.parametrize(("optimizers", "dtype", "tolerance"), RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("row", ROWS)
def test_parameters_and_losses(row, optimizers, dtype, tolerance):
    state, metrics = jax_runs(optimizers, dtype)[row]
    params, losses = torch_run(row, optimizers, dtype)
    assert distance(state.params, params) < tolerance
    assert distance({name: metrics[name] for name in losses}, losses) < tolerance


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_retain_and_detach_are_bit_identical_in_torch(dtype, optimizer):
    retained, detached = (torch_run(row, (optimizer, optimizer), dtype) for row in ("retain", "detach"))
    assert distance(retained, detached) == 0


def test_both_zero_grad_at_the_top_is_another_algorithm():
    another, own = (torch_run(row)[0] for row in ("retain_zero_first", "retain"))
    assert 1e-3 < distance(another, own) < 1e-2


def test_two_adams_on_model1_are_not_one_on_the_sum_but_two_sgds_are():
    rows = "retain_optimizer2_over_both", "retain_zero_first"
    assert distance(*(torch_run(row, ("sgd", "sgd"))[0] for row in rows)) < TOLERANCES[0][1]
    assert distance(*(torch_run(row, ADAM)[0] for row in rows)) > 1e-3


def test_the_float64_tolerance_sees_a_tenfold_eps_of_adam():
    pair = two_models(draw_params(SHALLOW))
    for optimizer in (pair.optimizer1, pair.optimizer2):
        optimizer.param_groups[0]["eps"] *= 10
    params, _ = run_pair(programs.retain_step, pair, draw_batches())
    assert distance(params, torch_run("retain")[0]) > 100 * TOLERANCES[0][1]
