"""Functions of arrays, recorded once and replayed: on a GPU that saves the time of launching hundreds of small kernels.

A step of the stacked Newton's method is some five hundred operations on small arrays. Launched one by one they take the
host several times longer than the device; recorded as a CUDA graph they take it next to none.
"""

from collections.abc import Callable
from typing import Any

from .._arrays import is_torch_array


class Recorded:
    """A function of (nested tuples of) arrays, which may look at nothing but the shapes of them.

    With PyTorch on a GPU its operations are recorded at the first call and replayed later; what it returns is then
    overwritten by the next call. Elsewhere it is simply called.
    """

    def __init__(self, function: Callable):
        self._function = function
        self._graph = None

    def __call__(self, *args: Any) -> Any:
        """Return what the function returns for these arguments."""
        leaves = _leaves(args)
        if not (is_torch_array(leaves[0]) and leaves[0].is_cuda):
            return self._function(*args)
        if self._graph is None:
            self._record(args)
        import torch

        for own, places in self._inputs:
            torch._foreach_copy_(own, [leaves[place] for place in places])
        self._graph.replay()
        return self._outputs

    def _record(self, args: tuple) -> None:
        import torch

        fixed = _map(lambda leaf: torch.clone(leaf, memory_format=torch.contiguous_format), args)
        leaves = _leaves(fixed)
        kinds = dict.fromkeys(leaf.dtype for leaf in leaves)  # those of one type are copied together
        places = [[i for i, leaf in enumerate(leaves) if leaf.dtype == kind] for kind in kinds]
        self._inputs = [([leaves[i] for i in own], own) for own in places]
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up in a first run, which cannot be recorded
            self._function(*fixed)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = self._function(*fixed)


def _leaves(tree: Any) -> list:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _map(function: Callable, tree: Any) -> Any:
    if not isinstance(tree, tuple):
        return function(tree)
    parts = [_map(function, part) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
