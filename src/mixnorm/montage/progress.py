"""How far a selection is: its steps with their shares of the work, and the parts of a step that are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# A context variable, and not an argument through every function: the same calls may run in worker processes, where
# nobody listens.
_LISTENER: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


@dataclass(frozen=True)
class Progress:
    """How far a computation is.

    Attributes
    ----------
    step : str
        Name of the step that is running.
    number, n_steps : int
        This is step ``number`` of ``n_steps``; both are 0 while recordings are prepared, when the steps are not known.
    done : float
        Share of the whole work that is done, from 0 to 1.
    restored : float
        The part of ``done`` that was taken from a checkpoint and took no time.
    """

    step: str
    number: int
    n_steps: int
    done: float
    restored: float


@dataclass(frozen=True)
class Step:
    """One step of a plan: the number of its parts, and the work of each in any unit common to the plan."""

    parts: int
    work: float


class Tracker:
    """Follows a plan of steps and tells a listener how far it is.

    Parameters
    ----------
    plan : mapping of name to Step
        In the order in which the steps are taken. The work is an estimate: it decides only how evenly ``done`` grows.
    listener : callable
        Called with a `Progress` when a step starts and whenever a part, or a share of one, is finished.
    """

    def __init__(self, plan: Mapping[str, Step], listener: Callable[[Progress], None]) -> None:
        self._plan, self._listener = dict(plan), listener
        self._total = sum(step.parts * step.work for step in self._plan.values())
        self._names = list(self._plan)
        self._at = 0
        self._finished = self._share = 0.0
        self._restored = self._done = 0.0

    def start(self, name: str) -> None:
        """Say that a step of the plan begins; all steps before it are done."""
        self._at, self._finished, self._share = self._names.index(name), 0.0, 0.0
        self._tell()

    def finish_part(self, restored: bool = False) -> None:
        """Say that a part of the step is finished; ``restored``: taken from a checkpoint."""
        self._finished, self._share = self._finished + 1, 0.0
        if restored:
            self._restored += self._step.work
        self._tell()

    def finish_share(self, share: float) -> None:
        """Say that this share, from 0 to 1, of the part that is running is done."""
        self._share = share
        self._tell()

    @property
    def _step(self) -> Step:
        return self._plan[self._names[self._at]]

    def _tell(self) -> None:
        before = sum(self._plan[name].parts * self._plan[name].work for name in self._names[: self._at])
        # a step may turn out to have more parts than planned
        inside = min(self._finished + self._share, self._step.parts) * self._step.work
        # one call may do the work of several parts (on a device), and progress never goes back
        done = self._done = max(self._done, (before + inside) / self._total)
        restored = self._restored / self._total
        self._listener(Progress(self._names[self._at], self._at + 1, len(self._names), done, min(restored, done)))


@contextmanager
def heard_by(listener: Callable[[float], None]) -> Iterator[None]:
    """Let a function hear `report_share` of the calls made inside the block, in this process."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def report_share(share: float) -> None:
    """Say from inside a call which share of it, from 0 to 1, is done; without effect where nobody listens.

    A worker process has no listener: there progress is told by finished calls only.
    """
    listener = _LISTENER.get()
    if listener is not None:
        listener(share)
