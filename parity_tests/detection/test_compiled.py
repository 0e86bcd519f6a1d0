"""One compilation a shape, an artefact that runs without jaxfocal, a batch spread over devices."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from flax import nnx

from jaxfocal.detection import detect, preprocess, training_step
from jaxfocal.detection.postprocess import _detect
from parity_tests.detection.conftest import small_batch, small_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finds_boxes():
    """A small float32 model whose scores are spread, so that it finds boxes."""
    model = small_model(dtype=np.float32)
    bias = model.head.classification_head.cls_logits.bias
    bias[...] = bias[...] + np.random.default_rng(0).normal(2, 1, bias.shape).astype(np.float32)
    return model


def test_mixed_sizes_compile_once_a_bucket(finds_boxes):
    """Eight sizes of images, three padded ones; no box leaves its image."""
    rng = np.random.default_rng(1)
    buckets = [(64, 64), (64, 96), (96, 64)]
    before, seen = _detect._cache_size(), set()
    for height, width in [(60, 70), (50, 70), (90, 60), (48, 48), (61, 90), (55, 57), (60, 80), (64, 61)]:
        batch = preprocess([rng.random((height, width, 3), np.float32)], min_size=60, max_size=96, buckets=buckets)
        seen.add(batch.images.shape)
        found = detect(finds_boxes, *batch)
        within = np.asarray(found.boxes[0])
        assert (within[:, 0::2] <= batch.image_sizes[0, 1]).all()
        assert (within[:, 1::2] <= batch.image_sizes[0, 0]).all()
    assert _detect._cache_size() - before == len(seen) == 3


def test_no_detections(finds_boxes):
    found = detect(finds_boxes, np.zeros((1, 64, 64, 3), np.float32), np.array([[64, 64]]), score_threshold=0.9999)
    assert not found.valid.any()
    for array in found:
        np.testing.assert_array_equal(array, 0)


RUN = """
import sys
import numpy as np
from jax import export
with open(sys.argv[1], "rb") as file:
    loaded = export.deserialize(bytearray(file.read()))
arrays = np.load(sys.argv[2])
outputs = loaded.call(arrays["images"], arrays["sizes"])
assert not any(name.startswith(("jaxfocal", "flax")) for name in sys.modules)
np.savez(sys.argv[3], *outputs)
"""


def test_export_runs_without_jaxfocal(finds_boxes, tmp_path):
    """Suppression and all, for processors and GPUs alike."""
    pytest.importorskip("flatbuffers", reason="jax.export writes its artefacts with it")
    images = np.random.default_rng(2).normal(size=(2, 64, 64, 3)).astype(np.float32)
    sizes = np.array([[64, 60], [50, 64]], np.int32)
    found = detect(finds_boxes, images, sizes)
    assert found.valid.sum() > 20
    with jax.enable_x64(False):  # float32 throughout, as the process that loads it
        call = jax.jit(lambda images, sizes: tuple(detect(finds_boxes, images, sizes)))
        exported = jax.export.export(call, platforms=("cpu", "cuda"))(images, sizes)
    (tmp_path / "detect.bin").write_bytes(exported.serialize())
    np.savez(tmp_path / "in.npz", images=images, sizes=sizes)
    command = [sys.executable, "-c", RUN, *(str(tmp_path / name) for name in ("detect.bin", "in.npz", "out.npz"))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = list(np.load(tmp_path / "out.npz").values())
    np.testing.assert_array_equal(loaded[3], found.valid)
    np.testing.assert_array_equal(loaded[2], found.labels)
    np.testing.assert_allclose(loaded[0], found.boxes, atol=1e-3)
    np.testing.assert_allclose(loaded[1], found.scores, atol=1e-5)


MESH = """
import jax, numpy as np, optax
jax.config.update("jax_enable_x64", True)
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from flax import nnx
from jaxfocal.detection import training_step
from parity_tests.detection.conftest import small_batch, small_model

assert len(jax.devices()) == 8
batch = small_batch(batch=8, height=64, width=64)
graphdef, state, step = training_step(small_model(), optax.sgd(1e-2))
step = jax.jit(step)
alone = step(*jax.device_put((state, batch), jax.devices()[0]))
mesh = Mesh(np.array(jax.devices()), ("batch",))
state = jax.device_put(state, NamedSharding(mesh, P()))
batch = jax.device_put(batch, NamedSharding(mesh, P("batch")))
spread = step(state, batch)
assert spread[0].params["head"]["classification_head"]["cls_logits"]["kernel"][...].sharding.is_fully_replicated
for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(spread), strict=True):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)
print("same")
"""


def test_a_batch_over_eight_devices_is_the_batch_on_one():
    """One training step: losses, parameters, and BatchNorm's statistics, which are those of the whole batch."""
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", MESH], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.stdout == "same\n", done.stderr


def test_the_step_learns_and_leaves_the_model_alone():
    """It compiles once, and the loss of a batch falls."""
    model = small_model(dtype=np.float32)
    before = jax.tree.map(np.array, nnx.state(model))
    graphdef, state, step = training_step(model, optax.adam(1e-3))
    step = jax.jit(step)
    batch = small_batch(dtype=np.float32, height=64, width=64)
    losses = []
    for _ in range(12):
        state, parts = step(state, batch)
        losses.append(float(sum(parts.values())))
    assert losses[-1] < 0.9 * losses[0]
    assert step._cache_size() == 1
    jax.tree.map(np.testing.assert_array_equal, before, jax.tree.map(np.array, nnx.state(model)))
    assert isinstance(nnx.merge(graphdef, state.params, state.model_state), type(model))
