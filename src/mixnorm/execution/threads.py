"""The number of BLAS threads for the solution of a stack of problems."""

import contextlib
import functools
import threading
from typing import Any

from threadpoolctl import ThreadpoolController

from mixnorm.core.arrays import Array, is_numpy_array

#: Largest number of values in X for which one BLAS thread is fastest.
_SMALL = 2_000_000


def few_threads(X: Array) -> contextlib.AbstractContextManager:
    """Limit BLAS to one thread if X is small, because starting threads then takes longer than they save."""
    if not is_numpy_array(X) or X.size > _SMALL:
        return contextlib.nullcontext()
    return _one_thread


class _OneThread:
    """Context that limits BLAS to one thread.

    The limit applies to the whole process, and fits may run in several threads. Therefore the first thread that enters
    the context sets the limit, and the last one that leaves it restores the former number.
    """

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None  # of threadpoolctl, while anybody is inside

    def __enter__(self):
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = _threadpools().limit(limits=1, user_api="blas")

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


_one_thread = _OneThread()


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # cached, because the search of the loaded libraries takes milliseconds
