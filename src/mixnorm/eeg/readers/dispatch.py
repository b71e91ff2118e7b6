"""From the name of a source to the module that reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.eeg.checks import checked
from mixnorm.eeg.readers import (
    bci2000,
    bids,
    bnci_mat,
    bundle,
    epfl,
    in_memory,
    mat_recipe,
    mne_files,
    moabb_sets,
    speller_mat,
    xdf,
)
from mixnorm.eeg.readers.guard import check_file, check_installed, is_hdf5, load_mat
from mixnorm.eeg.readers.isolated import read_isolated
from mixnorm.eeg.readers.labels import as_told, distinct_sessions
from mixnorm.eeg.readers.options import ReadOptions
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError

AnyRecording = Recording | EpochedRecording


def read_recording(source: Any, **options: Any) -> AnyRecording:
    """Read one recording.

    Parameters
    ----------
    source : str, path, or an object in memory
        A file: anything MNE reads (fif, edf, bdf, gdf, set, vhdr, cnt, …), MNE epochs (``*-epo.fif``), XDF, a
        recording of a BIDS data set, an epochs bundle (``.npz``), a BCI2000 ``.dat``, an EPFL, BNCI Horizon or
        speller ``.mat``, any other ``.mat`` with a `recipe`; or "moabb:NAME/SUBJECT" with one run. Or an object in
        memory: `mne.io.Raw`, `mne.Epochs`, arrays with names (see `mixnorm.eeg.readers.in_memory`), a recording.
    **options : dict
        The fields of `ReadOptions`, by name.

    Returns
    -------
    Recording or EpochedRecording
        `describe()` says what was read, and what had to be inferred.

    Raises
    ------
    RecordingError
        When the source cannot be used; the text begins with its path.

    See Also
    --------
    read_recordings : Reads several sources, or one with several runs.
    ReadOptions : The options.
    prepare : Cuts recordings into trials.

    Examples
    --------
    >>> from mixnorm.eeg import read_recording, simulated_p300
    >>> data = simulated_p300(40, n_channels=3, n_informative=2)
    >>> arrays = {"X": data.X, "y": data.y, "ch_names": data.ch_names, "times": data.times}
    >>> recording = read_recording(arrays, subject="ann", drop=["Cz"])
    >>> recording.ch_names, str(recording.subject[0])
    (('Fz', 'Pz'), 'ann')
    """
    recordings = read_recordings(source, **options)
    if len(recordings) != 1:
        raise RecordingError(source, f"it contains {len(recordings)} recordings", "read it with read_recordings")
    return recordings[0]


def read_recordings(*sources: Any, subjects: Sequence[str] | None = None, **options: Any) -> list[AnyRecording]:
    """Read several sources; a MOABB data set, a BIDS data set or a folder of files gives one recording per run.

    Parameters
    ----------
    *sources : str, path, or objects in memory
        Anything that `read_recording` takes, and data sets and folders with several runs.
    subjects : sequence of str, optional
        Name of the subject of each source, in order; by default from the sources or their paths.
    **options : dict
        The fields of `ReadOptions`, by name.

    Returns
    -------
    list of Recording or EpochedRecording
        In the order of the sources.

    See Also
    --------
    read_recording : Reads one recording.
    ReadOptions : The options.

    Examples
    --------
    >>> from mixnorm.eeg import read_recordings, simulated_recording, to_raw
    >>> first, second = (to_raw(simulated_recording(12, seed=seed)) for seed in (0, 1))
    >>> [one.subject for one in read_recordings(first, second, subjects=["ann", "bob"])]
    ['ann', 'bob']
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
    # some formats are folders: those of CTF, EGI and MEF are one recording each
    if path.is_dir() and path.suffix not in _FOLDER_FORMATS:
        return _read_folder(path, options)
    return _read_file(path, options)


def _read_folder(path: Path, options: ReadOptions) -> list[AnyRecording]:
    """Every recording below a folder, in the order of the paths: a BIDS data set, or the subject folders of EPFL."""
    if bids.root_of(path):
        files = bids.recordings_below(path)
    else:
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and _suffix(file) in SUFFIXES]
    if not files:
        raise RecordingError(path, "this folder contains no recordings", "give a file or another folder")
    return [recording for file in files for recording in _read_file(file, options)]


