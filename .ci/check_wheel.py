"""Run in an environment that holds the wheel and nothing else: does it work, and say what it lacks?"""

import importlib.util
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import jax
import jax.numpy as jnp

import jaxfocal as jf

for absent in ("torch", "matplotlib", "sklearn"):
    assert importlib.util.find_spec(absent) is None, f"{absent} is installed, so this checks nothing"

loss = jf.softmax_focal_loss(jnp.zeros((2, 3)), jnp.array([0, 2]), reduction="mean")
assert abs(float(loss) - (2 / 3) ** 2 * float(jnp.log(3.0))) < 1e-6

packaged = {str(path) for path in files("jaxfocal")}
assert {"jaxfocal/py.typed", "torchref/py.typed", "torchref/losses/__init__.py"} <= packaged, packaged
tops = {path.split("/")[0] for path in packaged if path.endswith(".py")}
assert tops == {"jaxfocal", "torchref"}, f"the wheel holds {tops}"


def says(command: list[str], status: int, message: str) -> None:
    """Assert the exit status and the message on stderr, without a trace where the command is ours."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done
    assert message in done.stderr, done
    assert command[-1] == "import torchref" or "Traceback" not in done.stderr, done


binaries = Path(sys.executable).parent
says([sys.executable, "-c", "import torchref"], 1, "torchref needs PyTorch: pip install 'jaxfocal[torch]'")
says([str(binaries / "jaxfocal"), "train", "two-model"], 2, "pip install 'jaxfocal[train]'")
says([str(binaries / "jaxfocal"), "figures"], 2, "jaxfocal figures needs")
print("the wheel works: jaxfocal", jf.__version__, "on JAX", jax.__version__, "and Python", sys.version.split()[0])
