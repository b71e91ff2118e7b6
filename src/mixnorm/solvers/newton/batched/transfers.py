"""Copies between host and device that do not wait for queued work.

A plain copy waits for all work before it. With PyTorch on a GPU these go through memory that the device reads and
writes by itself, so that host and device work at the same time; elsewhere they are plain copies.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixnorm.core.arrays import Array, is_torch_array, like, namespace, to_numpy


def is_on_gpu(array: Array) -> bool:
    """Whether an array is one of PyTorch on a GPU."""
    return is_torch_array(array) and array.is_cuda


def send(reference: Array, values: np.ndarray) -> Array:
    """Return integers of the host as an array in the namespace and on the device of ``reference``."""
    if not is_on_gpu(reference):
        return like(reference, values, dtype=namespace(reference).int64)
    import torch

    pinned = torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).pin_memory()
    return pinned.to(reference.device, non_blocking=True)


class Reader:
    """Brings small arrays to the host, while the device goes on with what it is given after them."""

    def __init__(self):
        self._stream: Any = None

    def start(self, array: Array) -> Callable[[], np.ndarray]:
        """Start to copy an array; what is returned waits for the copy and returns it.

        The array must not be overwritten before.
        """
        if not is_on_gpu(array):
            return lambda: to_numpy(array)
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream(array.device)
        self._stream.wait_stream(torch.cuda.current_stream(array.device))
        with torch.cuda.stream(self._stream):
            host = torch.empty(array.shape, dtype=array.dtype, pin_memory=True)
            host.copy_(array, non_blocking=True)
        return lambda: self._finished(host)

    def _finished(self, host: Any) -> np.ndarray:
        self._stream.synchronize()
        return host.numpy()
