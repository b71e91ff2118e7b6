"""The container of model files: a zip of a JSON header and plain arrays, read within fixed limits.

Nothing that the file says about itself is used before it is checked. Sizes that the zip declares are ignored: a
member is decompressed piece by piece up to a limit. The description of an array is matched against what `numpy.save`
writes and never evaluated. So a file cannot use more memory than `MOST_BYTES` (and the little of the header), whatever
it contains.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mixnorm.core.files import open_regular, whole_file
from mixnorm.core.schema import Pairs, Record, SchemaError, Text, Whole, check

FORMAT = 1
#: Limits of a model file, in bytes: all arrays together, and the header. A decoder of 64 channels has some 100 kB.
MOST_BYTES = 1 << 30
MOST_HEADER_BYTES = 4 << 20
#: Limits on the members of the zip: their number, and the bytes of the directory that lists them.
MOST_MEMBERS = 1000
_MOST_DIRECTORY_BYTES = 1 << 20
# decompressed at a time: at most so much more than a limit is ever in memory
_PIECE = 1 << 20

_HEADER = Record(
    {
        "format": Whole(FORMAT, FORMAT),
        "versions": Pairs(Text(100), Text(100), 100),
        "arrays": Pairs(Text(200), Text(64), MOST_MEMBERS),
    }
)
# What numpy.save writes before the values: version 1.0, the type, the memory order and the shape.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<>|](?:f[48]|[iu][1248]|b1|[US]\d{1,6}))', 'fortran_order': (False|True), "
    rb"'shape': \((|\d{1,15},|\d{1,15}(?:, \d{1,15}){1,7})\), \} *\n",
    re.DOTALL,
)
# The end of a zip without a comment: signature, disks, members here and in all, size and place of the directory.
_END = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR = b"PK\x06\x07"

_NO_MODEL = "not a model file, or truncated or altered"
#: Errors of zipfile, zlib and json for content that `write_archive` did not write. An altered flag can also request a
#: password (RuntimeError), or another version of zip (NotImplementedError, a subclass).
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ModelFileError(ValueError):
    """An invalid model file: truncated, altered, of another format, too large, or not a model file."""


def write_archive(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a model file, whole or not at all; the header gets the format and the checksums of the arrays."""
    # Checksums are of the bytes in the file and not of the values, so that they are checked before the bytes are
    # interpreted.
    members = {key: _array_bytes(value) for key, value in arrays.items()}
    header = {
        "format": FORMAT,
        **header,
        "arrays": {key: hashlib.sha256(data).hexdigest() for key, data in members.items()},
    }
    # sorted, so that the same model gives the same bytes
    text = json.dumps(header, indent=1, allow_nan=False, sort_keys=True).encode()
    _refuse_too_large(text, members)
    everything: dict[str, bytes | str] = {"header.json": text, "header.sha256": hashlib.sha256(text).hexdigest()}
    everything |= {f"{key}.npy": data for key, data in members.items()}
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in everything.items():
            # ZipInfo leaves out the time of writing, so that the same model always gives the same file.
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a model file; a `ModelFileError` for any other content."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: this file does not exist.")
    with refusing(path, _NO_MODEL), open_regular(path) as file:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            header = _read_header(archive)
            # One limit for all arrays together: a thousand members below a limit of their own would be too many.
            left, arrays = MOST_BYTES, {}
            for key, sha in header["arrays"].items():
                data = _read_member(archive, f"{key}.npy", left)
                if hashlib.sha256(data).hexdigest() != sha:
                    raise ModelFileError(f"array {key!r} was altered after the model was saved")
                arrays[key] = _as_array(key, data)
                left -= len(data)
            return header, arrays


