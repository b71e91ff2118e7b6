"""The process that reads files for another one: limits on memory and time, and no files but those of the recording.

It answers requests from standard input, one after another, and ends when the input does. `isolated` is the other side.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

try:
    import resource
except ImportError:  # pragma: no cover - Windows, where only the time is limited, by the other side
    resource = None  # type: ignore[assignment]

from mixnorm.eeg.readers import dispatch
from mixnorm.eeg.readers.options import ReadOptions
from mixnorm.eeg.readers.wire import receive, send
from mixnorm.eeg.recording import RecordingError

#: Exit status after memory ran out: nothing is known of the state of the libraries then.
OUT_OF_MEMORY = 77

# Reading a recording needs none of these; a file that leads a library to one of them is refused.
_NEVER = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "pickle.find_class"}
)
_CODE = (".py", ".pyc", ".so", ".pyd", ".dll", ".dylib")


def serve(idle_seconds: float) -> None:
    """Answer requests until there are no more, or none for so many seconds."""
    # What libraries print must not get between the messages.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fence = _Fence()
    sys.addaudithook(fence)
    requests = sys.stdin.buffer
    while _more(requests, idle_seconds):
        request = receive(requests, 0)
        answer = _answer(request, fence)
        send(results, answer)
        if answer.get("out_of_memory"):
            os._exit(OUT_OF_MEMORY)


def _more(requests: BinaryIO, idle_seconds: float) -> bool:
    """Whether another request begins before the process has been idle for too long."""
    if os.name != "nt" and not select.select([requests], [], [], idle_seconds)[0]:
        return False
    return bool(requests.peek(1))  # type: ignore[attr-defined]


def _answer(request: dict[str, Any], fence: _Fence) -> dict[str, Any]:
    """The recordings, or the error that reading ended in, and the warnings on the way."""
    path, options = Path(request["path"]), ReadOptions(**request["options"])
    os.chdir(request["cwd"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            for module in request["modules"]:
                import_module(module)
            _limit(request["bytes"], request["seconds"])
            with fence.around(path, [Path(folder) for folder in request["folders"]]):
                answer = {"recordings": dispatch.read_here(path, options)}
        except RecordingError as error:
            # The text of the error must not keep the frames alive, and with them the arrays.
            answer = {"error": [error.source, error.problem, error.remedy]}
            answer["out_of_memory"] = isinstance(error.__cause__, MemoryError)
        except ImportError as error:
            answer = {"missing": str(error)}
        except MemoryError:
            answer = {"out_of_memory": True}
        except Exception as error:
            answer = {"failure": f"{type(error).__name__}: {error}"[:300]}
        finally:
            _limit(None, None)
    answer["warnings"] = [
        ["RuntimeWarning" if issubclass(one.category, RuntimeWarning) else "UserWarning", str(one.message)]
        for one in caught
        if issubclass(one.category, UserWarning | RuntimeWarning)
    ]
    return answer


def _limit(n_bytes: int | None, seconds: float | None) -> None:
    """Limit memory to so much more than now, and CPU time likewise; None: no limit (sending needs a little, too)."""
    if resource is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory = None if n_bytes is None else _address_space() + n_bytes
    cpu = None if seconds is None else int(used.ru_utime + used.ru_stime + seconds) + 1
    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu)):
        hard = resource.getrlimit(kind)[1]
        soft = hard if value is None else value if hard == resource.RLIM_INFINITY else min(value, hard)
        # Some systems (macOS) know the limit and do not allow or obey it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    """Bytes of address space in use; a guess where the system does not say."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 2**30


class _Fence:
    """An audit hook that lets a reader open the files of a recording, and nothing else of the user's.

    Libraries open files of their own: code, tables of electrodes, time zones, settings. They are told by the folder.
    """

    def __init__(self) -> None:
        self._folders: list[Path] | None = None
        self._own = [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]
        status = f"/proc/{os.getpid()}/stat"
        places = ("/usr/share/zoneinfo", "/proc/sys", status, f"{status}m", "/dev/null", "/dev/urandom")
        self._own += [*map(Path, places), Path.home() / ".mne"]
        self._trusted = False
        self.refused: str | None = None

    @contextlib.contextmanager
    def around(self, path: Path, folders: list[Path]) -> Iterator[None]:
        """Allow `path`, what lies beside it and below `folders`; say so where a reader fails because of it."""
        # In data sets that are kept with git-annex every file is a link to somewhere else, the recording too.
        self._trusted = path.is_symlink()
        libraries = [Path(file).parent for name in ("mne", "mne_bids", "scipy", "numpy") if (file := _file_of(name))]
        self._below = [folder.resolve() for folder in (*folders, *libraries)]
        self._beside, self._named = path.parent.resolve(), Path(os.path.abspath(path)).parent
        self.refused, self._folders = None, folders
        try:
            yield
        except Exception as error:
            # Where a library goes on without the file (its settings, say), nothing is wrong.
            if self.refused is None:
                raise
            remedy = "put the files of a recording into one folder, and do not trust a file that names others"
            raise RecordingError(path, self.refused, remedy) from error
        finally:
            self._folders = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folders is None:
            return
        if event in _NEVER:
            self.refused = self.refused or f"it makes the library that reads it call {event}"
            raise PermissionError(f"{event} is not allowed while a recording is read")
        if event == "open" and isinstance(arguments[0], str | bytes) and not self._allowed(os.fsdecode(arguments[0])):
            name = os.fsdecode(arguments[0])
            self.refused = self.refused or f"it leads to {name}, which does not lie beside it"
            raise PermissionError(f"{name} is not a file of the recording")

    def _allowed(self, name: str) -> bool:
        folders, self._folders = self._folders, None  # looking at a path may open files
        try:
            named = Path(os.path.abspath(name))
            real = named.resolve()
            if real.suffix in _CODE or any(real.is_relative_to(folder) for folder in self._own):
                return True
            beside = real.parent == self._beside or (self._trusted and named.parent == self._named)
            within = any(real.is_relative_to(folder) for folder in self._below)
            # A pipe or a device beside the recording could keep a reader waiting without end.
            return (beside or within) and (real.is_file() or real.is_dir() or not real.exists())
        finally:
            self._folders = folders


def _file_of(name: str) -> str | None:
    return getattr(sys.modules.get(name), "__file__", None)
