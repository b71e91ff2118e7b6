"""Read a file in a process of its own, with a limit on time and memory.

SciPy and MNE are written for undamaged files. A damaged or hostile one can end the process (20,000 nested cells
overflow the stack inside SciPy), loop without end or take all memory. Such a file ends a worker process here, and the
user gets a `RecordingError`. The worker is started once and reads one file after another, so that a second file costs
nothing but the copy of its signal. Arrays come back through a pipe, as they lie in memory (see `wire`).

Where the system cannot limit memory (Windows; macOS knows the limit and ignores it) the limit on time and the separate
process remain.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixnorm.eeg.readers.options import ReadOptions
from mixnorm.eeg.readers.wire import WireError, receive, send
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError

#: Memory that any file may take, and multiples of its size: integers of two bytes, compressed to a third of it, become
#: floats of eight bytes, and while an array is turned round there are two of them.
BASE_BYTES = 512 * 2**20
BYTES_PER_BYTE = 32
#: Seconds of CPU time that any file may take, and per MiB. An undamaged file needs less than a tenth of it.
BASE_SECONDS = 30.0
SECONDS_PER_MIB = 2.0
#: Seconds of the clock per second of CPU time: a network drive may be slow, but not endless.
PATIENCE = 10.0
#: Seconds without a file after which the worker ends.
IDLE_SECONDS = 60.0

_PROBABLY = (
    "it is probably damaged: copy or export it again; if you are sure that it is whole, read it with isolate=False"
)

# `import mixnorm` brings scikit-learn, which takes longer than most files: the worker gets the packages without their
# `__init__`, and imports the modules that it needs.
_START = """
import json, sys, types
paths, packages, idle_seconds = json.loads(sys.argv[1])
sys.path[:] = paths
for name, folder in packages.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from mixnorm.eeg.readers.worker import serve
serve(idle_seconds)
"""


def read_isolated(
    path: Path, options: ReadOptions, modules: Sequence[str] = (), folders: Sequence[Path] = ()
) -> list[Recording | EpochedRecording]:
    """The recordings in one file, read by the worker.

    Parameters
    ----------
    path : path
    options : ReadOptions
    modules : sequence of str
        Libraries that the reader uses; they are imported before memory is limited.
    folders : sequence of path
        Folders whose files the reader may open, beside those in the folder of `path`.
    """
    limits = _limits(path, options)
    request = {
        "path": str(path),
        "cwd": os.getcwd(),
        "options": asdict(options) | {"isolate": False},
        "modules": list(modules),
        "folders": [str(folder) for folder in folders],
        **limits,
    }
    # one worker for all threads: two requests at once would mix their answers
    with _lock:
        answer = _ask(path, request, options.max_bytes)
    for category, text in answer["warnings"]:
        warnings.warn(text, RuntimeWarning if category == "RuntimeWarning" else UserWarning, stacklevel=2)
    # Without memory any error may come up, and its text says nothing of the reason.
    if "error" in answer and not answer["out_of_memory"]:
        raise RecordingError(*answer["error"])
    if "missing" in answer:
        raise ImportError(answer["missing"])
    if answer.get("out_of_memory"):
        raise RecordingError(
            path,
            f"reading it took more than {limits['bytes'] / 2**30:.2g} GiB of memory, too much for a file of its size",
            _PROBABLY,
        )
    if "failure" in answer:
        raise RecordingError(path, f"it cannot be read ({answer['failure']})", "check that the file is whole")
    return answer["recordings"]


def _limits(path: Path, options: ReadOptions) -> dict[str, float]:
    size = _size(path)
    # at most the signal that the user allows and copies of it, however large the file is
    most = 3 * options.max_bytes
    return {
        "bytes": int(BASE_BYTES + min(BYTES_PER_BYTE * size, most)),
        "seconds": BASE_SECONDS + SECONDS_PER_MIB * size / 2**20,
    }


def _size(path: Path) -> int:
    """Bytes of a file or folder and of the files beside it that belong to it, going by their names."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    with path.open("rb") as stream:
        # A header file (.vhdr, .set) names the file with the samples, which may have another stem.
        head = stream.read(2**16)

    def belongs(file: Path) -> bool:
        named = file.name.encode() in head or (path.suffix == ".set" and file.suffix == ".fdt")
        return file.name.startswith(path.name.split(".")[0]) or named

    beside = [file for file in path.parent.iterdir() if file.is_file() and belongs(file)]
    return max(path.stat().st_size, sum(file.stat().st_size for file in beside))