def _read_file(path: Path, options: ReadOptions) -> list[AnyRecording]:
    """The recordings in one file; formats that other libraries read go to a process of its own."""
    if not path.is_dir():
        check_file(path)
    needed = _needed(path)
    # In this process: an error that names the extra to install should not come out of the worker.
    for module, extra in needed:
        check_installed(module, extra)
    # The readers of this package check sizes before they take memory, and need no process of their own.
    if not options.isolate or _suffix(path) in _OWN:
        return read_here(path, options)
    # The tables of a BIDS recording lie in other folders of the data set.
    root = bids.root_of(path)
    folders = [root] if root else [path] if path.is_dir() else []
    return read_isolated(path, options, [module for module, _ in needed], folders)


def read_here(path: Path, options: ReadOptions) -> list[AnyRecording]:
    """The recordings in one file, read in this process."""
    # Some bit patterns of NaN warn when floats are converted; NaN is looked for afterwards.
    with np.errstate(invalid="ignore"):
        found = _reader(path)(path, options)
    return found if isinstance(found, list) else [found]


def _read_mat(path: Path, options: ReadOptions) -> AnyRecording | list[AnyRecording]:
    variables = load_mat(path, options)
    # A recipe is taken before a known layout: the user knows the file.
    if options.recipe:
        return mat_recipe.read_with_recipe(path, variables, options)
    for fits, read in _MAT_LAYOUTS:
        if fits(variables):
            return read(path, variables, options)
    raise mat_recipe.unknown_layout(path, variables)


_MAT_LAYOUTS: tuple[tuple[Callable, Callable], ...] = (
    (epfl.is_epfl, epfl.read_epfl),
    (bnci_mat.is_bnci, bnci_mat.read_bnci),
    (speller_mat.is_speller, speller_mat.read_speller),
)


def _read_fif(path: Path, options: ReadOptions) -> AnyRecording:
    epochs = path.name.removesuffix(".gz").endswith(("-epo.fif", "_epo.fif"))
    return (mne_files.read_epochs if epochs else mne_files.read_raw)(path, options)


Reader = Callable[[Path, ReadOptions], AnyRecording | list[AnyRecording]]

_READERS: dict[str, Reader] = {
    ".npz": bundle.read_bundle,
    ".mat": _read_mat,
    ".dat": bci2000.read_bci2000,
    ".fif": _read_fif,
    ".fif.gz": _read_fif,
    ".xdf": xdf.read_xdf,
    ".xdfz": xdf.read_xdf,
}
#: Formats that are read by this package alone, in the process of the user.
_OWN = (".npz", ".dat")
_FOLDER_FORMATS = (".ds", ".mff", ".mefd")
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


def _reader(path: Path) -> Reader:
    suffix = _suffix(path)
    if bids.root_of(path):
        return bids.read_bids
    if suffix not in SUFFIXES and suffix not in _FOLDER_FORMATS:
        raise RecordingError(path, f"files that end in {suffix!r} cannot be read", f"supported: {' '.join(SUFFIXES)}")
    return _READERS.get(suffix, mne_files.read_raw)


def _needed(path: Path) -> list[tuple[str, str]]:
    """The packages that the reader of a file uses, each with the extra that brings it."""
    reader = _reader(path)
    if reader is bids.read_bids:
        return [("mne", "eeg"), ("mne_bids", "bids")]
    if reader is xdf.read_xdf:
        return [("pyxdf", "lsl")]
    if reader is _read_mat or _suffix(path) in _OWN:
        return [("scipy.io", "eeg")]
    # without h5py the error of the reader says what to do
    h5py = [("h5py", "eeg")] if is_hdf5(path) and find_spec("h5py") else []
    return [("mne", "eeg"), *h5py]


def _suffix(path: Path) -> str:
    return ".fif.gz" if path.name.endswith(".fif.gz") else path.suffix.lower()
