"""torchvision's weights, in and out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .retinanet import RetinaNet

LEAVES = {"kernel": "weight", "scale": "weight", "mean": "running_mean", "var": "running_var"}
COUNT = "num_batches_tracked"
OLD_CONVS = {str(2 * i): f"{i}.0" for i in range(4)}


def load_torchvision(
    model: RetinaNet, state_dict: Mapping[str, Any] | str | Path, *, backbone_only: bool = False
) -> RetinaNet:
    """Fill a model with the weights of torchvision's RetinaNet of the same kind.

    Every parameter and statistic of the model is set, and every tensor of the file used, once; names of older files are
    understood. Nothing is changed unless all fits.

    Args:
      model: filled in place. It may be abstract, as ``nnx.eval_shape`` makes it without drawing parameters.
      state_dict: a state_dict of torch tensors or of numpy arrays, or the path of a ``.safetensors`` or ``.pth`` file
        (``.pth`` needs PyTorch).
      backbone_only: leave the heads as they are, and the file's heads alone; for another number of classes. The model
        must have drawn its heads: those of an abstract one stay abstract.

    Returns:
      ``model``.

    Raises:
      ValueError: for tensors that are missing, not known, or of another shape; it names the first and both shapes. For
        a checkpoint that holds a state_dict among other things, and a file that cannot be read.

    >>> from jaxfocal.detection.fpn import resnet_fpn
    >>> model = RetinaNet(resnet_fpn(18, width=8, out_channels=16, rngs=nnx.Rngs(0)), 3, rngs=nnx.Rngs(0))
    >>> model = load_torchvision(model, export_torchvision(model))

    The source is torchvision's ``state_dict`` layout, version 2 of its head and pyramid.
    """
    read = _read(state_dict)
    _check_mapping(read)
    tensors = {_newest_name(key): value for key, value in read.items()}
    if len(tensors) < len(read):
        raise ValueError("the file has tensors under both an older name and the newest")
    variables = {key: variable for key, (_, variable) in _by_name(model).items()}
    if not any(key.endswith(COUNT) for key in tensors):  # files made with frozen normalisation
        variables = {key: value for key, value in variables.items() if not key.endswith(COUNT)}
    elif not any(key.endswith(COUNT) for key in variables):
        tensors = {key: value for key, value in tensors.items() if not key.endswith(COUNT)}
    if backbone_only:
        tensors = {key: value for key, value in tensors.items() if not key.startswith("head.")}
        variables = {key: value for key, value in variables.items() if not key.startswith("head.")}
    _check_names(tensors, variables)
    for key in variables:
        _check_floating(key, tensors[key])
    arrays = {key: _to_ours(_as_numpy(tensors[key])) for key, variable in variables.items()}
    for key, variable in variables.items():
        if arrays[key].shape != variable.shape:
            theirs, ours = np.shape(_as_numpy(tensors[key])), _to_theirs(np.empty(variable.shape)).shape
            hint = "" if not key.startswith("head.") else "; load_torchvision(..., backbone_only=True) leaves the heads"
            raise ValueError(f"{key} has shape {theirs} in the file, and {ours} in the model{hint}")
    filled = [
        (path, variable.replace(jnp.array(arrays[key], variable.dtype)))  # a copy: PyTorch may write to its own
        for key, (path, variable) in _by_name(model).items()
        if key in arrays
    ]
    nnx.update(model, nnx.from_flat_state(filled))
    return model


def export_torchvision(model: RetinaNet) -> dict[str, np.ndarray]:
    """The weights of a model under torchvision's names and in its layout.

    Args:
      model: a RetinaNet.

    Returns:
      Numpy arrays; ``{k: torch.tensor(v) for k, v in ...items()}`` is a state_dict. ``load_torchvision`` gives them
      back bit by bit.

    Raises:
      ValueError: where parameters are traced, under ``jax.jit``, or abstract.

    >>> from jaxfocal.detection.fpn import resnet_fpn
    >>> model = RetinaNet(resnet_fpn(18, width=8, out_channels=16, rngs=nnx.Rngs(0)), 3, rngs=nnx.Rngs(0))
    >>> export_torchvision(model)["head.classification_head.cls_logits.weight"].shape  # (9 anchors * 3, 16, 3, 3)
    (27, 16, 3, 3)
    """
    if not isinstance(model, RetinaNet):
        raise ValueError(f"model must be a RetinaNet, got {type(model).__name__}")
    tensors = {}
    for key, (_, variable) in _by_name(model).items():
        value = variable.get_raw_value()
        if not isinstance(value, jax.Array | np.ndarray) or isinstance(value, jax.core.Tracer):
            raise ValueError(f"model must have parameters that can be read, got {key} traced or abstract")
        array = np.array(_to_theirs(np.asarray(variable[...])), order="C")
        tensors[key] = array.astype(np.int64) if key.endswith(COUNT) else array
    return tensors


def _by_name(model: RetinaNet) -> dict[str, tuple[tuple[Any, ...], nnx.Variable]]:
    """Path and variable under torchvision's name: the modules are named as there."""
    found = {}
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        *modules, leaf = map(str, path)
        found[".".join([*modules, COUNT if leaf == "count" else LEAVES.get(leaf, leaf)])] = (path, variable)
    return found


