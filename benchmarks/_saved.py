"""What PyTorch's autograd holds for backwards that are still to come."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from weakref import WeakSet

from ._torch import Tensor, torch


class _Box:
    """One saved tensor; gone when its graph lets it go."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor


class Saved:
    """Counts the tensors that forward passes inside ``with saved.watch()`` leave for their backwards."""

    def __init__(self, known: Iterable[Tensor]):
        """``known`` are there anyway, parameters and inputs: they are not counted."""
        self._known = {_address(tensor) for tensor in known}
        self._boxes: WeakSet[_Box] = WeakSet()

    def watch(self) -> AbstractContextManager:
        return torch.autograd.graph.saved_tensors_hooks(self._pack, lambda box: box.tensor)

    def num_bytes(self) -> int:
        """Of what is held now, each piece of memory once."""
        storages = {_address(box.tensor): box.tensor.untyped_storage().nbytes() for box in self._boxes}
        return sum(size for address, size in storages.items() if address not in self._known)

    def _pack(self, tensor: Tensor) -> _Box:
        box = _Box(tensor)
        self._boxes.add(box)
        return box


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
