"""Many fits at once: each runs in a thread of its own, and what they want solved goes to the device as one stack.

A GPU is no faster at 4 problems than at 400. Fits that go through the same stages (the splits and subjects of a study)
ask for stacks of the same kind at the same time; these become the data sets of one stack. No fit knows of the others.
"""

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ._device import solve_where_asked
from .stack import Solution, Stack

_ROOM: ContextVar["_WaitingRoom | None"] = ContextVar("waiting_room", default=None)


@dataclass(eq=False)
class _Request:
    """One fit's stack of NumPy arrays, B = 1, and what is to be done with it; later what came of it."""

    stack: Stack
    alphas: np.ndarray
    similarities: np.ndarray | None
    options: dict
    solutions: list[Solution] | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def kind(self) -> tuple:
        """What requests must share in order to become one stack; of unequal numbers of trials, similar ones."""
        stack = self.stack
        _, T, n, d, K = stack.shape
        shared = (T, d, K, len(self.alphas), int(2 * np.log2(n)), stack.fit_intercept, self.similarities is None)
        penalty = (type(stack.penalty).__name__, getattr(stack.penalty, "q", None), stack.groups.index.tobytes())
        shared = (*shared, stack.center is None)
        return (*shared, *penalty, tuple(sorted(self.options.items())), type(stack.loss).__name__)


class _WaitingRoom:
    """Where fits wait until all others wait too; then everything is solved."""

    def __init__(self, n_fits: int):
        self._change = threading.Condition()
        self._fitting, self._waiting = n_fits, []

    def ask(self, request: _Request) -> list[Solution]:
        """Wait for a request to be solved; called by a fit, in its thread."""
        with self._change:
            self._waiting.append(request)
            self._change.notify()
        request.done.wait()
        if request.error is not None:
            raise request.error
        return request.solutions

    def leave(self) -> None:
        """Say that a fit is over."""
        with self._change:
            self._fitting -= 1
            self._change.notify()

    def serve(self) -> None:
        """Solve what is asked for until all fits are over; called by the thread that owns the device."""
        while True:
            with self._change:
                self._change.wait_for(lambda: len(self._waiting) == self._fitting)
                if not self._fitting:
                    return
                requests, self._waiting = self._waiting, []
            by_kind: dict[tuple, list[_Request]] = {}
            for request in requests:
                by_kind.setdefault(request.kind(), []).append(request)
            for alike in by_kind.values():
                _solve_alike(alike)
            for request in requests:  # only now: a fit that went on early would ask again, and be served alone
                request.done.set()


def together(tasks: Sequence[Callable[[], Any]]) -> list:
    """Return the results of all tasks, each a fit or more, whose stacks are solved together."""
    room = _WaitingRoom(len(tasks))
    results: list = [None] * len(tasks)
    errors: list[BaseException] = []

    def run(place: int) -> None:
        _ROOM.set(room)
        try:
            results[place] = tasks[place]()
        except BaseException as error:
            errors.append(error)
        finally:
            room.leave()

    # a context of its own for each: settings (of scikit-learn, of the device) are those of the caller
    threads = [threading.Thread(target=copy_context().run, args=(run, i), daemon=True) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    room.serve()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def solve(stack: Stack, alphas: np.ndarray, similarities: np.ndarray | None, options: dict) -> list[Solution]:
    """Solve a stack of NumPy arrays where asked, with those of other fits if this is one of several."""
    room = _ROOM.get()
    if room is None or stack.shape[0] > 1:
        return solve_where_asked(stack, alphas, similarities, options)
    return room.ask(_Request(stack, alphas, similarities, options))


def _solve_alike(requests: list[_Request]) -> None:
    """Solve requests of one kind as one stack, and hand every one its part."""
    try:
        stack = _merge([request.stack for request in requests])
        grids = [
            None if getattr(requests[0], name) is None else np.concatenate([getattr(r, name) for r in requests], axis=1)
            for name in ("alphas", "similarities")
        ]
        solutions = solve_where_asked(stack, *grids, requests[0].options)
    except BaseException as error:
        for request in requests:
            request.error = error
        return
    for i, request in enumerate(requests):
        request.solutions = [Solution(*(getattr(s, f.name)[i : i + 1] for f in fields(s))) for s in solutions]


def _merge(stacks: list[Stack]) -> Stack:
    """Return one stack of several, those with fewer trials filled up with trials of weight zero."""
    if len(stacks) == 1:
        return stacks[0]
    n = max(stack.shape[2] for stack in stacks)

    def filled(name: str, fill: float) -> np.ndarray:
        first = getattr(stacks[0], name)
        out = np.full((len(stacks), first.shape[1], n, *first.shape[3:]), fill)
        for i, stack in enumerate(stacks):
            out[i, :, : stack.shape[2]] = getattr(stack, name)[0]
        return out

    others = ["alpha", "group_weights", "similarity"] + (["center"] if stacks[0].center is not None else [])
    joined = {name: np.concatenate([getattr(stack, name) for stack in stacks]) for name in others}
    padded = {name: filled(name, fill) for name, fill in (("X", 0.0), ("y", 1.0), ("sample_weight", 0.0))}
    return replace(stacks[0], **padded, **joined)
