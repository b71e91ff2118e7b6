"""How many BLAS threads a stack of problems is solved with."""

import contextlib
import functools
import threading
from typing import Any

from threadpoolctl import ThreadpoolController

from mixnorm.core.arrays import Array, is_numpy_array

#: Numbers in X up to which one thread is fastest.
_SMALL = 2_000_000


def few_threads(X: Array) -> contextlib.AbstractContextManager:
    """Keep BLAS to one thread where the trials X are few: there, threads cost more time than they save."""
    if not is_numpy_array(X) or X.size > _SMALL:
        return contextlib.nullcontext()
    return _one_thread


class _OneThread:
    """BLAS on one thread while anybody is inside; the first one in sets the limit, the last one out takes it back.

    The limit is the whole process's, and fits may run in several threads.
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
    return ThreadpoolController()  # looking through the loaded libraries takes milliseconds
