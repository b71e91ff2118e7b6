"""A writer of XDF files after the specification of version 1.0 (github.com/sccn/xdf/wiki/Specifications).

file  = "XDF:" chunk*
chunk = number of bytes of the length (1, 4 or 8), length of what follows, tag (uint16), content
1 FileHeader: XML; 2 StreamHeader: stream (uint32), XML; 4 ClockOffset: stream, time, offset (float64)
3 Samples: stream, number of samples (with its own length byte), then each sample: 8 and a time stamp, or 0 where it
  follows at the nominal rate; and its values, texts with their length in front
6 StreamFooter: stream, XML
"""

import struct
from itertools import pairwise
from xml.sax.saxutils import escape

FORMATS = {"f4": "float32", "f8": "double64", "i4": "int32", "i2": "int16"}


def _length(number):
    return struct.pack("<BB", 1, number) if number < 256 else struct.pack("<BI", 4, number)


def _chunk(tag, content):
    return _length(len(content) + 2) + struct.pack("<H", tag) + content


def _stream_header(stream, name, kind, n_channels, rate, fmt, channels):
    listed = "".join(
        "<channel>" + "".join(f"<{key}>{escape(value)}</{key}>" for key, value in one.items()) + "</channel>"
        for one in channels
    )
    desc = f"<desc><channels>{listed}</channels></desc>" if channels else "<desc/>"
    text = (
        f'<?xml version="1.0"?><info><name>{escape(name)}</name><type>{kind}</type><channel_count>{n_channels}'
        f"</channel_count><nominal_srate>{rate}</nominal_srate><channel_format>{fmt}</channel_format>"
        f"<created_at>0</created_at>{desc}</info>"
    )
    return _chunk(2, struct.pack("<I", stream) + text.encode())


def _samples(stream, stamps, rows):
    body = struct.pack("<I", stream) + _length(len(rows))
    for stamp, row in zip(stamps, rows, strict=True):
        body += b"\0" if stamp is None else struct.pack("<Bd", 8, stamp)
        body += row
    return _chunk(3, body)


def signal_stream(stream, values, sfreq, channels=(), start=100.0, name="Amp", kind="EEG", missing=()):
    """A regular stream; ``values`` (samples, channels); every hundredth sample has a time stamp.

    ``missing``: samples (start, stop) that were lost.
    """
    kept = [sample for sample in range(len(values)) if not any(a <= sample < b for a, b in missing)]
    gap = {sample for before, sample in pairwise(kept) if sample != before + 1}
    stamps = [start + i / sfreq if place % 100 == 0 or i in gap else None for place, i in enumerate(kept)]
    rows = [values[i].tobytes() for i in kept]
    parts = [_stream_header(stream, name, kind, values.shape[1], sfreq, FORMATS[values.dtype.str[1:]], channels)]
    parts += [_samples(stream, stamps[i : i + 500], rows[i : i + 500]) for i in range(0, len(rows), 500)]
    return b"".join(parts)


def marker_stream(stream, times, texts, name="Stimuli", kind="Markers", clock=0.0):
    """Texts at times of a clock that is ``clock`` seconds behind that of the signal."""
    rows = [_length(len(text.encode())) + text.encode() for text in texts]
    offsets = [_chunk(4, struct.pack("<Idd", stream, times[0] - clock + 5.0 * i, clock)) for i in range(10)]
    head = _stream_header(stream, name, kind, 1, 0, "string", ())
    return head + b"".join(offsets) + _samples(stream, [time - clock for time in times], rows)


def write_xdf(path, *streams):
    """Write streams that were made with the functions above, each with its footer."""
    header = _chunk(1, b'<?xml version="1.0"?><info><version>1.0</version></info>')
    path.write_bytes(b"XDF:" + header + b"".join(streams))
    return path


def names_of(events):
    words = {1: "Target", 0: "NonTarget", -1: "Stimulus"}
    return [
        f"{words[target]}/{stimulus}/character {character}"
        for target, stimulus, character in zip(
            events.target.tolist(), events.stimulus.tolist(), events.character.tolist(), strict=True
        )
    ]


def recording_as_xdf(path, recording, clock=12.5, **changes):
    """A recording as an amplifier with 32-bit floats and a computer with another clock would have recorded it."""
    channels = [{"label": name, "type": "EEG", "unit": "microvolts"} for name in recording.ch_names]
    values = recording.signal.T.astype("<f4")
    times = 100.0 + recording.events.onset / recording.sfreq
    return write_xdf(
        path,
        signal_stream(1, values, recording.sfreq, changes.pop("channels", channels), **changes),
        marker_stream(2, times, names_of(recording.events), clock=clock),
    )