_lock = threading.RLock()
_worker: _Worker | None = None
# Processes of a parent that was forked: kept, so that they are not taken for processes that were forgotten.
_of_parents: list[_Worker | None] = []


class _Worker:
    """A running worker process."""

    def __init__(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise OSError("the path of the Python interpreter is not known")
        root = Path(__file__).parents[2]
        packages = {"mixnorm": str(root), "mixnorm.eeg": str(root / "eeg")}
        # "" is the folder of the parent, which may change
        paths = [os.path.abspath(path) for path in sys.path]
        # Each thread of BLAS reserves address space, which is what the limit on memory counts.
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps([paths, packages, IDLE_SECONDS])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **quiet},
            pipesize=2**20,
        )

    def ask(self, request: dict[str, Any], max_bytes: float) -> dict[str, Any]:
        """Send a request and wait for the answer; the process is killed when it takes too long."""
        self.late = False
        timer = threading.Timer(PATIENCE * request["seconds"], self._too_late)
        timer.daemon = True
        timer.start()
        try:
            send(self.process.stdin, request)
            return receive(self.process.stdout, max_bytes)
        finally:
            timer.cancel()

    def _too_late(self) -> None:
        self.late = True
        self.process.kill()

    def end(self) -> int:
        """End the process if it still runs; its exit status."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        self.process.kill()
        self.process.stdout.close()
        return self.process.wait()


def _ask(path: Path, request: dict[str, Any], max_bytes: float) -> dict[str, Any]:
    """The answer of the worker; a worker that ended because it had nothing to do is replaced."""
    global _worker
    # twice, because an idle worker may have ended just before the request
    for last in (False, True):
        if _worker is None:
            _worker = _started(path)
        worker = _worker
        try:
            # Positions, labels and events are small beside the signal, which has its own check.
            answer = worker.ask(request, 1.1 * max_bytes + 2**26)
            if answer.get("out_of_memory"):  # then it ends itself
                _end()
            return answer
        except (WireError, OSError):
            status = worker.end()
            _worker = None
            if status != 0 or last:
                raise _died(path, request, status, worker.late) from None
        except BaseException:
            # Ctrl+C in the middle of an answer: the rest of it must not be taken for the next one.
            worker.end()
            _worker = None
            raise
    raise AssertionError("unreachable")


def _started(path: Path) -> _Worker:
    try:
        return _Worker()
    except OSError as error:
        raise RecordingError(
            path,
            f"no process can be started to read it in ({error})",
            "for a file that you trust, isolate=False reads it in this process",
        ) from error


def _died(path: Path, request: dict[str, Any], status: int, late: bool) -> RecordingError:
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    # the signal of the limit on CPU time
    if late or name == "SIGXCPU":
        problem = f"reading it took longer than {request['seconds']:.0f} s, too long for a file of its size"
        return RecordingError(path, problem, _PROBABLY)
    problem = f"the library that reads such files crashed ({name})"
    return RecordingError(path, problem, "it is probably damaged: copy or export it again")


def _forget() -> None:
    """After a fork the worker belongs to the other process."""
    global _worker, _lock
    _of_parents.append(_worker)
    _worker, _lock = None, threading.RLock()


@atexit.register
def _end() -> None:
    global _worker
    if _worker is not None:
        _worker.end()
        _worker = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
