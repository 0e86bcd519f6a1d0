"""A classifier with an auxiliary head on its early features, and a probe that reads them without moving them.

The early layers end in BatchNorm, whose running statistics move once a step, in the one forward pass there is.
"""

import jax
import numpy as np
import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import STEPS, apply, draw_params
from parity_tests.updates.programs._batch_norm import batch_norm, draw_norm

torch = pytest.importorskip("torch", reason="compares with PyTorch")
from parity_tests.updates._torch_two_model import arrays, module  # noqa: E402
from parity_tests.updates.programs._program import (  # noqa: E402
    adam,
    assert_same,
    jax_run,
    stacked,
    tensors,
    torch_adam,
)
from parity_tests.updates.programs._torch_batch_norm import norm_arrays, norm_module, statistics  # noqa: E402
from torchref.classifiers import WithAuxiliaryHead, auxiliary_step  # noqa: E402

LAYERS = draw_params({"early": (5, 8), "late": (8, 6, 3), "auxiliary": (8, 3), "probe": (8, 2)})
NORM, STATISTICS = draw_norm(8)
WEIGHT = LAYERS["early"][0][0]  # no bias: BatchNorm takes it out again, and Adam would step on its rounding
PARAMS = {**LAYERS, "early": {"weight": WEIGHT, "norm": NORM}}
CLASSIFIER = ("early", "late", "auxiliary")


def draw_batches():
    """``x (steps, 8, 5)``, labels of three classes ``(steps, 8)`` and of an attribute ``(steps, 8)``."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(STEPS, 8, 5))
    return x, rng.integers(0, 3, size=(STEPS, 8)), rng.integers(0, 2, size=(STEPS, 8))


BATCHES = draw_batches()


def losses(params, statistics, x, label, attribute):
    features, statistics = batch_norm(params["early"]["norm"], statistics, x @ params["early"]["weight"].T)

    def cross_entropy(name, features, label):
        return jf.softmax_focal_loss(apply(params[name], features), label, gamma=0.0, reduction="mean")

    total = cross_entropy("late", features, label) + 0.3 * cross_entropy("auxiliary", features, label)
    probe = cross_entropy("probe", jax.lax.stop_gradient(features), attribute)  # PyTorch: features.detach()
    return {"total": total, "probe": probe}, statistics


def torch_run():
    linear = torch.nn.Linear(5, 8, bias=False)
    linear.weight = torch.nn.Parameter(torch.tensor(WEIGHT))
    model = WithAuxiliaryHead(
        torch.nn.Sequential(linear, norm_module(NORM)),
        *(module(LAYERS[name]) for name in ("late", "auxiliary", "probe")),
    )
    optimizers = torch_adam(1e-2, model.early, model.late, model.auxiliary), torch_adam(2e-2, model.probe)
    history = []
    for batch in tensors(BATCHES):
        total, probe = auxiliary_step(model, *optimizers, *batch)
        history.append({"total": total, "probe": probe})
    early = {"weight": linear.weight.detach().numpy(), "norm": norm_arrays(model.early[1])}
    params = {"early": early, **{name: arrays(getattr(model, name)) for name in ("late", "auxiliary", "probe")}}
    return {"params": params, "statistics": statistics(model.early[1])}, stacked(history)


def test_parameters_statistics_and_losses():
    players = {
        "probe": jf.Player(adam(2e-2), loss="probe", wrt="probe", updates_state=False),  # the same forward pass
        "classifier": jf.Player(adam(1e-2), loss="total", wrt=CLASSIFIER),
    }
    update = jf.multi_update(losses, players, has_model_state=True)
    state, metrics = jax_run(update, PARAMS, BATCHES, model_state=STATISTICS)
    assert_same({"params": state.params, "statistics": state.model_state}, metrics, *torch_run())
