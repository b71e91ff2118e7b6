"""`solve`: the function by which all estimators call a solver, and the settings that apply to the call.

These are the device in use (`mixnorm.execution.device` sets it), what collects the stacks of several fits
(`mixnorm.execution.batching`), and the number of BLAS threads. A fit on the host by itself needs no other module of
this folder.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from mixnorm.core.arrays import Array, is_numpy_array, like, namespace, to_numpy
from mixnorm.core.conditioning import condition
from mixnorm.core.penalties import GroupNorms
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers import SOLVERS, Newton, StackedNewton, WindowsNewton

#: Function that copies a NumPy array to the device in use; None: the host. A thread that has not entered a context
#: itself, such as a worker of a thread pool, uses the latest context of the process.
SEND: ContextVar[Callable | None] = ContextVar("send")
LATEST: list[Callable | None] = [None]
#: Largest number of values in X for which one BLAS thread is fastest.
_SMALL = 2_000_000
#: The arrays of a stack that are copied to a device.
_ARRAYS = ("X", "y", "sample_weight", "alpha", "group_weights", "similarity", "center", "ridge")


@dataclass(frozen=True)
class SolverOptions:
    """The solver and its settings.

    Attributes
    ----------
    solver : {"auto", "newton", "fista", "forward-backward"}
        "auto" is Newton's method: one problem at a time for NumPy arrays, the whole stack at once on a device.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Largest number of iterations for one alpha.
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000

    def __post_init__(self):
        if self.solver != "auto" and self.solver not in SOLVERS:
            raise ValueError(
                f"Invalid value for the 'solver' parameter. Allowed values are 'auto', "
                f"{', '.join(map(repr, SOLVERS))}, but got {self.solver!r} instead."
            )
        # a gap of exactly 0 cannot be reached in floating point
        if not (isinstance(self.tol, float | int | np.number) and self.tol > 0):
            raise ValueError(
                f"Invalid value for the 'tol' parameter. Allowed are values > 0, but got {self.tol!r} instead."
            )
        if not (isinstance(self.max_iter, int | np.integer) and self.max_iter >= 1):
            raise ValueError(
                "Invalid value for the 'max_iter' parameter. "
                f"Allowed are whole numbers from 1, but got {self.max_iter!r} instead."
            )

    @classmethod
    def of(cls, estimator: Any) -> "SolverOptions":
        """Return the options that an estimator's parameters describe."""
        return cls(estimator.solver, estimator.tol, estimator.max_iter)


class Job(NamedTuple):
    """A stack to be solved at alphas (A, B, K), and at similarities of that shape if there are any."""

    stack: Stack
    alphas: np.ndarray
    similarities: np.ndarray | None = None


class Collector(Protocol):
    """Collects the stacks of several fits and solves them together (`mixnorm.execution.batching`)."""

    def submit(self, jobs: Sequence[Job], options: SolverOptions) -> list[list[Solution]]:
        """Return the solutions of some stacks, once all of them are there."""


#: What collects the stacks of the fit that runs in this context; None: each stack is solved as soon as it comes.
COLLECTOR: ContextVar[Collector | None] = ContextVar("collector", default=None)


