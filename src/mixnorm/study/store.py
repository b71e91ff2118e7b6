"""Results on disk: whole or not there, checksummed, and written by one process at a time.

    FOLDER/study.json        the plan, its units and their keys
    FOLDER/study.lock        locked by the process that runs the study
    FOLDER/results/KEY.json  one result each
    FOLDER/damaged/          files whose checksum is wrong, moved here

The first line of a file is the SHA-256 of the rest.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixnorm.core.files import try_lock, write_text
from mixnorm.study.canonical import canonical, sha256

FORMAT = 1


class StoreError(ValueError):
    """A folder of results that cannot be used; the message begins with its path.

    See Also
    --------
    read_results : Raises it.
    run_study : Raises it for a folder of another study.

    Examples
    --------
    >>> from mixnorm.study import StoreError, read_results
    >>> try:
    ...     read_results("no-such-folder")
    ... except StoreError as error:
    ...     print(error)
    no-such-folder: ...
    """


class Store:
    """A folder of results.

    Parameters
    ----------
    folder : path
        Created when first written to.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._results = self.folder / "results"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Reserve the folder for one run; a second run is refused. The system frees the folder of a killed run."""
        with _writing(self.folder):
            self._results.mkdir(parents=True, exist_ok=True)
            # opened without truncation, because it may hold the number of the process that has the lock
            handle = os.open(self.folder / "study.lock", os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(handle, "r+b") as file:
            if not try_lock(handle):
                file.seek(0)
                holder = file.read(32).decode(errors="replace").strip() or "unknown"
                raise StoreError(
                    f"{self.folder}: another run (process {holder}) is using this folder. Wait until it has ended, or "
                    "choose another folder with --out."
                )
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()).encode())
            file.flush()
            # With the lock held no other process writes here: every part is that of a killed run.
            for leftover in (*self.folder.glob(".*.part"), *self._results.glob(".*.part")):
                leftover.unlink(missing_ok=True)
            yield

    def write_study(self, study: dict[str, Any]) -> None:
        """Write the description of the study; a folder with results of another plan is refused."""
        old = self.study() if (self.folder / "study.json").exists() else None
        if old and old["identity"] != study["identity"]:
            raise StoreError(
                f"{self.folder}: this folder contains results of another plan ({old['plan']['name']!r}, seed "
                f"{old['plan']['seed']}); choose another folder with --out."
            )
        _write(self.folder / "study.json", {"format": FORMAT, **study})

    def study(self) -> dict[str, Any]:
        """The description of the study: plan, units, data sets."""
        path = self.folder / "study.json"
        if not path.is_file():
            raise StoreError(f"{self.folder}: this folder contains no study; run `mixnorm study` first.")
        content = _read(path)
        # The results have their own files and checksums, so that a damaged description costs nothing but this run.
        if content is None or content.get("format") != FORMAT:
            self._move_away(path)
            raise StoreError(
                f"{path}: the file is damaged and was moved to {self.folder / 'damaged'}. Run the study again; its "
                "results are kept."
            )
        return content

    def write(self, key: str, result: dict[str, Any]) -> None:
        """Write a result; its file appears whole or not at all."""
        _write(self._results / f"{key}.json", result)

    def read(self, key: str) -> dict[str, Any] | None:
        """A result, or None where there is none; a damaged file is moved away, with a warning."""
        path = self._results / f"{key}.json"
        try:
            content = _read(path)
        except FileNotFoundError:
            return None
        # a file may be whole, but renamed or copied from another study
        if content is None or content["unit"]["key"] != key:
            self._move_away(path)
            return None
        return content

    def _move_away(self, path: Path) -> None:
        away = self.folder / "damaged"
        with _writing(self.folder):
            away.mkdir(exist_ok=True)
            place = next(p for n in range(10**6) if not (p := away / f"{path.stem}.{n}.json").exists())
            os.replace(path, place)
        warnings.warn(f"{path} is damaged and was moved to {place}.", RuntimeWarning, stacklevel=3)


def _read(path: Path) -> dict[str, Any] | None:
    """The content of a file, or None when it is not what was written."""
    checksum, _, text = path.read_bytes().partition(b"\n")
    # The checksum comes first: JSON that was cut off may still be valid.
    return json.loads(text) if sha256(text).encode() == checksum else None


def _write(path: Path, content: dict[str, Any]) -> None:
    text = canonical(content)
    with _writing(path.parent):
        write_text(path, f"{sha256(text)}\n{text}")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a `StoreError` that says what to do."""
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EROFS: "the folder is read-only",
        errno.EACCES: "no permission to write into this folder",
        errno.EPERM: "no permission to write into this folder",
        errno.ENOTDIR: "this is not a folder",
        errno.EEXIST: "this is not a folder",
    }
    if hasattr(errno, "EDQUOT"):  # Windows has none
        reasons[errno.EDQUOT] = "your disk quota is used up"
    try:
        yield
    except OSError as error:
        if error.errno not in reasons:
            raise
        raise StoreError(
            f"{folder}: {reasons[error.errno]}. Finished results are kept; once this is solved, run the same command "
            "again to continue."
        ) from error
