"""The command ``jaxfocal``: options in, an exit status out."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from . import __version__
from .recipes._detector_config import DetectorConfig
from .recipes._gan_config import GanConfig
from .recipes._two_model_config import TwoModelConfig

Config = TypeVar("Config", TwoModelConfig, GanConfig, DetectorConfig)
COMMANDS = ("train", "figures")
TRAIN_EXTRA = {
    "matplotlib": "matplotlib",
    "pycocotools": "pycocotools",
    "rich": "rich",
    "sklearn": "scikit-learn",
    "tyro": "tyro",
}


def main(args: Sequence[str] | None = None) -> int:
    """Run ``jaxfocal`` with ``args`` (by default those of the process) and return its exit status.

    0 when all went well, 2 for bad input or a missing library (one message on stderr), 130 when interrupted.
    """
    args = sys.argv[1:] if args is None else list(args)
    if args == ["--version"]:
        print(f"jaxfocal {__version__}")
        return 0
    try:
        return _parse(args).run()
    except ModuleNotFoundError as error:
        package = TRAIN_EXTRA.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        command = " ".join(["jaxfocal", *(name for name in args[:1] if name in COMMANDS)])
        return _fail(f"{command} needs {package}, which is not installed: pip install 'jaxfocal[train]'")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


@dataclass(frozen=True)
class TwoModel(TwoModelConfig):
    """Train a digit classifier and, on its logits, a detector of the rare digits.

    The data are scikit-learn's handwritten digits, made long-tailed. Each model has its own loss and its own optimizer.
    Prints accuracy, macro recall and the recall of each digit; writes metrics.jsonl, summary.json and two_model.png.
    """

    out: Path = Path("runs/two-model")
    """Folder for the files of the run; made if need be."""
    compare: bool = False
    """Run all three losses, whatever --loss says, and print one table; each loss gets a folder in --out."""

    def __post_init__(self) -> None:
        """Check nothing yet: tyro would draw a box around an error that ``run`` reports in one line."""

    def run(self) -> int:
        """Run the recipe and return the exit status."""

        def recipe(config: TwoModelConfig) -> None:
            from .recipes import two_model

            (two_model.compare if self.compare else two_model.main)(config, self.out)

        return _train(self, TwoModelConfig, recipe)


@dataclass(frozen=True)
class Gan(GanConfig):
    """Train a generator of handwritten digits against a discriminator.

    The data are scikit-learn's 8x8 digits. Prints the Fréchet distance of the samples to the held-out digits; writes
    metrics.jsonl, summary.json, samples.png (the same noise over time) and gan.png (losses and distance).
    """

    out: Path = Path("runs/gan")
    """Folder for the files of the run; made if need be."""

    def __post_init__(self) -> None:
        """Check nothing yet, as for TwoModel."""

    def run(self) -> int:
        """Run the recipe and return the exit status."""

        def recipe(config: GanConfig) -> None:
            from .recipes import gan

            gan.main(config, self.out)

        return _train(self, GanConfig, recipe)


@dataclass(frozen=True)
class Detector(DetectorConfig):
    """Train a RetinaNet to find handwritten digits among things that look like them.

    The scenes are made of scikit-learn's 8x8 digits. Prints COCO's average precision on scenes of other digits; writes
    metrics.jsonl, summary.json, detector.png (losses, precision and recall) and detections.png.
    """

    out: Path = Path("runs/detector")
    """Folder for the files of the run; made if need be."""
    compare: bool = False
    """Run all four losses, whatever --loss says, and print one table; each loss gets a folder in --out."""

    def __post_init__(self) -> None:
        """Check nothing yet, as for TwoModel."""

    def run(self) -> int:
        """Run the recipe and return the exit status."""

        def recipe(config: DetectorConfig) -> None:
            from .recipes import detector

            (detector.compare if self.compare else detector.main)(config, self.out)

        return _train(self, DetectorConfig, recipe)


@dataclass(frozen=True)
class Figures:
    """Draw the losses, the gradients by which they weigh examples, and the class weights.

    Writes focal_curves.png, weighting.png and class_weights.png.
    """

    out: Path = Path("runs/figures")
    """Folder for the files; made if need be."""

    def run(self) -> int:
        """Draw and return the exit status."""
        from .recipes import figures

        try:
            figures.main(self.out)
        except OSError as error:
            return _fail(error)
        return 0


def _train(options: Config, of: type[Config], recipe: Callable[[Config], None]) -> int:
    """Run a recipe with those of the options that it depends on, and return the exit status."""
    try:
        config = of(**{field.name: getattr(options, field.name) for field in fields(of)})
    except ValueError as error:
        return _fail(error)
    try:
        recipe(config)
    except (OSError, FloatingPointError) as error:
        return _fail(error)
    return 0


class Command(Protocol):
    """What the options on the command line ask for."""

    def run(self) -> int:
        """Do it and return the exit status."""


def _parse(args: Sequence[str]) -> Command:
    """The options of the chosen command; for unreadable ones tyro says why and exits with status 2."""
    import tyro
    from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes, subcommand

    @dataclass(frozen=True)
    class Train:
        """Train a small, complete example program."""

        recipe: (
            Annotated[TwoModel, subcommand("two-model")]
            | Annotated[Gan, subcommand("gan")]
            | Annotated[Detector, subcommand("detector")]
        )

        def run(self) -> int:
            return self.recipe.run()

    commands: Any = Annotated[Train, subcommand("train")] | Annotated[Figures, subcommand("figures")]
    return tyro.cli(
        commands,
        args=args,
        prog="jaxfocal",
        description="Focal losses and multi-model updates for JAX. jaxfocal --version prints the version.",
        config=(FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes),
    )


def _fail(message: object) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