@contextlib.contextmanager
def refusing(path: Path, what: str) -> Iterator[None]:
    """Turn every error about the content of a file into a `ModelFileError` that names the file."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}.") from error
    except SchemaError as error:
        raise ModelFileError(f"{path}: {what}: {error}") from error
    except _UNREADABLE as error:
        raise ModelFileError(f"{path}: {what} ({str(error) or type(error).__name__}).") from error


def _refuse_too_large(header: bytes, members: dict[str, bytes]) -> None:
    total = sum(map(len, members.values()))
    if len(header) > MOST_HEADER_BYTES or total > MOST_BYTES or len(members) > MOST_MEMBERS - 2:
        raise ValueError(
            f"This model is too large for a model file: {total} bytes of arrays (at most {MOST_BYTES}) and a header "
            f"of {len(header)} bytes (at most {MOST_HEADER_BYTES})."
        )


def _check_directory(file: BinaryIO) -> None:
    """Refuse a directory of members that is too large, before zipfile reads the whole of it."""
    file.seek(0, io.SEEK_END)
    size = file.tell()
    if size > MOST_BYTES + MOST_HEADER_BYTES:
        raise ModelFileError(f"a file of {size} bytes is too large for a model file")
    # 20 bytes are a zip64 locator, with which a directory of more than 65535 members could stand elsewhere.
    file.seek(max(0, size - _END.size - 20))
    tail = file.read()
    if len(tail) < _END.size or tail[-_END.size :][:4] != b"PK\x05\x06":
        raise ModelFileError(f"{_NO_MODEL} (it is not a zip file, or its end is missing)")
    _, _, _, _, members, length, _, comment = _END.unpack(tail[-_END.size :])
    if members > MOST_MEMBERS or length > _MOST_DIRECTORY_BYTES or comment or tail[:4] == _ZIP64_LOCATOR:
        raise ModelFileError(f"{_NO_MODEL} (the directory of its members is not that of a model file)")
    file.seek(0)


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    text = _read_member(archive, "header.json", MOST_HEADER_BYTES)
    if hashlib.sha256(text).hexdigest().encode() != _read_member(archive, "header.sha256", 64):
        raise ModelFileError("the header was altered after the model was saved")
    header = json.loads(text)
    if not isinstance(header, dict):
        raise ModelFileError("the header is not a JSON object")
    # True == 1 in Python
    if header.get("format") != FORMAT or isinstance(header["format"], bool):
        raise ModelFileError(f"file format {header.get('format')!r:.40} is not supported; this version reads {FORMAT}")
    if not isinstance(header.get("model"), dict):
        raise ModelFileError("the header does not describe a model")
    # The class and its content are checked by `load`.
    check(_HEADER, {key: value for key, value in header.items() if key not in ("class", "model")}, "the header")
    return header


def _read_member(archive: zipfile.ZipFile, name: str, most: int) -> bytearray:
    """Decompress a member piece by piece; stop with an error when there is more than ``most`` bytes of it."""
    # `getinfo` would raise a KeyError whose text says nothing of the file.
    if name not in archive.NameToInfo:
        raise ModelFileError(f"{_NO_MODEL} ({name!r} is missing)")
    info = archive.getinfo(name)
    # Only these two are decompressed piece by piece; the others would give everything at once.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelFileError(f"{name!r} is compressed in a way that no model file is")
    data = bytearray()
    with archive.open(info) as member:
        while piece := member.read(_PIECE):
            data += piece
            if len(data) > most:
                raise ModelFileError(f"{name!r} has more than {most} bytes, which is too large for a model file")
    return data


def _as_array(key: str, data: bytearray) -> np.ndarray:
    """The array that `numpy.save` wrote, without a copy of its values."""
    found = _NPY.match(data)
    if found is None:
        raise ModelFileError(f"array {key!r} is not a plain array as numpy.save writes it")
    descr, fortran, shape = (part.decode("ascii") for part in found.groups())
    lengths = tuple(int(length) for length in re.findall(r"\d+", shape))
    dtype, values = np.dtype(descr), memoryview(data)[found.end() :]
    if math.prod(lengths) * dtype.itemsize != len(values) or not dtype.itemsize:
        raise ModelFileError(
            f"array {key!r} of type {descr} has the shape {lengths}, but {len(values)} bytes of values"
        )
    if dtype.kind == "b" and np.frombuffer(values, np.uint8).max(initial=0) > 1:
        # NumPy counts such a byte several times, and writes beyond the end of a selection.
        raise ModelFileError(f"array {key!r} has truth values that are neither true nor false")
    return np.frombuffer(values, dtype).reshape(lengths, order="F" if fortran == "True" else "C")


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
