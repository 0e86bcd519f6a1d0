"""What something is, in the words of an error message."""

from typing import Any

import jax
import numpy as np

ARRAYS = jax.Array | np.ndarray | np.generic


def kind(x: Any) -> str:
    """Shape and dtype of an array, the length of a container, or the name of the type."""
    if isinstance(x, ARRAYS):
        return f"an array of shape {x.shape} and dtype {x.dtype}"
    return f"{type(x).__name__} of length {len(x)}" if isinstance(x, tuple | list | dict) else type(x).__name__
