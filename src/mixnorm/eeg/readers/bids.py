"""Data sets in the Brain Imaging Data Structure (BIDS), through `mne-bids`.

The root has a file `dataset_description.json`. A recording is ``sub-01[/ses-1]/eeg/sub-01_…_eeg.edf`` (or another
format). Its events, channel types and bad channels are in the tables beside it, which replace those of the recording.
"""

from __future__ import annotations

import io
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path

from mixnorm.eeg.readers.guard import check_size, reading, require
from mixnorm.eeg.readers.mne_files import from_raw
from mixnorm.eeg.readers.options import ReadOptions, who_from_path
from mixnorm.eeg.recording import Recording

#: Formats of EEG in BIDS; BrainVision by its header.
SUFFIXES = (".vhdr", ".edf", ".bdf", ".set")
_DESCRIPTION = "dataset_description.json"
_NAME = re.compile(r"sub-[A-Za-z0-9]+(_[a-z]+-[A-Za-z0-9]+)*_eeg\.[a-z]+")


def root_of(path: Path) -> Path | None:
    """The root of the data set that a folder or a recording belongs to; None where it belongs to none."""
    path = path.absolute()
    if path.is_dir():
        places = [path, *path.parents]
    elif _NAME.fullmatch(path.name) and path.suffix in SUFFIXES:
        places = list(path.parents)
    else:
        return None
    return next((place for place in places if (place / _DESCRIPTION).is_file()), None)


def recordings_below(path: Path) -> list[Path]:
    """The EEG recordings below a folder of a data set, without its derivatives."""
    root = root_of(path)
    # Derivatives have a dataset_description.json of their own, and so another root.
    found = [file for file in sorted(path.rglob("*_eeg.*")) if _NAME.fullmatch(file.name) and file.suffix in SUFFIXES]
    return [file for file in found if root_of(file) == root]


def read_bids(path: Path, options: ReadOptions) -> Recording:
    """One recording with what the tables beside it say."""
    mne_bids = require("mne_bids", "bids")
    with reading(path, "a BIDS recording"):
        # mne-bids warns of every table that is not there, and of events that have no description
        with warnings.catch_warnings(record=True), redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            raw = mne_bids.read_raw_bids(mne_bids.get_bids_path_from_fname(path), verbose="error")
        check_size(path, 8 * len(raw.ch_names) * raw.n_times, options)
        subject, session, told = who_from_path(path, options)
        return from_raw(raw, options, str(path), (subject, session), told)