def solve(
    stack: Stack,
    alphas: np.ndarray,
    options: SolverOptions,
    similarities: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> list[Solution]:
    """Solve every problem of a stack at a sequence of alphas.

    Inside `use_device` the stack is solved on the device; inside `together` it is solved with the stacks of the other
    fits; otherwise it is solved on the host, with the columns of the stack in ``n_jobs`` parallel jobs.

    Parameters
    ----------
    stack : Stack
        NumPy arrays.
    alphas : ndarray of shape (A, B, K)
        In any order.
    options : SolverOptions
    similarities : ndarray of shape (A, B, K), optional
        One for every alpha; by default those of the stack.
    n_jobs : int, optional
        As in joblib.

    Returns
    -------
    list of A Solution
        In the order of the alphas.
    """
    collector = COLLECTOR.get()
    if collector is not None and _can_be_collected(stack):
        return collector.submit([Job(stack, alphas, similarities)], options)[0]
    # A device solves all columns together; parallel jobs would only compete for it.
    if on_device() or effective_n_jobs(n_jobs) == 1:
        return solve_directly(stack, alphas, similarities, options)
    return _in_parallel(stack, (alphas, similarities), options, n_jobs)


def solve_all(jobs: Sequence[Job], options: SolverOptions, n_jobs: int | None = None) -> list[list[Solution]]:
    """`solve` for several stacks: on a device all at once, on the host one after the other."""
    collector = COLLECTOR.get()
    if collector is not None and on_device() and all(_can_be_collected(job.stack) for job in jobs):
        return collector.submit(jobs, options)
    return together_on_device(
        [functools.partial(solve, job.stack, job.alphas, options, job.similarities, n_jobs) for job in jobs]
    )


def _can_be_collected(stack: Stack) -> bool:
    # Several data sets at once are stacked already, and crossed groups are solved on the host one by one.
    return stack.shape[0] == 1 and stack.penalty.is_separable


def _in_parallel(
    stack: Stack, grids: tuple[np.ndarray, np.ndarray | None], options: SolverOptions, n_jobs: int | None
) -> list[Solution]:
    """Solve the columns of a stack in parallel jobs, or its data sets if each has only one column."""
    B, K = stack.shape[0], stack.shape[-1]
    # With noise each fold is a data set of its own (K = 1), and the data sets are divided instead of the columns.
    by_column = K > 1 or B == 1
    cells = (
        [(np.arange(B), np.array([k])) for k in range(K)] if by_column else [(np.array([i]), [0]) for i in range(B)]
    )
    parts = Parallel(n_jobs=n_jobs)(
        delayed(solve_directly)(
            stack.take(rows, columns),
            *(None if grid is None else grid[:, rows][:, :, columns] for grid in grids),
            options,
        )
        for rows, columns in cells
    )
    return [Solution.join(pieces, axis=-1 if by_column else 0) for pieces in zip(*parts, strict=True)]


def solve_directly(stack: Stack, alphas: Array, similarities: Array | None, options: SolverOptions) -> list[Solution]:
    """Solve a stack at every alpha of an (A, B, K) array, on the device in use; NumPy arrays give NumPy arrays.

    ``similarities``, also (A, B, K), are the similarities that belong to the alphas; None: those of the stack.
    """
    if not on_device() or not stack.penalty.is_separable:  # penalties of crossed groups are for the host
        return _solve_in_order(stack, alphas, similarities, options)
    # The trials of a stack that was merged before are on the device already; `to_device` leaves them.
    there = replace(stack, **{name: to_device(getattr(stack, name)) for name in _ARRAYS})
    if stack.metric is not None:
        there = replace(there, metric=stack.metric.map(to_device))
    solutions = _solve_in_order(there, to_device(alphas), to_device(similarities), options)
    return [Solution(*(to_numpy(getattr(s, f.name)) for f in fields(s))) for s in solutions]


def _solve_in_order(stack: Stack, alphas: Array, similarities: Array | None, options: SolverOptions) -> list[Solution]:
    """Solve from the largest alpha down and return the solutions in the given order.

    From the largest alpha down, each starting point is sparse, which makes the solver fast. Equal alphas are solved in
    the given order. Features with a large offset or an extreme unit are centred and scaled first (`condition`), so
    that neither reduces the accuracy.
    """
    conditioned = condition(stack)
    stack, alphas = conditioned.stack, conditioned.alphas(alphas)
    similarities = conditioned.similarities(similarities)
    # Problems may have alphas of their own (B, K); the order of the path is one for all.
    order = np.argsort(-to_numpy(alphas).max(axis=(1, 2)), kind="stable")
    xp = namespace(alphas)
    there = like(alphas, order, dtype=xp.int64)
    grids = [None if grid is None else xp.take(grid, there, axis=0) for grid in (alphas, similarities)]
    solver = SOLVERS["newton" if options.solver == "auto" else options.solver]
    # "newton" is one method with three engines; the penalty and the kind of arrays decide which of them can solve a
    # stack.
    if solver is Newton and not stack.penalty.is_separable:
        solver = WindowsNewton
    elif solver is Newton and (not is_numpy_array(stack.X) or isinstance(stack.penalty, GroupNorms)):
        solver = StackedNewton
    with few_threads(stack.X):
        solutions = solver().path(stack, grids[0], options.tol, options.max_iter, similarities=grids[1])
    return [conditioned.restore(solutions[place]) for place in np.argsort(order)]


def current_sender() -> Callable | None:
    """Return the function that copies an array to the device in use; None on the host."""
    return SEND.get(LATEST[-1])


def on_device() -> bool:
    """Whether problems are solved on a device; there it is fastest to solve all columns of a stack together."""
    return current_sender() is not None


def to_device(values: np.ndarray | None):
    """Return a NumPy array as an array on the device in use; other arrays and None are returned unchanged."""
    send = current_sender()
    return values if send is None or not isinstance(values, np.ndarray) else send(values)


def together_on_device(tasks: Sequence[Callable[[], Any]]) -> list:
    """Return the results of tasks: on a device their stacks are solved together, on the host one after the other."""
    if not on_device() or len(tasks) < 2:
        return [task() for task in tasks]
    # here, because batching is built on this module
    from mixnorm.execution.batching import together

    return together(tasks)


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
