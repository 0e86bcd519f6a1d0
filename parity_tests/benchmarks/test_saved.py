"""What is counted as held for a backward that is still to come."""

import pytest

from benchmarks._chain import Chain
from benchmarks._device import choose_device

torch = pytest.importorskip("torch", reason="counts what PyTorch saves")
from benchmarks._chain_torch import held_between_backwards  # noqa: E402
from benchmarks._saved import Saved  # noqa: E402


def test_each_saved_array_counts_once_until_its_backward():
    weight = torch.ones(6, requires_grad=True)
    saved = Saved(known=[weight])
    with saved.watch():
        y = torch.exp(weight * 2)  # saves its own value
        loss = (y * y).sum()  # saves y twice more
    assert saved.num_bytes() == 6 * 4
    loss.backward(retain_graph=True)
    assert saved.num_bytes() == 6 * 4
    loss.backward()
    assert saved.num_bytes() == 0


def test_retain_graph_holds_the_hidden_layer_of_model2_too():
    models, device = Chain(batch=64, hidden=512, steps=1), choose_device("cpu")
    retained, detached = (held_between_backwards(models, device, step) for step in ("retain_step", "detach_step"))
    hidden_layer = 64 * 512 * 4
    assert hidden_layer <= detached < 1.5 * hidden_layer
    assert 2 * hidden_layer <= retained < 2.5 * hidden_layer
