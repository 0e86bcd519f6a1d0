"""Weights in and out: exact round trips, files, older names, and what does not fit."""

import jax
import numpy as np
import pytest
from flax import nnx

from jaxfocal import detection
from jaxfocal.detection import export_torchvision, load_torchvision
from parity_tests.detection.conftest import small_model


def model_with(num_classes=4, norm="batch"):
    return small_model(num_classes, dtype=np.float32, norm=norm)


@pytest.fixture(scope="module")
def weights():
    """Of another model, statistics drawn too."""
    rng = np.random.default_rng(0)
    return {
        key: np.asarray(value + 3)
        if value.dtype == np.int64
        else value + rng.uniform(0, 1, value.shape).astype(value.dtype)
        for key, value in export_torchvision(model_with()).items()
    }


def assert_same(ours, theirs):
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype
        np.testing.assert_array_equal(ours[key], value, err_msg=key)


def test_round_trip(weights):
    model = model_with()
    assert load_torchvision(model, weights) is model
    assert_same(export_torchvision(model), weights)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_files(weights, suffix, tmp_path):
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch = pytest.importorskip("torch", reason="writes a file of PyTorch")
        torch.save({key: torch.tensor(value) for key, value in weights.items()}, path)
    else:
        pytest.importorskip("safetensors.numpy", reason="writes a safetensors file").save_file(weights, path)
    assert_same(export_torchvision(load_torchvision(model_with(), path)), weights)


@pytest.mark.xdist_group("big_detectors")
def test_the_names_are_torchvisions(big):
    exported = export_torchvision(big.ours)
    assert_same(exported, {key: value.numpy() for key, value in big.torch.state_dict().items()})


def test_numbers_of_parameters():
    counts = {"retinanet_resnet50_fpn": (34_068_119, 354), "retinanet_resnet50_fpn_v2": (38_198_935, 362)}
    for name, (parameters, tensors) in counts.items():
        model = nnx.eval_shape(lambda name=name: getattr(detection, name)(rngs=nnx.Rngs(0)))
        assert sum(p.size for p in jax.tree.leaves(nnx.state(model, nnx.Param))) == parameters
        assert len(jax.tree.leaves(nnx.state(model))) == tensors
    frozen = nnx.eval_shape(lambda: detection.retinanet_resnet50_fpn(norm="frozen", rngs=nnx.Rngs(0)))
    assert len(jax.tree.leaves(nnx.state(frozen))) == 301


def test_weights_are_copied(weights):
    """A PyTorch model that goes on training does not change ours."""
    source = {key: value.copy() for key, value in weights.items()}
    model = load_torchvision(model_with(), source)
    for value in source.values():
        value.fill(7)
    assert_same(export_torchvision(model), weights)


def old_name(key):
    """As files were written before torchvision 0.13."""
    parts = key.split(".")
    if parts[1] == "fpn" and parts[2] != "extra_blocks":
        return ".".join([*parts[:4], parts[5]])
    if parts[0] == "head" and parts[2] == "conv":
        return ".".join([*parts[:3], str(2 * int(parts[3])), parts[5]])
    return key


def test_names_of_older_files(weights):
    old = {old_name(key): value for key, value in weights.items()}
    assert "head.classification_head.conv.6.weight" in old
    assert "backbone.fpn.inner_blocks.2.weight" in old
    assert_same(export_torchvision(load_torchvision(model_with(), old)), weights)


def test_frozen_statistics_go_either_way(weights):
    """Files made with frozen normalisation have no count of batches; a frozen model has no use for it."""
    counts = {key for key in weights if key.endswith("num_batches_tracked")}
    without = {key: value for key, value in weights.items() if key not in counts}
    assert_same(export_torchvision(load_torchvision(model_with(norm="frozen"), weights)), without)
    loaded = export_torchvision(load_torchvision(model_with(), without))
    assert_same({key: value for key, value in loaded.items() if key not in counts}, without)
    assert all(loaded[key] == 0 for key in counts)


