"""The order in which the fits of `mixnorm.execution.batching` run on the host, each in its own thread."""

import sys
import threading
from collections import deque

#: Seconds after which a thread that computes lets another one use the interpreter. By default it is 5 ms, and the
#: thread of the device needs the interpreter a few times in every step of a solver, which takes as long.
SWITCH_INTERVAL = 5e-4
#: So many fits run at once if each has at least so many bytes of trials: they spend their time in NumPy, outside the
#: interpreter.
LARGE_FITS, LARGE_BYTES = 4, 4 * 1024**2


class Turns:
    """Lets one fit run at a time, or several large ones.

    Fits that begin come before those whose stacks are solved, so that the device soon has stacks to solve; otherwise
    they take turns in the order in which they ask for it.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._free = LARGE_FITS
        self._queues: tuple[deque, deque] = (deque(), deque())
        self._own = threading.local()

    def begin(self) -> None:
        """Wait for the turn of this thread."""
        turn = threading.Event()
        with self._lock:
            self._queues[0 if self.is_beginning else 1].append((self._size, turn))
            self._call_next()
        turn.wait()

    def end(self) -> None:
        """End the turn of this thread."""
        with self._lock:
            self._free += self._size
            self._call_next()

    @property
    def is_beginning(self) -> bool:
        """Whether the fit of this thread is still to submit its first stack."""
        return getattr(self._own, "is_beginning", True)

    @is_beginning.setter
    def is_beginning(self, value: bool) -> None:
        self._own.is_beginning = value

    def set_bytes(self, trials: int) -> None:
        """Tell between two turns how many bytes of trials the fit of this thread has."""
        self._own.size = 1 if trials >= LARGE_BYTES else LARGE_FITS

    @property
    def _size(self) -> int:
        """Of the turns of this thread, in units of those of a large fit."""
        return getattr(self._own, "size", LARGE_FITS)

    def _call_next(self) -> None:
        for queue in self._queues:
            while queue and queue[0][0] <= self._free:
                size, turn = queue.popleft()
                self._free -= size
                turn.set()
            if queue:  # no later one may overtake it
                return


class _ShortSwitchInterval:
    """Context in which the interpreter switches between threads after `SWITCH_INTERVAL` at the latest.

    The interval is that of the whole process. The first thread that enters the context sets it, and the last one that
    leaves it restores the former one.
    """

    def __init__(self):
        self._lock, self._inside, self._former = threading.Lock(), 0, 0.0

    def __enter__(self):
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._former = sys.getswitchinterval()
                sys.setswitchinterval(min(self._former, SWITCH_INTERVAL))

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._former)


short_switch_interval = _ShortSwitchInterval()
