"""Where the threads of a process are, sampled: a profile that counts all threads and hardly slows them down."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

#: Seconds between two samples.
INTERVAL = 0.005
_WAITING = ("threading.py", "queue.py", "selectors.py", "popen_fork.py")
#: Functions of `mixnorm.execution.batching` that wait for a lock.
_HELD = {"submit", "_parts"}


@contextlib.contextmanager
def sampled(title: str, seconds: float = float("inf"), rows: int = 45) -> Iterator[None]:
    """Print, for the functions of this package and for the innermost ones, in how many samples they were running.

    ``seconds``: only the beginning of the block is sampled.
    """
    inclusive: Counter = Counter()
    innermost: Counter = Counter()
    stop = threading.Event()
    begin = time.perf_counter()

    def sample() -> None:
        while not stop.wait(INTERVAL) and time.perf_counter() - begin < seconds:
            for thread, frame in sys._current_frames().items():
                file, line = frame.f_code.co_filename, frame.f_code.co_name
                if thread == threading.get_ident() or file.endswith(_WAITING) or line in _HELD:
                    continue
                _count(frame, inclusive, innermost)

    clock = threading.Thread(target=sample, daemon=True)
    clock.start()
    try:
        yield
    finally:
        stop.set()
        clock.join()
        _print(title, inclusive, innermost, rows)


def _count(frame, inclusive: Counter, innermost: Counter) -> None:
    seen, inner = set(), None
    while frame is not None:
        name = f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_code.co_name}"
        inner = inner or f"{name}:{frame.f_lineno}"
        if "mixnorm" in frame.f_code.co_filename:
            if inner and not inner.startswith(">"):
                inner = f"> {inner} < {name}:{frame.f_lineno}"
            seen.add(name)
        frame = frame.f_back
    inclusive.update(seen)
    if inner:
        innermost[inner] += 1


def _print(title: str, inclusive: Counter, innermost: Counter, rows: int) -> None:
    print(f"--- {title}: samples of {1e3 * INTERVAL:g} ms, functions of this package with what they call")
    for name, count in inclusive.most_common(rows):
        print(f"{count:7d}  {name}")
    print(f"--- {title}: innermost function, and the line of this package that called it")
    for name, count in innermost.most_common(rows):
        print(f"{count:7d}  {name}")
