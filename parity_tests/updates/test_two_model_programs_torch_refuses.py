"""Programs that PyTorch raises at, or lets through without a word; what the same declarations do here."""

import pytest

import jaxfocal as jf
from parity_tests.updates._two_model import (
    DEEPER,
    SHALLOW,
    chain_players,
    detached_losses,
    distance,
    draw_batches,
    draw_params,
)

torch = pytest.importorskip("torch", reason="compares with PyTorch")
from parity_tests.updates._torch_two_model import arrays, run_pair, tensors, two_models  # noqa: E402
from torchref.two_model import detach_step, no_retain_step, retain_step  # noqa: E402


def test_without_retain_the_second_backward_raises_after_optimizer2_has_moved_model2():
    params, batches = draw_params(SHALLOW), draw_batches(steps=1)
    pair, retained = two_models(params), two_models(params)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        no_retain_step(pair, *tensors(batches)[0])
    retain_step(retained, *tensors(batches)[0])
    assert distance(arrays(pair.model1), params["model1"]) == 0
    assert distance(arrays(pair.model2), params["model2"]) > 1e-4
    assert distance(arrays(pair.model2), arrays(retained.model2)) == 0


def test_with_a_deeper_model1_optimizer2_over_both_changes_what_the_second_backward_needs():
    pair = two_models(draw_params(DEEPER), optimizer2_over_both=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        retain_step(pair, *tensors(draw_batches(steps=1))[0])


def test_with_detach_optimizer2_over_both_gets_no_gradient_for_model1():
    pair = two_models(draw_params(SHALLOW), optimizer2_over_both=True)
    _, l2 = pair.losses(*tensors(draw_batches(steps=1))[0], detach=True)
    l2.backward()
    assert all(p.grad is None for p in pair.model1.parameters())
    assert all(p.grad is not None for p in pair.model2.parameters())


def test_with_detach_optimizer2_over_both_is_optimizer2_over_model2():
    params, batches = draw_params(SHALLOW), draw_batches()
    both, own = (two_models(params, optimizer2_over_both=both) for both in (True, False))
    assert distance(run_pair(detach_step, both, batches), run_pair(detach_step, own, batches)) == 0


def test_with_stop_gradient_a_player_over_both_is_an_error_here():
    params, batches = draw_params(SHALLOW), draw_batches(steps=1)
    update = jf.multi_update(detached_losses, chain_players(wrt2=("model1", "model2")))
    with pytest.raises(
        ValueError, match=r"player 'model2' moves 'model1', but no gradient of its loss 'l2' gets there"
    ):
        update.update(update.init(params), *(batch[0] for batch in batches))
