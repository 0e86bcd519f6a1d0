"""What importing jaxfocal costs and brings along, and what it offers."""

import inspect
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jaxfocal as jf
from jaxfocal import losses

ROOT = Path(__file__).parents[1]

MEASURE = """
import time
import jax, jax.numpy, optax
begin = time.process_time()
import jaxfocal
print(time.process_time() - begin)
"""

LOADED = """
import json, sys
import jaxfocal
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def printed(program: str) -> str:
    """What a new interpreter prints, free to keep compiled modules: the next one then reads them, as a user's does."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=variables)
    return run.stdout


def test_import_is_light():
    loaded = set(json.loads(printed(LOADED)))
    assert {"jaxfocal", "jax", "optax"} <= loaded
    assert not loaded & {"flax", "torch", "torchref", "matplotlib", "sklearn", "rich", "tyro"}


def test_import_is_quick():
    """At most 100 ms of processor time over jax and optax; the quickest of five, for a machine busy with tests."""
    assert min(float(printed(MEASURE)) for _ in range(5)) < 0.1


def test_every_public_name_has_a_docstring_with_an_example_or_a_reference():
    names = [name for name in vars(jf) if not name.startswith("_") and not inspect.ismodule(getattr(jf, name))]
    assert {
        "sigmoid_focal_loss",
        "softmax_focal_loss",
        "multi_update",
        "scan_updates",
        "Player",
        "gradient_routes",
    } <= set(names)
    for name in names:
        documentation = inspect.getdoc(getattr(jf, name))
        assert documentation, name
        if inspect.isfunction(getattr(jf, name)):
            for section in ("Args:", "Returns:", "Raises:", ">>>"):
                assert section in documentation, f"{name} has no {section}"


def test_version_is_in_the_changelog():
    assert f"## {jf.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", [name for name, value in vars(losses).items() if inspect.isfunction(value)])
def test_torchref_has_the_same_keywords(name):
    pytest.importorskip("torch", reason="torchref is PyTorch")
    import torchref

    ours, theirs = inspect.signature(getattr(jf, name)), inspect.signature(getattr(torchref, name))
    assert list(ours.parameters) == list(theirs.parameters)
    for parameter in ours.parameters:
        assert ours.parameters[parameter].kind == theirs.parameters[parameter].kind
        assert ours.parameters[parameter].default == theirs.parameters[parameter].default


def test_extras_hold_what_they_promise():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(name in " ".join(project["dependencies"]) for name in ("torch", "matplotlib", "scikit"))
    extras = project["optional-dependencies"]
    assert {"train", "torch", "test", "cuda", "all"} <= set(extras)
    assert any("train" in requirement for requirement in extras["test-without-torch"])
    assert extras["test"] == ["jaxfocal[test-without-torch,torch,peers]"]