def _to_ours(array: np.ndarray) -> np.ndarray:
    """Kernels from (out, in, h, w) to (h, w, in, out)."""
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array


def _to_theirs(array: np.ndarray) -> np.ndarray:
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array


def _newest_name(key: str) -> str:
    """Names of files from before torchvision 0.13 among them."""
    parts = key.split(".")
    if len(parts) != 5:
        return key
    if parts[:2] == ["backbone", "fpn"] and parts[2] in ("inner_blocks", "layer_blocks"):
        return ".".join([*parts[:4], "0", parts[4]])
    if parts[0] == "head" and parts[2] == "conv" and parts[3] in OLD_CONVS:
        return ".".join([*parts[:3], OLD_CONVS[parts[3]], parts[4]])
    return key


def _check_mapping(tensors: Mapping[str, Any]) -> None:
    """Of tensors under torchvision's names, and not of what training programs wrap around them."""
    for key, value in tensors.items():
        if not isinstance(key, str):
            raise ValueError(f"state_dict must have names as keys, got the key {key!r}")
        if isinstance(value, Mapping):
            raise ValueError(
                f"state_dict must be one of tensors, got a checkpoint that has a dict at {key!r}: pass that"
            )
        prefix, found, _ = key.partition("backbone.")
        if found and prefix:
            raise ValueError(
                f"state_dict must have torchvision's names, got {key}; take the prefix off: "
                f"{{k.removeprefix({prefix!r}): v for k, v in state_dict.items()}}"
            )


def _check_floating(key: str, tensor: Any) -> None:
    dtype = str(getattr(tensor, "dtype", type(tensor).__name__)).removeprefix("torch.")
    if not dtype.startswith(("float", "bfloat")) and not (key.endswith(COUNT) and "int" in dtype):
        raise ValueError(f"{key} must be a floating point tensor, got {dtype}")


def _check_names(tensors: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
    missing, unknown = [k for k in variables if k not in tensors], [k for k in tensors if k not in variables]
    for keys, what in ((missing, "lacks"), (unknown, "has what the model has not:")):
        if keys:
            raise ValueError(f"the file {what} {keys[0]}" + (f" and {len(keys) - 1} more" if keys[1:] else ""))


def _as_numpy(tensor: Any) -> np.ndarray:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":
            tensor = tensor.float()
    return np.asarray(tensor)


def _read(state_dict: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    if isinstance(state_dict, Mapping):
        return state_dict
    if not isinstance(state_dict, str | Path):
        hint = "; pass its state_dict()" if hasattr(state_dict, "state_dict") else ""
        raise ValueError(f"state_dict must be a mapping or the path of a file, got {type(state_dict).__name__}{hint}")
    path = Path(state_dict)
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise ValueError(f"state_dict must be a mapping, or a .safetensors or .pth file, got {str(state_dict)!r}")
    if not path.is_file():
        raise ValueError(f"state_dict must be a file that exists, got {str(state_dict)!r}")
    try:
        content = _read_file(path)
    except ImportError:
        raise
    except Exception as error:  # safetensors and PyTorch raise a dozen kinds
        what = "a file of tensors, as torch.save(model.state_dict(), path) and safetensors write them"
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(f"state_dict must be {what}, got {str(state_dict)!r} ({why})") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"state_dict must be a file of a state_dict, got {type(content).__name__} in {path.name}")
    return content


def _read_file(path: Path) -> Any:
    if path.suffix == ".safetensors":
        try:
            from safetensors.numpy import load_file
        except ImportError:
            raise ImportError(f"{path.name} needs safetensors: pip install safetensors") from None
        return load_file(path)
    try:
        import torch
    except ImportError:
        raise ImportError(f"{path.name} needs PyTorch: pip install 'jaxfocal[torch]'") from None
    return torch.load(path, map_location="cpu", weights_only=True)