def test_another_number_of_classes(weights):
    model = model_with(num_classes=7)
    before = export_torchvision(model)
    message = (
        r"head.classification_head.cls_logits.bias has shape \(36,\) in the file, and \(63,\) in the model; "
        r"load_torchvision\(..., backbone_only=True\) leaves the heads"
    )
    with pytest.raises(ValueError, match=message):
        load_torchvision(model, weights)
    assert_same(export_torchvision(model), before)
    after = export_torchvision(load_torchvision(model, weights, backbone_only=True))
    assert_same(after, {key: (before if key.startswith("head.") else weights)[key] for key in weights})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("backbone.body.bn1.bias"), "the file lacks backbone.body.bn1.bias$"),
        (lambda w: w.update({"roi.weight": np.zeros(3)}), "the file has what the model has not: roi.weight$"),
        (
            lambda w: w.update({"backbone.body.conv1.weight": np.zeros((8, 1, 7, 7))}),
            r"backbone.body.conv1.weight has shape \(8, 1, 7, 7\) in the file, and \(8, 3, 7, 7\) in the model$",
        ),
    ],
)
def test_files_that_do_not_fit(weights, change, message):
    changed = dict(weights)
    change(changed)
    with pytest.raises(ValueError, match=message):
        load_torchvision(model_with(), changed)


def test_a_path_of_another_kind():
    with pytest.raises(ValueError, match=r"a .safetensors or .pth file, got 'weights.npz'"):
        load_torchvision(model_with(), "weights.npz")


WEIGHTS = export_torchvision(model_with())
FIRST = "backbone.body.conv1.weight"


@pytest.mark.parametrize(
    ("state_dict", "message"),
    [
        (None, "state_dict must be a mapping or the path of a file, got NoneType"),
        (
            {f"module.{key}": value for key, value in WEIGHTS.items()},
            r"take the prefix off: .*removeprefix\('module\.'",
        ),
        ({"model": WEIGHTS, "epoch": 3}, "got a checkpoint that has a dict at 'model': pass that"),
        (WEIGHTS | {1: 2}, "names as keys, got the key 1"),
        (WEIGHTS | {"head": 1, "head.x": 2, "backbone.fpn": 3}, "has what the model has not: head and 2 more"),
        (WEIGHTS | {FIRST: WEIGHTS[FIRST].astype(int)}, f"{FIRST} must be a floating point tensor, got int64"),
        (WEIGHTS | {FIRST: WEIGHTS[FIRST] + 0j}, f"{FIRST} must be a floating point tensor, got complex64"),
        (
            WEIGHTS | {"backbone.fpn.inner_blocks.0.weight": WEIGHTS["backbone.fpn.inner_blocks.0.0.weight"]},
            "under both an older name and the newest",
        ),
        ("nowhere/weights.pth", "must be a file that exists, got 'nowhere/weights.pth'"),
    ],
)
def test_what_is_no_state_dict(state_dict, message):
    with pytest.raises(ValueError, match=message):
        load_torchvision(model_with(), state_dict)


@pytest.mark.parametrize(("suffix", "needs"), [(".safetensors", "safetensors"), (".pth", "torch")])
def test_files_of_something_else(suffix, needs, tmp_path):
    pytest.importorskip(needs, reason="reads the file")
    path = tmp_path / f"weights{suffix}"
    for content in (b"no tensors" * 20, b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"state_dict must be a file of tensors, .* got '.*weights{suffix}'"):
            load_torchvision(model_with(), path)


def test_parameters_that_cannot_be_read():
    graphdef, state = nnx.split(model_with())
    with pytest.raises(ValueError, match=r"parameters that can be read, got .* traced or abstract"):
        jax.eval_shape(lambda state: export_torchvision(nnx.merge(graphdef, state)), state)
    with pytest.raises(ValueError, match="model must be a RetinaNet, got dict"):
        export_torchvision({})
