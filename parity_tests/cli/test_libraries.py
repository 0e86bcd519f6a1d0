"""The libraries the command needs: loaded when it needs them, and one sentence where one is missing."""

import subprocess
import sys

import pytest

from jaxfocal import cli


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_importing_is_light():
    heavy = ["flax", "matplotlib", "pycocotools", "sklearn", "rich", "tyro", "torch"]
    done = python(f"import sys, jaxfocal, jaxfocal.cli\nprint([m for m in {heavy} if m in sys.modules])")
    assert done.stdout == "[]\n"


MISSING = """
import sys
from jaxfocal import cli

for module in {modules}:
    loaded = sys.modules.get(module)
    sys.modules[module] = None
    print(cli.main([*{args}, "--out", {out!r}]))
    del sys.modules[module]
    for name in [name for name in sys.modules if name.startswith(("jaxfocal.recipes.", "jaxfocal.plots"))]:
        del sys.modules[name]
"""


@pytest.mark.parametrize(
    ("args", "modules", "packages"),
    [
        (
            ["train", "two-model"],
            ["tyro", "rich", "sklearn", "matplotlib"],
            ["tyro", "rich", "scikit-learn", "matplotlib"],
        ),
        (["train", "detector"], ["pycocotools"], ["pycocotools"]),
        (["figures"], ["tyro", "matplotlib"], ["tyro", "matplotlib"]),
    ],
)
def test_a_missing_library_is_one_sentence_with_the_install_command(tmp_path, args, modules, packages):
    done = python(MISSING.format(modules=modules, args=args, out=str(tmp_path / "run")))
    assert done.stdout.split() == ["2"] * len(modules)
    assert done.stderr.splitlines() == [
        f"error: jaxfocal {args[0]} needs {package}, which is not installed: pip install 'jaxfocal[train]'"
        for package in packages
    ]
    assert not list(tmp_path.iterdir())


def test_a_missing_module_that_no_extra_installs_is_not_hidden(monkeypatch):
    def missing(args: list[str]) -> None:
        raise ModuleNotFoundError("No module named 'antigravity2'", name="antigravity2")

    monkeypatch.setattr(cli, "_parse", missing)
    with pytest.raises(ModuleNotFoundError, match="antigravity2"):
        cli.main([])
