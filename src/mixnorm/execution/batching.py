"""Solve the problems of several fits together: each fit runs in its own thread, and their stacks are merged.

A GPU needs about the same time for 4 problems as for 400. Fits with the same stages (the splits and subjects of a
study) submit stacks of the same kind at the same time, and these are merged into one stack: those of the same trials
side by side, the others as further data sets. On a device, norms of several orders 1 < q < 2 are of one kind. A stack
that several fits submit is solved once; for example, the first stage of the adaptive norm is the GSVM-2 problem. The
result of a fit does not depend on the other fits.

Stacks are solved when every fit waits for one; then no further stack can come. Those of one kind are solved earlier
where they fill a device and no more of them seem to come, or all fits have begun: it would have nothing to do while
the host prepares the other fits, or continues with solutions.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from sklearn import config_context, get_config

from mixnorm.core.arrays import Array
from mixnorm.core.problem import Solution, Stack
from mixnorm.execution.merging import merge_problems, merge_trials
from mixnorm.execution.requests import (
    SOLUTION_PARTS,
    Answers,
    KnownTrials,
    Request,
    Waiter,
    even_rows,
    fingerprint_of,
    in_parts,
    merge_grids,
)
from mixnorm.execution.solve import COLLECTOR, Job, SolverOptions, solve_directly
from mixnorm.execution.turns import Turns, short_switch_interval

#: So many problems of one kind fill a device: more at once take it proportionally longer.
_FULL = 256
#: No more stacks of a kind are expected where so many of other kinds came after the last: the six grids of a fit that
#: chooses q come in turn.
_OTHERS = 8


class _Batcher:
    """Collects the stacks of several fits, and solves those of one kind together."""

    def __init__(self, n_fits: int):
        self._change = threading.Condition()
        #: the fits that have not ended, and those of them that have not submitted a stack
        self._fitting = self._beginning = n_fits
        self._waiting: list[Request] = []
        self._being_solved: list[Request] = []
        self._ready: list[list[Request]] = []
        self._closed: BaseException | None = None
        #: the requests that wait or are being solved, by their content
        self._unsolved: dict[tuple, Request] = {}
        #: the number of stacks submitted so far, and how many there were after the last new one of each kind
        self._submitted = 0
        self._last_of: dict[tuple, int] = {}
        #: the number of fits that wait, and of requests and problems of each kind that wait; all of them are asked for
        #: after every stack
        self._n_waiting = 0
        self._n_requests: Counter[tuple] = Counter()
        self._n_problems: Counter[tuple] = Counter()
        self._answers = Answers()
        # Mostly one fit runs at a time: threads that compete for the interpreter slow down each other and the device.
        self.running = Turns()
        self._known = KnownTrials()
        self._trials: tuple[tuple, tuple[Array, Array]] | None = None

    def submit(self, jobs: Sequence[Job], options: SolverOptions) -> list[list[Solution]]:
        """Submit stacks and wait until all of them are solved; called by a fit, in its thread."""
        trials = {id(job.stack.X): job.stack.X for job in jobs}  # mostly one array for all
        fingerprints = {key: fingerprint_of(X) for key, X in trials.items()}
        requests = [self._request(job, options, fingerprints[id(job.stack.X)]) for job in jobs]
        with self._change:
            if self._closed is not None:
                raise self._closed
            self._note_begun()
            known = [self._answers.get(request) for request in requests]
            new = [request for request, found in zip(requests, known, strict=True) if found is None]
            waiter = Waiter(len(new))
            self._n_waiting += bool(new)
            for request in new:
                request.waiter = waiter
                self._add(request)
            self._change.notify()
        if new:
            # While this fit waits, another one may run up to its own stacks.
            self.running.end()
            self.running.set_bytes(jobs[0].stack.X.nbytes)
            waiter.done.wait()
            self.running.begin()
        for request in new:
            if request.error is not None:
                raise request.error
        return [request.solutions if found is None else found for request, found in zip(requests, known, strict=True)]

    def _request(self, job: Job, options: SolverOptions, fingerprint: bytes) -> Request:
        stack = replace(job.stack, X=self._known.first_like(job.stack.X))
        request = Request(stack, job.stack.X, job.alphas, job.similarities, options)
        vars(request)["fingerprint"] = fingerprint
        request.content  # noqa: B018  computed before the lock is taken: it takes longer than all that follows
        return request

    def _add(self, request: Request) -> None:
        """Let a request wait, by itself or with another one of the same content that is not solved yet."""
        self._submitted += 1
        request.key = request.kind, request.content
        first = self._unsolved.setdefault(request.key, request)
        if first is request or request.kind in self._n_problems:  # not where it is being solved already
            self._n_requests[request.kind] += 1
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
                for request in self._being_solved:  # these fits continue while the device is busy with others
                    self._end(request)

    def _end(self, request: Request) -> None:
        """Let the fits of a request continue that wait for no other one, all with its solutions or its error."""
        for one in (request, *request.same):
            one.solutions, one.error = request.solutions, request.error
            one.waiter.left -= 1
            if not one.waiter.left:
                self._n_waiting -= 1
                one.waiter.done.set()
        del self._unsolved[request.key]  # last, so that `close` finds all fits that still wait

    def _wait(self) -> bool:
        """Wait until stacks can be solved, and make them ready, those of one kind together; False: all fits ended."""
        with self._change:
            # If every fit that still runs waits for a stack, no further stack can come: what is there is all that can
            # be merged.
            self._change.wait_for(lambda: self._n_waiting == self._fitting or self._complete() is not None)
            complete = None if self._n_waiting == self._fitting else self._complete()
            by_kind: dict[tuple, list[Request]] = {}
            for request in self._waiting:
                by_kind.setdefault(request.kind, []).append(request)
            kinds = [complete] if complete is not None else sorted(by_kind, key=self._rank)
            self._ready = [part for kind in kinds for part in in_parts(by_kind[kind])]
            self._waiting = [request for request in self._waiting if complete not in (None, request.kind)]
            for kind in kinds:
                del self._n_problems[kind], self._n_requests[kind]
            return bool(self._ready)

    def _complete(self) -> tuple | None:
        """Return a kind whose stacks fill a device, and of which no more seem to come; None: there is none.

        When all fits have submitted a stack, a kind that fills a device is returned at once: what the host still
        computes then, such as scores, needs solutions.
        """
        patience = _OTHERS if self._beginning else 0
        full = (
            kind
            for kind, number in self._n_problems.items()
            if number >= _FULL and self._submitted - self._last_of[kind] >= patience
        )
        return min(full, key=self._rank, default=None)

    def _rank(self, kind: tuple) -> float:
        """Sort key of the kinds: first the one with the most requests, equal ones too, in relation to its problems.

        Then the host has the most to do while the device solves the others.
        """
        return -self._n_requests[kind] / self._n_problems[kind]

    def close(self, error: BaseException) -> None:
        """Raise an error in all fits: in those that wait now, and in those that submit a stack later."""
        with self._change:
            self._closed = error
            # Otherwise the threads of the fits would wait forever, and the process would not end after Ctrl-C.
            for request in list(self._unsolved.values()):
                request.error = error
                self._end(request)
                for one in (request, *request.same):  # also where `_end` was interrupted
                    one.waiter.done.set()

    def _solve(self, requests: list[Request]) -> None:
        """Solve requests of one kind as one stack, and give every request its part of the solutions."""
        for request in requests:
            request.use_unchanged_trials()
        rows = even_rows(requests)
        try:
            stack = self._merged(rows)
            alphas, similarities = (merge_grids(rows, name) for name in ("alphas", "similarities"))
            solutions = solve_directly(stack, alphas, similarities, requests[0].options)
        except Exception as error:
            for request in requests:
                request.error = error
            return
        arrays = [[getattr(solution, name) for name in SOLUTION_PARTS] for solution in solutions]
        K = requests[0].stack.shape[-1]
        for i, row in enumerate(rows):
            for j, request in enumerate(row):
                own = slice(i, i + 1), ..., slice(j * K, (j + 1) * K)
                request.solutions = [Solution(*(part[own] for part in parts)) for parts in arrays]
                self._answers.keep(request, request.solutions)

    def _merged(self, rows: list[list[Request]]) -> Stack:
        """Merge several stacks into one; the trials merged last are still on the device and are reused if equal."""
        stacks = [[request.stack for request in row] for row in rows]
        key = tuple(row[0].data_set for row in rows)
        if self._trials is None or self._trials[0] != key:
            self._trials = key, merge_trials([row[0] for row in stacks])
        X, y = self._trials[1]
        return replace(stacks[0][0], X=X, y=y, **merge_problems(stacks, X.shape[2]))


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
