"""Limits on the size of files, and errors of third-party readers as one class."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.readers.options import ReadOptions
from mixnorm.eeg.recording import RecordingError

#: The largest compression ratio of a file of more than 64 MiB; that of EEG is 2 to 10.
MAX_EXPANSION = 200

_HDF5 = b"\x89HDF\r\n\x1a\n"
#: Type of a compressed variable in MATLAB files.
_COMPRESSED = 15


@contextmanager
def reading(source: object, what: str) -> Iterator[None]:
    """Turn any error of a third-party reader into a `RecordingError`."""
    try:
        yield
    except (RecordingError, ImportError):
        raise
    except (Exception, MemoryError) as error:
        reason = str(error).strip().splitlines()
        detail = f" ({reason[0][:200]})" if reason else ""
        raise RecordingError(
            source, f"it cannot be read as {what}{detail}", "check that the file is whole and of that type"
        ) from error


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'This needs {module.split(".")[0]}, which is not installed: pip install "mixnorm[{extra}]".'
        ) from error


def check_installed(module: str, extra: str) -> None:
    """As `require`, without importing: for a package that another process uses."""
    try:
        # `find_spec` of "a.b" imports a, which may be missing
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        require(module, extra)


def check_file(path: Path) -> None:
    """Refuse a path that does not exist, is not a file, or is empty."""
    if not path.exists():
        raise RecordingError(path, "there is no such file", "check the path")
    if not path.is_file():
        raise RecordingError(path, "this is not a file", "give the recording itself")
    if path.stat().st_size == 0:
        raise RecordingError(path, "the file is empty", "copy or record it again")


def check_expansion(path: Path, declared: int, options: ReadOptions) -> None:
    """Refuse a file that declares too large an uncompressed size, before it is uncompressed."""
    size = path.stat().st_size
    # Small files may have any ratio: a bundle of zeros is no danger below 64 MiB.
    if declared > 64 * 2**20 and declared > MAX_EXPANSION * size:
        raise RecordingError(
            path,
            f"its {size} bytes would expand to {declared}, {declared // max(size, 1)} times as much",
            f"it is probably damaged (the most is {MAX_EXPANSION} times its size); export it again",
        )
    check_size(path, declared, options)


def check_size(source: object, n_bytes: int, options: ReadOptions) -> None:
    """Refuse more data than the user allows; the error says how to allow it."""
    if n_bytes > options.max_bytes:
        raise RecordingError(
            source,
            f"its data take {n_bytes / 2**30:.3g} GiB, more than the {options.max_gib:g} GiB that are allowed",
            f"if it is genuine and fits into memory, allow it with max_gib={math.ceil(n_bytes / 2**30)}",
        )


def load_mat(path: Path, options: ReadOptions) -> dict[str, Any]:
    """The variables of a MATLAB file up to version 7; its declared size is checked first."""
    scipy_io = require("scipy.io", "eeg")
    with path.open("rb") as stream:
        header = stream.read(128)
    # version 0x0200 in the header of a MATLAB file, in either byte order
    if is_hdf5(path) or header[124:126] in (b"\x00\x02", b"\x02\x00"):
        raise RecordingError(path, "this is a MATLAB 7.3 file", "save it again with: save -v7")
    with reading(path, "a MATLAB file"):
        check_expansion(path, mat_declared_bytes(path), options)
        return scipy_io.loadmat(path)


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, as those of MATLAB 7.3 are."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_HDF5)) == _HDF5


def refuse_links(path: Path) -> None:
    """Refuse an HDF5 file (a ``.set`` of MATLAB 7.3) that contains links to other files, or data that lie in them."""
    if not is_hdf5(path):
        return
    if not find_spec("h5py"):
        raise RecordingError(
            path, "this is a MATLAB 7.3 file", "save it again with: save -v7, or pip install pymatreader"
        )
    h5py = import_module("h5py")

    def visit(group: Any) -> None:
        for name in group:
            link = group.get(name, getlink=True)
            item = None if isinstance(link, h5py.ExternalLink) else group[name]
            outside = isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)
            if item is None or outside:
                raise RecordingError(path, f"its part {name!r} lies in another file", "do not trust this file")
            # soft links may lead back: only what is really here is followed
            if isinstance(item, h5py.Group) and isinstance(link, h5py.HardLink):
                visit(item)

    with h5py.File(path, "r") as file:
        visit(file)


def mat_declared_bytes(path: Path) -> int:
    """The uncompressed size that the variables of a MATLAB 5–7 file declare.

    Only the first eight bytes of each compressed variable are uncompressed: they contain its size.
    """
    total, size = 0, path.stat().st_size
    with path.open("rb") as stream:
        header = stream.read(128)
        if header[126:128] not in (b"IM", b"MI"):
            return size  # version 4, which does not compress
        order = "<" if header[126:128] == b"IM" else ">"
        while stream.tell() + 8 <= size:
            kind, n_bytes = struct.unpack(f"{order}II", stream.read(8))
            after = stream.tell() + n_bytes
            if kind == _COMPRESSED:
                # 8 bytes at most: a variable that expands without end is not expanded here.
                inner = zlib.decompressobj().decompress(stream.read(min(n_bytes, 4096)), 8)
                kind, n_bytes = struct.unpack(f"{order}II", inner)
            total += n_bytes
            stream.seek(after)
    return total


def numeric(variables: dict[str, Any], name: str, source: Path) -> np.ndarray:
    """One numeric array of a MATLAB file; cells, structs and text are refused."""
    if name not in variables:
        found = ", ".join(sorted(key for key in variables if not key.startswith("__")))
        raise RecordingError(source, f"there is no variable '{name}' (found: {found})", "check the layout")
    array = np.asarray(variables[name])
    if array.dtype.kind not in "iufb":
        raise RecordingError(source, f"'{name}' is not numeric ({array.dtype})", "save it as numbers")
    return array


def whole_numbers(values: Any, name: str, source: object) -> NDArray[np.int64]:
    """Labels, codes or numbers of characters as integers; NaN, fractions and huge numbers are refused."""
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        raise RecordingError(source, f"'{name}' is not numeric ({array.dtype})", "save it as numbers")
    # beyond 2⁵³ neighbouring integers are the same float
    wrong = ~((array == np.floor(array)) & (np.abs(array.astype(np.float64)) <= 2.0**53))
    if wrong.any():
        shown = ", ".join(f"{value:g}" for value in np.unique(array[wrong])[:3])
        raise RecordingError(
            source,
            f"'{name}' has values that are not whole numbers ({shown})",
            "correct them, or leave the variable out",
        )
    return array.astype(np.int64)


def load_npz(path: Path, options: ReadOptions) -> dict[str, np.ndarray]:
    """The arrays of a ``.npz`` file; nothing is unpickled, and no member may point outside the archive."""
    with reading(path, "a .npz archive"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            _refuse_outside(path, member.filename)
        check_expansion(path, sum(member.file_size for member in members), options)
        return {member.filename.removesuffix(".npy"): _member(archive, member) for member in members}


def _refuse_outside(path: Path, name: str) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in (parts.parts or ("",))[0]:
        raise RecordingError(path, f"its member {name!r} points outside the archive", "do not trust this file")


def _is_text(array: np.ndarray) -> bool:
    """Whether all characters exist in Unicode; with others, Python cannot even print an error."""
    codes = array.view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder)) if array.nbytes else np.empty(0)
    return bool(np.all((codes <= 0x10FFFF) & ~((codes >= 0xD800) & (codes <= 0xDFFF))))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array; its header is compared with the size of the member before memory is taken for it."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read_header:
            raise ValueError(f"{member.filename} has the unknown version {version}")
        shape, fortran, dtype = read_header[version](stream)
        if dtype.hasobject:
            raise ValueError(f"Object arrays cannot be loaded ({member.filename})")
        if dtype.itemsize * math.prod(shape) != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} has the shape {shape}, but not as many bytes")
        # Read in pieces into memory of the declared size: a member that holds more is never expanded further.
        array = np.empty(math.prod(shape), dtype=dtype)
        view = memoryview(array.view(np.uint8)) if array.nbytes else memoryview(b"")
        while len(view):
            count = stream.readinto(view[: 2**20])
            if not count:
                raise ValueError(f"{member.filename} is incomplete")
            view = view[count:]
        stream.read(1)  # at the end of a member its checksum is compared
    if dtype.kind == "U" and not _is_text(array):
        raise ValueError(f"{member.filename} has characters that do not exist")
    return array.reshape(shape, order="F" if fortran else "C")
