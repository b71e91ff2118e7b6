"""Files that make SciPy or MNE crash, loop or take all memory, made byte by byte from the descriptions of the formats."""

import struct
import zlib

import numpy as np

MAT_HEADER = b"MATLAB 5.0 MAT-file".ljust(116) + b"\0" * 8 + struct.pack("<H", 0x0100) + b"IM"


def _element(kind, body):
    return struct.pack("<II", kind, len(body)) + body + b"\0" * (-len(body) % 8)


def _matrix(array_class, dims, name, body):
    flags = _element(6, struct.pack("<II", array_class, 0))
    return flags + _element(5, struct.pack(f"<{len(dims)}i", *dims)) + _element(1, name) + body


def nested_cells(path, depth):
    """A cell in a cell in a cell …: SciPy goes into them by recursion in C."""
    body = _element(14, _matrix(6, (1, 1), b"", _element(9, struct.pack("<d", 1.0))))
    parts = []
    # from the inside out every level adds 48 bytes in front: written once, not copied for every level
    length = len(body)
    for level in range(depth):
        name = b"data" if level == depth - 1 else b""
        head = _matrix(1, (1, 1), name, b"")
        parts.append(struct.pack("<II", 14, len(head) + length) + head)
        length += len(parts[-1])
    path.write_bytes(MAT_HEADER + b"".join(reversed(parts)) + body)
    return path


def lying_tag(path, declared):
    """A small compressed variable whose inner tag declares `declared` bytes of values."""
    inner = struct.pack("<II", 9, declared) + np.zeros(1000).tobytes()
    body = _matrix(6, (declared // 8, 1), b"signal", inner)
    packed = zlib.compress(_element(14, body))
    path.write_bytes(MAT_HEADER + struct.pack("<II", 15, len(packed)) + packed)
    return path


def inflating(path, n_bytes):
    """A compressed variable of `n_bytes` zeros whose outer tag, by which its size is judged, declares next to nothing."""
    inner = struct.pack("<II", 14, 64) + _matrix(6, (n_bytes // 8, 1), b"y", struct.pack("<II", 9, n_bytes))
    packer, mib = zlib.compressobj(9), bytes(2**20)
    start = packer.compress(inner) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(mib) + packer.flush(zlib.Z_FULL_FLUSH)  # after a full flush all blocks are the same
    packed = start + block * -(-n_bytes // 2**20)
    path.write_bytes(MAT_HEADER + struct.pack("<II", 15, len(packed)) + packed)
    return path


def looping_fif(path):
    """A file of measurements without a directory, in which a tag names itself as the next one."""
    file_id = np.array([100, 0x00010003, 0, 0, 0], dtype=">i4").tobytes()
    tags = [(100, 31, file_id, 0), (101, 3, struct.pack(">i", -1), 0), (106, 3, struct.pack(">i", -1), 0)]
    body = b""
    for kind, data_type, data, following in tags:
        body += struct.pack(">iiii", kind, data_type, len(data), following) + data
    at = len(body)
    body += struct.pack(">iiii", 108, 3, 4, at) + struct.pack(">i", 0)
    path.write_bytes(body)
    return path


def unknown_types(path, labels):
    """Alter a byte before each of some texts in a MATLAB file: a data type that the format does not know.

    SciPy looks the type of a text up in a table without checking that the table goes so far.
    """
    body = bytearray(path.read_bytes())
    for label in labels:
        at = body.index(struct.pack("<HH", 16, len(label)) + label.encode())  # 16: a short text in UTF-8
        body[at + 1] = 2
    path.write_bytes(body)
    return path
