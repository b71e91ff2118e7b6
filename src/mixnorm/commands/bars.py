"""Progress bars on standard error.

Apart from `common`, because a command that takes long shows a bar while the other modules are imported.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tqdm import tqdm

from mixnorm.report.safe_text import for_terminal

if TYPE_CHECKING:
    from mixnorm.montage.progress import Progress

#: Seconds after which a progress bar is written again where standard error is a file.
LONGEST_SILENCE = 5.0
#: Seconds between two drawings of the same step.
SHORTEST_WAIT = 0.5


def progress(total: int | None, what: str) -> tqdm:
    """A progress bar on stderr."""
    return tqdm(total=total, desc=what, file=sys.stderr, leave=_stays())


def _stays() -> bool:
    """Whether a finished bar stays: in a file it ends its line, so that what follows does not stand beside it."""
    return not sys.stderr.isatty()


@contextmanager
def work_bar(what: str, seconds: float = 1.0) -> Iterator[tqdm]:
    """A progress bar on stderr for work of which only the share is known, with the time passed and the time left.

    It is drawn every ``seconds`` seconds, so that the time goes on also where a part takes long; less often where
    standard error is a file, in which the bar stays.
    """
    form = "{desc}: {percentage:3.0f} %|{bar}| {elapsed}, about {remaining} left"
    # smoothing=0: the time left follows from the mean speed, because the parts differ much in length
    with tqdm(total=1.0, desc=what, file=sys.stderr, leave=_stays(), bar_format=form, smoothing=0) as bar:
        stop = threading.Event()

        def redraw() -> None:
            # A log file keeps every line; a silent one looks like a program that hangs.
            while not stop.wait(seconds if sys.stderr.isatty() else LONGEST_SILENCE):
                bar.refresh()

        clock = threading.Thread(target=redraw, daemon=True)
        clock.start()
        try:
            yield bar
        finally:
            stop.set()
            clock.join()


def show_progress(bar: tqdm, now: Progress) -> None:
    """Bring a `work_bar` to the progress of a selection; what was restored does not count for the speed."""
    text = for_terminal(f"step {now.number} of {now.n_steps}, {now.step}" if now.number else now.step)
    is_new = text != bar.desc
    bar.set_description_str(text, refresh=False)
    # What was restored took no time: with it, the speed would be too high and the time left too short.
    bar.initial = now.restored
    bar.n = now.done
    # parts can be so short that drawing each of them would fill a log file
    if is_new or time.monotonic() - getattr(bar, "drawn_at", -math.inf) > SHORTEST_WAIT:
        bar.drawn_at = time.monotonic()
        bar.refresh()
