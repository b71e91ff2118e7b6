"""The few array-API helpers that all numerical code shares.

scikit-learn ships array-api-compat, so that the core needs nothing else to run on NumPy, PyTorch and CuPy.
"""

from types import ModuleType
from typing import Any

import numpy as np
from sklearn.externals.array_api_compat import (
    array_namespace,
    device,
    is_cupy_array,
    is_numpy_array,
    is_torch_array,
)
from sklearn.externals.array_api_compat import is_array_api_obj as is_array
from sklearn.externals.array_api_compat import numpy as numpy_namespace

__all__ = [
    "Array",
    "by_columns",
    "device",
    "is_array",
    "is_cupy_array",
    "is_numpy_array",
    "is_torch_array",
    "like",
    "matmul_by_columns",
    "matmul_transposed",
    "namespace",
    "positive_part",
    "put_rows",
    "to_numpy",
    "without_repeats",
]

Array = Any  #: an array of any namespace that follows the array API standard


def namespace(*arrays: Array) -> ModuleType:
    """Return the array-API namespace that all the arrays share."""
    if all(type(array) is np.ndarray for array in arrays):  # the usual case, without the cost of finding out
        return numpy_namespace
    return array_namespace(*arrays)


def positive_part(array: Array) -> Array:
    """max(array, 0); many times faster than the standard's clip."""
    if type(array) is np.ndarray:
        return np.maximum(array, 0.0)
    if is_torch_array(array):
        return array.clamp(min=0.0)  # one operation instead of three
    return namespace(array).where(array > 0, array, 0.0)


def like(reference: Array, values: Any, dtype: Any = None) -> Array:
    """Return ``values`` as an array in the namespace and on the device of ``reference``."""
    xp = namespace(reference)
    if isinstance(values, np.ndarray) and not values.flags.writeable:
        values = values.copy()  # PyTorch takes no read-only memory
    return xp.asarray(values, dtype=reference.dtype if dtype is None else dtype, device=device(reference))


def put_rows(target: Array, rows: Array, values: Array) -> None:
    """Write ``values`` (m, ...) into some rows of ``target`` (n, ...), on its device; of equal rows any one stays."""
    if is_torch_array(target):
        target.index_copy_(0, rows, values)
    elif is_numpy_array(target) or is_cupy_array(target):
        target[rows] = values
    else:  # the standard knows no such assignment
        for place, row in enumerate(to_numpy(rows).tolist()):
            target[row, ...] = values[place, ...]


def to_numpy(array: Array) -> np.ndarray:
    """Copy an array of any namespace and device to the host."""
    if is_numpy_array(array):
        return array
    if hasattr(array, "get"):  # CuPy refuses implicit copies to the host
        return array.get()
    if hasattr(array, "detach"):  # PyTorch
        return array.detach().cpu().numpy()
    return np.asarray(array)


def where_problems(wins: Array, one: Array, other: Array) -> Array:
    """Return one of two arrays (B, ..., K) where a problem, of (B, K), wins, and the other elsewhere."""
    xp = namespace(wins)
    # The problems of a stack are its first and last axis, so that what lies between is filled up with ones.
    shape = (wins.shape[0], *(1,) * (one.ndim - 2), wins.shape[1])
    return xp.where(xp.reshape(wins, shape), one, other)


def matmul_transposed(X: Array, A: Array) -> Array:
    """Return X'A over the last two axes."""
    xp = namespace(X, A)
    if is_numpy_array(X):  # (A'X)' takes three quarters of the time where A has few columns
        return np.matmul(A.swapaxes(-1, -2), X).swapaxes(-1, -2)
    return xp.matmul(xp.matrix_transpose(X), A)


# Arrays (..., n, K) of the trials of K problems: NumPy runs several times faster over the n numbers of a column than
# over the few of a row, above all in sums and where an array (..., n, 1) is spread over the columns. Arrays that are
# computed together must have the same order in memory.


def by_columns(array: Array) -> Array:
    """Return an array (..., n, K) of which every column is contiguous in memory; only NumPy's are rearranged."""
    if not is_numpy_array(array) or array.strides[-2] == array.itemsize:
        return array
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def matmul_by_columns(X: Array, W: Array) -> Array:
    """Return X W over the last two axes, as `by_columns` orders it."""
    if not is_numpy_array(X):
        return namespace(X, W).matmul(X, W)
    return np.matmul(W.swapaxes(-1, -2), X.swapaxes(-1, -2)).swapaxes(-1, -2)


def without_repeats(array: Array) -> Array:
    """Return one column (..., n, 1) of an array (..., n, K) that repeats it without copies; else the array."""
    return array[..., :1] if is_numpy_array(array) and array.strides[-1] == 0 else array
