"""Files that are whole or not there.

A file is written beside its place, flushed to the disk and then renamed, so that a reader, a full disk or a killed
process never sees half of it. What a killed process leaves behind (`.NAME.TOKEN.part`) is removed by the next process
that writes into the same folder.
"""

import contextlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PART = re.compile(r"\..*\.[0-9a-f]{16}\.part", re.DOTALL)
# File systems allow names of 255 bytes; the token and the endings need some of them.
_LONGEST = 200
_swept: set[Path] = set()


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` when the block ends, and leaves it untouched when the block fails.

    A new file gets the permissions that the process gives to any new file. A symbolic link is followed. What is no
    regular file (`/dev/null`, a pipe) cannot be replaced and is written to directly.

    Parameters
    ----------
    path : path-like
        In a folder that exists.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as direct:
            yield direct
        return
    # Renaming onto a symbolic link would replace the link and leave the file that it points to.
    path = Path(os.path.realpath(path))
    # once per folder and process: a study writes thousands of files into one folder
    if path.parent not in _swept:
        remove_leftovers(path.parent)
        _swept.add(path.parent)
    part, file = _new_part(path)
    try:
        with file:
            yield file
            file.flush()
            # Without it, a rename can reach the disk before the content does, and a power failure leaves an empty
            # file.
            os.fsync(file.fileno())
            if os.name != "nt":
                # Renamed while its lock is held, so that no other process takes it for a leftover.
                os.replace(part, path)
        if os.name == "nt":  # pragma: no cover - Windows renames no file that is open
            os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; an OSError for anything else.

    A pipe would wait for a writer that may never come, and a device such as `/dev/zero` never ends. The open file is
    examined, and not the path, which could be replaced in between.
    """
    # O_NONBLOCK, so that opening a pipe without a writer returns; for regular files it has no effect.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is not a regular file.")
    return os.fdopen(handle, "rb")


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    r"""Write text as UTF-8, lines ending in `\\n`, whole or not at all; return the path."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)


def remove_leftovers(folder: str | os.PathLike[str]) -> None:
    """Remove the parts that killed processes left in a folder; parts that are being written stay."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if _PART.fullmatch(entry.name):
                _remove_unlocked(Path(entry.path))


def try_lock(handle: int) -> bool:
    """Lock an open file for this process unless another holds it; the system frees it when the process ends."""
    if sys.platform == "win32":  # pragma: no cover - Windows
        import msvcrt

        try:
            # On Windows no process can read what is locked: a byte beyond the end, so that the content can be read.
            os.lseek(handle, 1 << 30, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _new_part(path: Path) -> tuple[Path, BinaryIO]:
    stem = path.name.encode()[:_LONGEST].decode(errors="ignore")
    while True:
        part = path.with_name(f".{stem}.{secrets.token_hex(8)}.part")
        # Not tempfile, whose files only their owner may read.
        file = part.open("xb")
        if os.name == "nt":  # pragma: no cover - Windows removes no file that is open, so no lock is needed
            return part, file
        with contextlib.suppress(OSError):  # a file system without locks: there, leftovers are never removed either
            try_lock(file.fileno())
        # Between opening and locking it may have been taken for a leftover: then it has no name any more.
        if os.fstat(file.fileno()).st_nlink:
            return part, file
        file.close()  # pragma: no cover - a race of two processes


def _remove_unlocked(part: Path) -> None:
    with contextlib.suppress(OSError):
        if os.name == "nt":  # pragma: no cover - fails where the file is open
            part.unlink()
            return
        with part.open("rb") as file:
            if try_lock(file.fileno()):
                part.unlink()
