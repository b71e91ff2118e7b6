"""Solve the problems of several fits together: each fit runs in its own thread, and their stacks are merged.

A GPU needs about the same time for 4 problems as for 400. Fits with the same stages (the splits and subjects of a
study) submit stacks of the same kind at the same time, and these are merged into one stack with several data sets. A
stack that several fits submit is solved once; for example, the first stage of the adaptive norm is the GSVM-2 problem.
The result of a fit does not depend on the other fits.

Stacks are solved when every fit waits for one; then no further stack can come. Those of one kind are solved earlier
where they fill a device and no more of them seem to come, or all fits have begun: it would have nothing to do while
the host prepares the other fits, or continues with solutions.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from sklearn import config_context, get_config

from mixnorm.core.arrays import Array, device, namespace
from mixnorm.core.metric import join_metrics
from mixnorm.core.problem import Solution, Stack
from mixnorm.execution.solve import COLLECTOR, SolverOptions, solve_directly, to_device
from mixnorm.execution.turns import Turns, short_switch_interval

#: So many problems of one kind fill a device: more at once take it proportionally longer.
_FULL = 256
#: No more stacks of a kind are expected where so many of other kinds came after the last: the six grids of a fit that
#: chooses q come in turn.
_OTHERS = 8
#: The arrays of a solution, all with the data sets as their first axis.
_PARTS = [part.name for part in fields(Solution)]
#: Solutions are kept for fits that submit the same stack later, up to so many bytes.
_MOST_KEPT = 512 * 1024**2


@dataclass(eq=False)
class _Request:
    """A stack of NumPy arrays (B = 1) that a fit submitted, with its alphas and options, and later its solutions.

    ``trials``: the array of trials of this fit itself; that of the stack is the first one with the same content.
    ``same``: later requests with the same content, which get the same solutions. ``key``: kind and content when it was
    submitted.
    """

    stack: Stack
    trials: np.ndarray
    alphas: np.ndarray
    similarities: np.ndarray | None
    options: SolverOptions
    solutions: list[Solution] = field(default_factory=list)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    same: list["_Request"] = field(default_factory=list)
    key: tuple = ()

    @cached_property
    def kind(self) -> tuple:
        """A key that is equal for requests that can be merged into one stack.

        Their numbers of trials may differ by a factor of up to √2, because the shorter ones are padded.
        """
        stack = self.stack
        _, T, n, d, K = stack.shape
        shared = (T, d, K, len(self.alphas), int(2 * np.log2(n)), stack.fit_intercept, self.similarities is None)
        penalty = (type(stack.penalty).__name__, getattr(stack.penalty, "q", None), stack.groups.index.tobytes())
        terms = (stack.center is None, stack.ridge is None, None if stack.metric is None else stack.metric.kind())
        return (*shared, *terms, *penalty, self.options, type(stack.loss).__name__)

    @cached_property
    def content(self) -> tuple:
        """A key that is equal for requests of one kind with the same problems.

        The trials are compared by their address, because `_KnownTrials` replaces equal trials by the same array, and
        by their `_fingerprint`: the array may have been filled with other trials since.
        """
        stack = self.stack
        own = [stack.y, stack.sample_weight, stack.group_weights, stack.similarity, stack.center, stack.ridge]
        parts = [*own, self.alphas, self.similarities]
        parts += [] if stack.metric is None else stack.metric.arrays()
        digest = blake2b(digest_size=32)
        for part in parts:
            digest.update(b"none" if part is None else repr(part.shape).encode() + part.tobytes())
        return _address(stack.X), self.fingerprint, digest.digest()

    @cached_property
    def fingerprint(self) -> bytes:
        """That of the trials when they were submitted."""
        return _fingerprint(self.trials)

    def use_unchanged_trials(self) -> None:
        """Return to the trials of this fit itself, if the fit whose array is used has filled it with others since."""
        if self.stack.X is not self.trials and _fingerprint(self.stack.X) != self.fingerprint:
            self.stack = replace(self.stack, X=self.trials)
            self.__dict__.pop("content", None)


class _KnownTrials:
    """The arrays of trials seen so far; of arrays with equal content only the first is kept and used."""

    def __init__(self):
        self._alike: dict[tuple, list[np.ndarray]] = {}
        self._lock = threading.Lock()

    def first_like(self, X: np.ndarray) -> np.ndarray:
        """Return the first array with the content of X.

        The array is kept in memory, so that no other array can get the same address.
        """
        with self._lock:
            # A few values tell arrays apart quickly; only candidates with equal samples are compared as a whole.
            known = self._alike.setdefault((X.shape, _sample_of(X)), [])
            for other in known:
                if _address(other) == _address(X) or np.array_equal(other, X):
                    return other
            known.append(X)
            return X


class _Answers:
    """The solutions of earlier stacks, for fits that submit the same stack later; nothing is kept beyond a limit."""

    def __init__(self):
        self._solutions: dict[tuple, list[Solution]] = {}
        self._room = _MOST_KEPT

    def get(self, request: _Request) -> list[Solution] | None:
        """Return the solutions of a stack, if they were kept."""
        return self._solutions.get((request.kind, request.content))

    def keep(self, request: _Request, solutions: list[Solution]) -> None:
        """Keep the solutions of a stack, if there is room."""
        size = len(solutions) * sum(getattr(solutions[0], name).nbytes for name in _PARTS)
        if size <= self._room:
            self._room -= size
            self._solutions[request.kind, request.content] = solutions


class _Batcher:
    """Collects the stacks of several fits, and solves those of one kind together."""

    def __init__(self, n_fits: int):
        self._change = threading.Condition()
        #: the fits that have not ended, and those of them that have not submitted a stack
        self._fitting = self._beginning = n_fits
        self._waiting: list[_Request] = []
        self._being_solved: list[_Request] = []
        self._ready: list[list[_Request]] = []
        self._closed: BaseException | None = None
        #: the requests that wait or are being solved, by their content
        self._unsolved: dict[tuple, _Request] = {}
        #: the number of stacks submitted so far, and how many there were after the last new one of each kind
        self._submitted = 0
        self._last_of: dict[tuple, int] = {}
        #: the number of fits that wait, and of problems of each kind; both are asked for after every stack
        self._n_waiting = 0
        self._n_problems: Counter[tuple] = Counter()
        self._answers = _Answers()
        # Mostly one fit runs at a time: threads that compete for the interpreter slow down each other and the device.
        self.running = Turns()
        self._known = _KnownTrials()
        self._trials: tuple[tuple, Stack] | None = None

    def submit(
        self, stack: Stack, alphas: np.ndarray, similarities: np.ndarray | None, options: SolverOptions
    ) -> list[Solution]:
        """Submit a stack and wait until it is solved; called by a fit, in its thread."""
        request = _Request(replace(stack, X=self._known.first_like(stack.X)), stack.X, alphas, similarities, options)
        request.content  # noqa: B018  computed before the lock is taken: it takes longer than all that follows
        with self._change:
            if self._closed is not None:
                raise self._closed
            self._note_begun()
            known = self._answers.get(request)
            if known is None:
                self._add(request)
            self._change.notify()
        if known is not None:
            return known
        # While this fit waits, another one may run up to its own stack.
        self.running.end()
        self.running.set_bytes(stack.X.nbytes)
        request.done.wait()
        self.running.begin()
        if request.error is not None:
            raise request.error
        return request.solutions

    def _add(self, request: _Request) -> None:
        """Let a request wait, by itself or with another one of the same content that is not solved yet."""
        self._submitted += 1
        self._n_waiting += 1
        request.key = request.kind, request.content
        first = self._unsolved.setdefault(request.key, request)
        if first is not request:
            first.same.append(request)
            return
        _, T, _, _, K = request.stack.shape
        self._waiting.append(request)
        self._n_problems[request.kind] += T * K
        self._last_of[request.kind] = self._submitted

    def split_fit(self, number: int) -> None:
        """Count one fit as ``number`` fits from now on."""
        with self._change:
            self._fitting += number - 1
            self._note_begun()
            self._beginning += number

    def end_fit(self, is_continued: bool = False) -> None:
        """Count one fit less, unless another one continues in its place; called in the thread of the fit."""
        with self._change:
            self._fitting -= not is_continued
            self._note_begun()
            self._change.notify()

    def _note_begun(self) -> None:
        """Note once that the fit of this thread has submitted a stack, or will submit none."""
        if self.running.is_beginning:
            self.running.is_beginning = False
            self._beginning -= 1

    def run(self) -> None:
        """Solve the submitted stacks until all fits have ended; called by the thread that uses the device."""
        while self._ready or self._wait():
            self._being_solved = self._ready.pop(0)
            self._solve(self._being_solved)
            with self._change:
                for request in self._being_solved:  # these fits continue while the device is busy with the next kind
                    self._end(request)

    def _end(self, request: _Request) -> None:
        """Let the fits of a request continue, all with its solutions or its error."""
        self._n_waiting -= 1 + len(request.same)
        for one in (request, *request.same):
            one.solutions, one.error = request.solutions, request.error
            one.done.set()
        del self._unsolved[request.key]  # last, so that `close` finds all fits that still wait

    def _wait(self) -> bool:
        """Wait until stacks can be solved, and make them ready, those of one kind together; False: all fits ended."""
        with self._change:
            # If every fit that still runs waits for a stack, no further stack can come: what is there is all that can
            # be merged.
            self._change.wait_for(lambda: self._n_waiting == self._fitting or self._complete() is not None)
            complete = None if self._n_waiting == self._fitting else self._complete()
            by_kind: dict[tuple, list[_Request]] = {}
            for request in self._waiting:
                by_kind.setdefault(request.kind, []).append(request)
            self._ready = [alike for kind, alike in by_kind.items() if complete in (None, kind)]
            self._waiting = [request for request in self._waiting if complete not in (None, request.kind)]
            for alike in self._ready:
                del self._n_problems[alike[0].kind]
            return bool(self._ready)

    def _complete(self) -> tuple | None:
        """Return a kind whose stacks fill a device, and of which no more seem to come; None: there is none.

        When all fits have submitted a stack, the first kind that fills a device is returned at once: what the host
        still computes then, such as scores, needs solutions.
        """
        full = (kind for kind, number in self._n_problems.items() if number >= _FULL)
        patience = _OTHERS if self._beginning else 0
        return next((kind for kind in full if self._submitted - self._last_of[kind] >= patience), None)

    def close(self, error: BaseException) -> None:
        """Raise an error in all fits: in those that wait now, and in those that submit a stack later."""
        with self._change:
            self._closed = error
            # Otherwise the threads of the fits would wait forever, and the process would not end after Ctrl-C.
            for request in list(self._unsolved.values()):
                request.error = error
                self._end(request)

    def _solve(self, requests: list[_Request]) -> None:
        """Solve requests of one kind as one stack, and give every request its part of the solutions."""
        for request in requests:
            request.use_unchanged_trials()
        # Sorted by the address of the trials, so that trials which the kind before left on the device are reused.
        requests = sorted(requests, key=lambda request: request.content[0])
        try:
            stack = self._merged(requests)
            grids = [[getattr(request, name) for request in requests] for name in ("alphas", "similarities")]
            alphas, similarities = (None if grid[0] is None else np.concatenate(grid, axis=1) for grid in grids)
            solutions = solve_directly(stack, alphas, similarities, requests[0].options)
        except Exception as error:
            for request in requests:
                request.error = error
            return
        in_parts = [[getattr(solution, name) for name in _PARTS] for solution in solutions]
        for i, request in enumerate(requests):
            request.solutions = [Solution(*(part[i : i + 1] for part in parts)) for parts in in_parts]
            self._answers.keep(request, request.solutions)

    def _merged(self, requests: list[_Request]) -> Stack:
        """Merge several stacks into one; the trials merged last are still on the device and are reused if equal."""
        stacks = [request.stack for request in requests]
        # The address alone is not enough: an array may be filled with other trials.
        key = tuple((_address(one.stack.X), one.fingerprint, one.stack.y.tobytes()) for one in requests)
        if self._trials is None or self._trials[0] != key:
            self._trials = key, _merge(stacks)
        merged = self._trials[1]
        same = replace(stacks[0], X=merged.X, y=merged.y)
        return replace(same, **_merge_problems(stacks, merged.X.shape[2]))


def together(tasks: Sequence[Callable[[], Any]]) -> list:
    """Run tasks of one or more fits each, solve their stacks together, and return the results of all tasks.

    Inside a task, `together` may be called again for the parts of a fit.
    """
    batcher = COLLECTOR.get()
    if not tasks:
        return []
    if isinstance(batcher, _Batcher):
        return _parts(batcher, tasks)
    batcher = _Batcher(len(tasks))
    with short_switch_interval:
        return _run(tasks, batcher, batcher.end_fit, batcher.run)


def _parts(batcher: _Batcher, tasks: Sequence[Callable[[], Any]]) -> list:
    """Return the results of the tasks of one fit; after the last task the fit itself continues."""
    left, lock = [len(tasks)], threading.Lock()

    def end_task() -> None:
        with lock:
            left[0] -= 1
            is_last = not left[0]
        batcher.end_fit(is_continued=is_last)

    # The fit itself waits for its parts and submits nothing, so that the parts are counted in its place.
    batcher.split_fit(len(tasks))
    batcher.running.end()
    try:
        return _run(tasks, batcher, end_task, lambda: None)
    finally:
        batcher.running.begin()


def _run(tasks: Sequence, batcher: _Batcher, end_task: Callable[[], None], meanwhile: Callable[[], None]) -> list:
    """Run every task in its own thread, call ``meanwhile`` in this thread, and return the results of the tasks."""
    results: list = [None] * len(tasks)
    errors: list[BaseException] = []
    config = get_config()  # scikit-learn keeps its settings per thread

    def run(place: int) -> None:
        COLLECTOR.set(batcher)
        batcher.running.begin()
        try:
            with config_context(**config):
                results[place] = tasks[place]()
        except BaseException as error:
            errors.append(error)
        batcher.running.end()
        end_task()

    # Each thread gets a copy of the context of the caller, and so uses the same device.
    threads = [threading.Thread(target=copy_context().run, args=(run, i), daemon=True) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    except BaseException as error:  # Ctrl-C
        batcher.close(error)
        raise
    for thread in threads:
        thread.join()
    # The first error of any fit ends all, as it would if the fits ran one after another.
    if errors:
        raise errors[0]
    return results


def _merge(stacks: list[Stack]) -> Stack:
    """Merge several stacks into one, on the device; those with fewer trials are padded with trials of weight zero."""
    n = max(stack.shape[2] for stack in stacks)

    def filled(name: str, fill: float) -> Array:
        # One after the other into an array on the device: a copy of all of them on the host would take longer than
        # their transfer.
        parts = (to_device(getattr(stack, name)) for stack in stacks)
        first = next(parts)
        xp = namespace(first)
        out = xp.full(
            (len(stacks), first.shape[1], n, *first.shape[3:]), fill, dtype=first.dtype, device=device(first)
        )
        for i, part in enumerate(itertools.chain([first], parts)):
            out[i, :, : part.shape[2], ...] = part[0, ...]
        return out

    return replace(stacks[0], X=filled("X", 0.0), y=filled("y", 1.0), **_merge_problems(stacks, n))


def _merge_problems(stacks: list[Stack], n: int) -> dict[str, Any]:
    """Return the fields of a merged stack other than the trials X and y."""
    names = ["alpha", "group_weights", "similarity"]
    names += [name for name in ("center", "ridge") if getattr(stacks[0], name) is not None]  # of all, or of none
    joined: dict[str, Any] = {name: np.concatenate([getattr(stack, name) for stack in stacks]) for name in names}
    metrics = [stack.metric for stack in stacks if stack.metric is not None]  # of all, or of none: see `kind`
    if metrics:
        joined["metric"] = join_metrics(metrics)
    weights = np.zeros((len(stacks), stacks[0].shape[1], n, stacks[0].shape[4]))
    for i, stack in enumerate(stacks):
        weights[i, :, : stack.shape[2]] = stack.sample_weight[0]
    return {"sample_weight": weights, **joined}


def _fingerprint(X: np.ndarray) -> bytes:
    """Return the product of every trial with a fixed vector, by which trials that were changed are recognised."""
    return (X @ np.sin(np.arange(1.0, X.shape[-1] + 1))).tobytes()


def _sample_of(X: np.ndarray) -> bytes:
    """Return about 64 values of an array, by which different arrays can be distinguished quickly."""
    return X.reshape(-1)[:: max(1, X.size // 64)].tobytes()


def _address(array: np.ndarray) -> tuple:
    return array.__array_interface__["data"][0], array.shape, array.strides
