"""Solvers of stacks of problems. All give the same answers; they differ in what they need and how fast they are.

Each one has ``path(stack, alphas, tol, max_iter)``: solve every problem of a stack at a sequence of alphas (A, B, K),
each from the solution before, and return one `Solution` per step of the sequence.
"""

import contextlib
import functools
import threading

import numpy as np
from threadpoolctl import ThreadpoolController

from .._arrays import Array, is_numpy_array, like, namespace, to_numpy
from ..stack import Solution, Stack
from .fista import Fista
from .forward_backward import ForwardBackward
from .newton import Newton
from .stacked_newton import StackedNewton

__all__ = ["SOLVERS", "Fista", "ForwardBackward", "Newton", "StackedNewton", "few_threads", "solve_path"]

#: Numbers in X up to which one thread is fastest.
_SMALL = 2_000_000
SOLVERS = {"newton": Newton, "fista": Fista, "forward-backward": ForwardBackward}


def solve_path(
    stack: Stack, alphas: Array, *, similarities: Array | None = None, solver: str = "auto", tol: float, max_iter: int
) -> list[Solution]:
    """Solve a stack at every alpha of (A, B, K) arrays, in any order, and return the solutions in the order given.

    With ``similarities``, (A, B, K) as well, the path has two dimensions; of equal alphas the first is solved first.
    ``solver="auto"`` is Newton's method: one problem at a time for NumPy arrays, the whole stack at once elsewhere.
    """
    solver = "newton" if solver == "auto" else solver
    if solver not in SOLVERS:
        raise ValueError(
            f"Invalid value for the 'solver' parameter. Allowed values are 'auto', "
            f"{', '.join(map(repr, SOLVERS))}, but got {solver!r} instead."
        )
    # Warm starts go from sparse to dense: from the largest alpha down.
    order = np.argsort(-to_numpy(alphas).max(axis=(1, 2)), kind="stable")
    xp = namespace(alphas)
    order = like(alphas, order, dtype=xp.int64)
    ordered = xp.take(alphas, order, axis=0)
    more = {} if similarities is None else {"similarities": xp.take(similarities, order, axis=0)}
    chosen = SOLVERS[solver]
    if chosen is Newton and not is_numpy_array(stack.X):
        chosen = StackedNewton
    with few_threads(stack):
        solutions = chosen().path(stack, ordered, tol, max_iter, **more)
    return [solutions[place] for place in np.argsort(to_numpy(order))]


def few_threads(stack: Stack):
    """Keep BLAS to one thread where the matrices are small: there, threads cost more time than they save."""
    if not is_numpy_array(stack.X) or stack.X.size > _SMALL:
        return contextlib.nullcontext()
    return _one_thread


class _OneThread:
    """BLAS on one thread while anybody is inside; the first one in sets the limit, the last one out takes it back.

    The limit is the whole process's, and fits may run in several threads.
    """

    def __init__(self):
        self._lock, self._inside, self._limit = threading.Lock(), 0, None

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
