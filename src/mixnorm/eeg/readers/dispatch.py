"""From the name of a source to the module that reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mixnorm.eeg.checks import checked
from mixnorm.eeg.readers import bci2000, bundle, epfl, in_memory, mne_files, moabb_sets, speller_mat
from mixnorm.eeg.readers.guard import check_file, load_mat
from mixnorm.eeg.readers.labels import as_told, distinct_sessions
from mixnorm.eeg.readers.options import ReadOptions
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError

AnyRecording = Recording | EpochedRecording


def read_recording(source: Any, **options: Any) -> AnyRecording:
    """Read one recording.

    Parameters
    ----------
    source : str, path, or an object in memory
        A file: anything MNE reads (fif, edf, bdf, gdf, set, vhdr, cnt, …), MNE epochs (``*-epo.fif``), an
        epochs bundle (``.npz``), a BCI2000 ``.dat``, an EPFL or speller ``.mat``; or "moabb:NAME/SUBJECT"
        with one run. Or an object in memory: `mne.io.Raw`, `mne.Epochs`, arrays with names (see
        `mixnorm.eeg.readers.in_memory`), a recording.
    **options
        See `ReadOptions`.

    Returns
    -------
    Recording or EpochedRecording
        `describe()` says what was read, and what had to be inferred.

    Raises
    ------
    RecordingError
        When the source cannot be used; the text begins with its path.
    """
    recordings = read_recordings(source, **options)
    if len(recordings) != 1:
        raise RecordingError(source, f"it contains {len(recordings)} recordings", "read it with read_recordings")
    return recordings[0]


def read_recordings(*sources: Any, subjects: Sequence[str] | None = None, **options: Any) -> list[AnyRecording]:
    """Read several sources; a MOABB data set or a folder of files gives one recording per run.

    Parameters
    ----------
    *sources : str, path, or objects in memory
        As in `read_recording`.
    subjects : sequence of str, optional
        Name of the subject of each source, in order; by default from the sources or their paths.
    **options
        See `ReadOptions`.
    """
    told = ReadOptions(**options)
    _refuse_twice(sources)
    found = []
    for place, (source, mine) in enumerate(zip(sources, _told_of_each(sources, subjects, told), strict=True)):
        read = [in_memory.read_object(source, place, mine)] if in_memory.is_object(source) else _read(source, mine)
        found += [as_told(recording, mine) for recording in read]
    found = distinct_sessions(found)
    return [checked(recording.without(told.drop) if told.drop else recording) for recording in found]


def _told_of_each(sources: Sequence[Any], subjects: Sequence[str] | None, told: ReadOptions) -> list[ReadOptions]:
    """The options of each source: those given for all, and the subject of each."""
    if not subjects:
        return [told] * len(sources)
    names = [subjects] if isinstance(subjects, str) else [str(name) for name in subjects]
    if len(names) != len(sources):
        raise ValueError(
            f"subjects=… gives {len(names)} names ({', '.join(names)}) for {len(sources)} recordings; give one name "
            "for each, in order, and the same name for recordings of the same subject"
        )
    return [replace(told, subject=name) for name in names]


def _refuse_twice(sources: Sequence[Any]) -> None:
    """Refuse a file or an object given twice: its trials would be both training and held-out trials."""
    objects = [id(source) for source in sources if in_memory.is_object(source) and not _is_read(source)]
    if len(set(objects)) < len(objects):
        raise ValueError("One object is given twice among the recordings; give every recording once.")
    paths = [source for source in sources if not in_memory.is_object(source)]
    files = [Path(source).resolve() for source in paths if Path(source).is_file()]
    for place, file in enumerate(files):
        if file in files[:place]:
            raise RecordingError(file, "this file is given twice", "give every recording once")


def _is_read(source: Any) -> bool:
    return isinstance(source, Recording | EpochedRecording)


def _read(source: str | Path, options: ReadOptions) -> list[AnyRecording]:
    if str(source).startswith(moabb_sets.PREFIX):
        return moabb_sets.read_moabb(str(source), options)
    path = Path(source)
    if path.is_dir() and path.suffix not in (".ds", ".mff", ".mefd"):
        return _read_folder(path, options)
    if path.is_dir():
        return [mne_files.read_raw(path, options)]
    check_file(path)
    return [_reader(path)(path, options)]


def _read_folder(path: Path, options: ReadOptions) -> list[AnyRecording]:
    """Every recording below a folder, in the order of the paths, as in the subject folders of EPFL."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and _suffix(file) in SUFFIXES]
    if not files:
        raise RecordingError(path, "this folder contains no recordings", "give a file or another folder")
    return [_reader(file)(file, options) for file in files]


def _read_mat(path: Path, options: ReadOptions) -> Recording:
    variables = load_mat(path)
    if epfl.is_epfl(variables):
        return epfl.read_epfl(path, variables, options)
    if speller_mat.is_speller(variables):
        return speller_mat.read_speller(path, variables, options)
    found = ", ".join(sorted(name for name in variables if not name.startswith("__")))
    raise RecordingError(path, f"its variables ({found}) match no known layout", "see docs/eeg.md for the layouts")


def _read_fif(path: Path, options: ReadOptions) -> AnyRecording:
    epochs = path.name.removesuffix(".gz").endswith(("-epo.fif", "_epo.fif"))
    return (mne_files.read_epochs if epochs else mne_files.read_raw)(path, options)


_READERS: dict[str, Callable[[Path, ReadOptions], AnyRecording]] = {
    ".npz": bundle.read_bundle,
    ".mat": _read_mat,
    ".dat": bci2000.read_bci2000,
    ".fif": _read_fif,
    ".fif.gz": _read_fif,
}
_BY_MNE = (
    ".edf",
    ".bdf",
    ".gdf",
    ".set",
    ".vhdr",
    ".ahdr",
    ".cnt",
    ".cdt",
    ".lay",
    ".nedf",
    ".nxe",
    ".con",
    ".sqd",
)

#: Endings of the files that can be read.
SUFFIXES = (*_READERS, *_BY_MNE)


def _reader(path: Path) -> Callable[[Path, ReadOptions], AnyRecording]:
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise RecordingError(path, f"files that end in {suffix!r} cannot be read", f"supported: {' '.join(SUFFIXES)}")
    return _READERS.get(suffix, mne_files.read_raw)


def _suffix(path: Path) -> str:
    return ".fif.gz" if path.name.endswith(".fif.gz") else path.suffix.lower()
