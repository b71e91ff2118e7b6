"""Results on disk: whole or not there, checksummed, and written by one process at a time.

    FOLDER/study.json        the plan, its units and their keys
    FOLDER/study.lock        held by the run at work; the lock dies with its process
    FOLDER/results/KEY.json  one result each
    FOLDER/damaged/          files that were not what was written, set aside

The first line of a file is the SHA-256 of the rest.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixnorm.study.canonical import canonical, sha256

FORMAT = 1


class StoreError(ValueError):
    """A folder of results that cannot be used; the text begins with its path."""


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : path
        Made when first written to.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._results = self.folder / "results"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one run; a second run is refused, a dead one holds nothing."""
        with _writing(self.folder):
            self._results.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / "study.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _try_lock(handle):
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise StoreError(f"{self.folder}: another run (process {holder}) is at work in this folder.")
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            for leftover in self._results.glob(".*.part"):
                leftover.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)

    def write_study(self, study: dict[str, Any]) -> None:
        """Keep what the folder is about; the folder of another study is refused."""
        old = self.study() if (self.folder / "study.json").exists() else None
        if old and old["identity"] != study["identity"]:
            raise StoreError(
                f"{self.folder}: the folder holds another study ({old['plan']['name']!r}, seed "
                f"{old['plan']['seed']}), whose plan differs; choose another folder with --out."
            )
        _write(self.folder / "study.json", {"format": FORMAT, **study})

    def study(self) -> dict[str, Any]:
        """What the folder is about."""
        path = self.folder / "study.json"
        if not path.is_file():
            raise StoreError(f"{self.folder}: there is no study in this folder.")
        content = _read(path)
        if content is None or content.get("format") != FORMAT:
            self._set_aside(path)
            raise StoreError(f"{path}: the file is damaged and was set aside; run the study again, results are kept.")
        return content

    def write(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result, at once and whole."""
        _write(self._results / f"{key}.json", result)

    def read(self, key: str) -> dict[str, Any] | None:
        """A result, or None where there is none; a damaged file is set aside, with a warning."""
        path = self._results / f"{key}.json"
        try:
            content = _read(path)
        except FileNotFoundError:
            return None
        if content is None or content["unit"]["key"] != key:
            self._set_aside(path)
            return None
        return content

    def _set_aside(self, path: Path) -> None:
        aside = self.folder / "damaged"
        with _writing(self.folder):
            aside.mkdir(exist_ok=True)
            place = next(p for n in range(10**6) if not (p := aside / f"{path.stem}.{n}.json").exists())
            os.replace(path, place)
        warnings.warn(f"{path} is damaged; set aside as {place}.", RuntimeWarning, stacklevel=3)


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a file, or None when it is not what was written."""
    checksum, _, text = path.read_bytes().partition(b"\n")
    return json.loads(text) if sha256(text).encode() == checksum else None


def _write(path: Path, content: dict[str, Any]) -> None:
    text = canonical(content)
    with _writing(path.parent):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(f"{sha256(text)}\n{text}".encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Errors of the file system as sentences."""
    reasons = {
        errno.ENOSPC: "no room is left on the disk",
        errno.EDQUOT: "your quota is used up",
        errno.EROFS: "the folder is read-only",
        errno.EACCES: "the folder may not be written to",
        errno.EPERM: "the folder may not be written to",
        errno.ENOTDIR: "this is not a folder",
        errno.EEXIST: "this is not a folder",
    }
    try:
        yield
    except OSError as error:
        if error.errno not in reasons:
            raise
        raise StoreError(
            f"{folder}: {reasons[error.errno]}; what was done before is kept, and the same command continues from it."
        ) from error


def _try_lock(handle: int) -> bool:
    """Whether the lock was free. The system gives it back when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
