"""Functions of arrays, recorded once and replayed: on a GPU that saves the launching of hundreds of small kernels.

A step of the stacked Newton's method is some five hundred operations on small arrays. Launched one by one they take
the host several times longer than the device; recorded as a CUDA graph they take it next to none.
"""

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from mixnorm.core.arrays import Array, is_torch_array, like, namespace

#: Functions that have run, by their name, the device and the thread, for which libraries are initialised: what the
#: first call initialises cannot be recorded.
_RUN_BEFORE: set[tuple] = set()


class Recorded:
    """A function of (nested tuples of) arrays, whose operations depend on nothing but the shapes of them.

    With PyTorch on a GPU its operations are recorded at the first call with arguments of some shapes and replayed
    from then on; what it returns is then overwritten by the next call. The very first call of a function, which
    initialises libraries, is not recorded. Elsewhere the function is simply called.

    Parameters
    ----------
    function : functools.partial
    pool : list
        Recorded functions that are given the same list share their memory; what one returns is then to be used before
        another is called.
    """

    def __init__(self, function: partial, pool: list | None = None):
        self._function = function
        self._pool = [] if pool is None else pool
        self._tapes: dict[tuple, _Tape] = {}

    def __call__(self, *args: Any) -> Any:
        """Return what the function returns for these arguments."""
        leaves = _leaves(args)
        if not (is_torch_array(leaves[0]) and leaves[0].is_cuda):
            return self._function(*args)
        where = self._function.func.__qualname__, leaves[0].device, threading.get_ident()
        if where not in _RUN_BEFORE:
            _RUN_BEFORE.add(where)
            return self._function(*args)
        key = tuple(leaf.shape for leaf in leaves)
        if key not in self._tapes:
            self._tapes[key] = _Tape(self._function, args, self._pool)
        return self._tapes[key].replay(leaves)


class WithoutFills:
    """The array namespace of PyTorch, except that `where` with a number starts no kernel that fills an array with it.

    In a step there are some fifty of them.
    """

    _NUMBERS = (0.0, 1.0, float("inf"))

    def __init__(self, xp: ModuleType, reference: Array):
        self._xp = xp
        self._arrays = {number: like(reference, number) for number in self._NUMBERS}

    @classmethod
    def of(cls, reference: Array) -> Any:
        """Return it for the device of an array of PyTorch; for other arrays their own namespace."""
        xp = namespace(reference)
        return cls(xp, reference) if is_torch_array(reference) else xp

    def where(self, condition: Array, x: Array | float, y: Array | float) -> Array:
        """As in the namespace."""
        return self._xp.where(condition, *(self._arrays.get(v, v) if type(v) is float else v for v in (x, y)))

    def __getattr__(self, name: str) -> Any:
        """Return everything else as it is in the namespace."""
        return getattr(self._xp, name)


class _Tape:
    """A CUDA graph, the arrays that it reads, and those that it writes."""

    def __init__(self, function: Callable, args: tuple, pool: list):
        import torch

        fixed = _map(lambda leaf: torch.clone(leaf, memory_format=torch.contiguous_format), args)
        leaves = _leaves(fixed)
        kinds = dict.fromkeys(leaf.dtype for leaf in leaves)  # those of one type are copied together
        places = [[i for i, leaf in enumerate(leaves) if leaf.dtype == kind] for kind in kinds]
        self._inputs = [([leaves[i] for i in own], own) for own in places]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool[0] if pool else None):
            self._outputs = function(*fixed)
        if not pool:
            pool.append(self._graph.pool())

    def replay(self, leaves: list) -> Any:
        import torch

        for own, places in self._inputs:
            torch._foreach_copy_(own, [leaves[place] for place in places])
        self._graph.replay()
        return self._outputs


def _leaves(tree: Any) -> list:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def _map(function: Callable, tree: Any) -> Any:
    if not isinstance(tree, tuple):
        return function(tree)
    parts = [_map(function, part) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
