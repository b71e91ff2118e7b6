"""How much of a stack is solved at a time, so that a stack of any size fits into memory."""

import numpy as np

from mixnorm.core.arrays import Array, is_cupy_array, is_torch_array
from mixnorm.core.problem import Stack

#: Bytes that a solver may use on the host, where the free memory is not known.
HOST_BYTES = 2**30
#: Share of a device's free memory that may be used.
_SHARE = 0.7
#: Vectors over the trials, and over the features, that one problem holds at a time.
_TRIAL_VECTORS, _FEATURE_VECTORS = 60, 60


def free_bytes(array: Array) -> int:
    """Bytes that may be used on the device of an array: a share of its free memory, or a constant on the host."""
    if is_torch_array(array) and array.device.type == "cuda":
        import torch

        free = torch.cuda.mem_get_info(array.device)[0]
        kept = torch.cuda.memory_reserved(array.device) - torch.cuda.memory_allocated(array.device)
        return int(_SHARE * (free + kept))
    if is_cupy_array(array):
        import cupy

        with array.device:
            return int(_SHARE * (array.device.mem_info[0] + cupy.get_default_memory_pool().free_bytes()))
    return HOST_BYTES


def chunks(stack: Stack) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut a stack into rectangles of data sets and columns, each of which fits with room for its systems."""
    B, T, n, d, K = stack.shape
    half = free_bytes(stack.X) / 2
    data_set = 8 * T * n * d * 3 + (0 if stack.metric is None else 8 * T * d * d * 6)
    problem = 8 * T * (_TRIAL_VECTORS * n + _FEATURE_VECTORS * d)
    columns = min(K, max(1, int((half - data_set) // problem)))
    rows = min(B, max(1, int(half // (data_set + columns * problem))))
    return [
        (np.arange(i, min(i + rows, B)), np.arange(k, min(k + columns, K)))
        for i in range(0, B, rows)
        for k in range(0, K, columns)
    ]


def systems_at_once(room: int, T: int, m: int, n: int) -> int:
    """How many problems' Newton systems of T subjects, m coordinates and n trials fit into some bytes."""
    return max(1, room // (8 * T * m * (3 * n + (8 if T == 1 else 14) * m)))
