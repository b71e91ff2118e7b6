"""What a user can say about a source that the source itself does not."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.recording import RecordingError

#: What to do with events whose labels are not known.
UNLABELLED = "to score it without labels, give unlabelled=True"

#: Name of the subject where neither the source nor the user gives one.
NOBODY = "unknown"


@dataclass(frozen=True)
class ReadOptions:
    """Options of `read_recording`.

    Parameters
    ----------
    target : tuple of str
        Names (or codes, as text) of the events that are targets; by default those called Target, oddball,
        deviant or error.
    nontarget : tuple of str
        Names of the non-target events; by default those called NonTarget, standard or correct or, when `target` is
        given, every other stimulus.

    drop : tuple of str
        Channels to leave out.
    ch_names : tuple of str
        Names of the channels, for formats that have none.
    sfreq : float
        Sampling rate in Hz, for formats that have none.
    unlabelled : bool
        Use every stimulus, with or without a label; for recordings that are only scored.
    subject, session : str
        Used instead of those of the source or its path.
    recipe : str or dict
        What the variables of a ``.mat`` file, or the streams of an XDF file, mean where the reader cannot tell:
        "signal=EEG,labels=trig,rate=fs". See `mixnorm.eeg.readers.recipe`.
    max_gib : float
        The most data that one file may have, in GiB.
    isolate : bool
        Read files of formats that SciPy, MNE and other libraries read in a process of its own, with limits on time and
        memory. False saves the start of that process, for files that you trust.
    use_bads : bool
        Use what the source marks as bad: channels in MNE's ``info["bads"]``, and trials that overlap an annotation
        whose name begins with BAD.

    See Also
    --------
    read_recording : Takes these options by name.
    read_recordings : Takes them for several sources.

    Examples
    --------
    >>> from mixnorm.eeg import ReadOptions
    >>> ReadOptions(target="oddball", drop=("EOG",)).target  # one name may be given as a string
    ('oddball',)
    """

    target: tuple[str, ...] = ()
    nontarget: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    ch_names: tuple[str, ...] = ()
    sfreq: float | None = None
    unlabelled: bool = False
    subject: str | None = None
    session: str | None = None
    recipe: str | dict[str, str] | None = None
    max_gib: float = 4.0
    isolate: bool = True
    use_bads: bool = False

    def __post_init__(self) -> None:
        for field in fields(self)[:4]:
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, (value,) if isinstance(value, str) else tuple(value))
        if not 0 < self.max_gib < float("inf"):
            raise ValueError(f"max_gib={self.max_gib} must be a positive number, such as 8.")

    @property
    def max_bytes(self) -> float:
        """The most data that one file may have, in bytes."""
        return self.max_gib * 2**30

    def names_for(self, n_channels: int, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Channel names for a format that has none, and notes on where they come from.

        Parameters
        ----------
        n_channels : int
            Number of channels of the source.
        source : str
            Name of the source, for the error.

        Returns
        -------
        names : tuple of str
            One for each channel.
        notes : tuple of str
            For `Recording.notes`.
        """
        if not self.ch_names:
            note = "the file has no channel names: channels are numbered; give names with ch_names=…"
            return tuple(f"ch{channel + 1}" for channel in range(n_channels)), (note,)
        if len(self.ch_names) != n_channels:
            raise RecordingError(
                source,
                f"{len(self.ch_names)} channel names for {n_channels} channels",
                "give one name for each channel",
            )
        return self.ch_names, ("channel names as given",)


@dataclass(frozen=True)
class Labels:
    """Which events are stimuli (`chosen`, a mask), whether targets, and how that was decided."""

    chosen: NDArray[np.bool_]
    target: NDArray[np.int64]
    note: str


_TARGETS = ("target", "oddball", "deviant", "error")
_NONTARGETS = ("nontarget", "standard", "correct")
# Events that recording programs write by themselves, and annotations of bad segments by MNE.
_NOT_STIMULI = ("bad", "edge", "boundary", "newsegment")


def labels_of(names: Sequence[str], options: ReadOptions, source: str) -> Labels:
    """Targets and non-targets among event names; a name may have several tags, separated by slashes."""
    # Where the user names targets, everything else that is a stimulus is a non-target.
    targets = {_plain(name) for name in options.target or _TARGETS}
    others = {_plain(name) for name in options.nontarget or (() if options.target else _NONTARGETS)}
    # MNE's tags are separated by slashes; the whole name is a tag too, for names that contain a slash.
    tags = [{_plain(tag) for tag in name.split("/")} | {_plain(name)} for name in names]
    label = np.array([_label(mine, targets, others) for mine in tags], dtype=np.int64)
    if options.unlabelled:
        stimulus = np.array([not any(tag.startswith(_NOT_STIMULI) for tag in mine) for mine in tags], dtype=bool)
        return Labels(stimulus, label[stimulus], "all stimuli taken, with or unlabelled")
    if not np.any(label == 1) or not np.any(label == 0):
        found = ", ".join(f"{name!r} ({count})" for name, count in sorted(Counter(names).items())[:20])
        raise RecordingError(
            source,
            f"targets and non-targets are not recognised among its events: {found}"
            if names
            else "no events were found",
            f"name them with target=… and nontarget=…; {UNLABELLED}"
            if names
            else "check that the triggers were recorded",
        )
    words = [sorted({names[index] for index in np.flatnonzero(label == value)})[:3] for value in (1, 0)]
    note = f"targets are the events named {', '.join(words[0])}; non-targets {', '.join(words[1])}"
    return Labels(label != UNKNOWN, label[label != UNKNOWN], note)


def is_mark(name: str) -> bool:
    """Whether an event marks a segment of the recording, or was written by the recording program: no stimulus."""
    return any(_plain(tag).startswith(_NOT_STIMULI) for tag in name.split("/"))


def tagged_numbers(names: Sequence[str], word: str) -> NDArray[np.int64]:
    """The number after `word` in each name, as in "Target/stimulus 3/character 0"; −1 without one."""
    found = [re.search(rf"\b{word}[ =_-]?(\d{{1,9}})(?!\d)", name) for name in names]
    return np.array([int(match.group(1)) if match else UNKNOWN for match in found], dtype=np.int64)


# "stim 7", "Flash_7", "S  7" (BrainVision), or the number alone, as in "Target/7"
_CODE = re.compile(r"(?:stimulus|stim|flash|code|s)?[ =_:#-]*(\d{1,9})", re.IGNORECASE)


def stimulus_codes(names: Sequence[str]) -> NDArray[np.int64]:
    """The code of what was shown in each name, as in "Target/stimulus 3", "Target/7" or "stim 7"; −1 without one.

    Examples
    --------
    >>> stimulus_codes(["Target/stimulus 3/character 0", "Target/7", "stim 7", "Stimulus/S 12", "blink"])
    array([ 3,  7,  7, 12, -1])
    """
    spelled = tagged_numbers(names, "stimulus")
    tags = [next(filter(None, (_CODE.fullmatch(tag.strip()) for tag in name.split("/"))), None) for name in names]
    short = np.array([int(match.group(1)) if match else UNKNOWN for match in tags], dtype=np.int64)
    return np.where(spelled != UNKNOWN, spelled, short)


def characters_from_pauses(onset: NDArray[np.int64]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Count characters by the pauses between them: five times the usual interval or longer."""
    if len(onset) < 3:
        return np.full(len(onset), UNKNOWN), ()
    gaps = np.diff(onset)
    # The usual interval is that between flashes; pauses between characters last seconds.
    pauses = gaps >= 5 * np.median(gaps)
    # one character, or a run without characters: nothing tells them apart
    if not pauses.any():
        return np.full(len(onset), UNKNOWN), ()
    character = np.concatenate([[0], np.cumsum(pauses)])
    return character, (f"{character[-1] + 1} characters, inferred from the pauses between them",)


_PATH_PATTERNS = (
    re.compile(r"subject(?P<subject>\d+)[/\\]session(?P<session>\d+)", re.IGNORECASE),
    re.compile(r"sub-(?P<subject>[A-Za-z0-9]+)(?:.*ses-(?P<session>[A-Za-z0-9]+))?"),
    re.compile(r"(?P<subject>S\d+)_Sess(?P<session>\d+)"),
    # BCI2000's own file names: subject, session of three digits, run of two
    re.compile(r"(?P<subject>[A-Za-z]+?)S?(?P<session>\d{3})R\d{2}$"),
)


def who_from_path(path: Path, options: ReadOptions) -> tuple[str, str, tuple[str, ...]]:
    """Subject and session as given, or from the path, or "unknown" and the name of the file."""
    # the whole path, because subject and session are often folders
    text = str(path.with_suffix(""))
    match = next((found for pattern in _PATH_PATTERNS if (found := pattern.search(text))), None)
    told = match.groupdict() if match else {}
    subject = subject_of(path, told.get("subject"), options) or NOBODY
    session = options.session or told.get("session") or path.stem
    inferred = [
        f"{what} {value} from the path"
        for what, value, given in (
            ("subject", subject, options.subject),
            ("session", session, options.session),
        )
        if not given and value != NOBODY
    ]
    return subject, session, (", ".join(inferred),) if inferred else ()


def subject_of(source: object, told: str | None, options: ReadOptions) -> str | None:
    """The subject as given, with a warning where the source names another; otherwise that of the source."""
    if options.subject and told and options.subject != told:
        warnings.warn(
            f"{source}: the source names subject {told}, but subjects=… names {options.subject}, which is used; check "
            "that the names are in the order of the recordings",
            RuntimeWarning,
            stacklevel=2,
        )
    return options.subject or told


def _label(tags: set[str], targets: set[str], others: set[str]) -> int:
    if tags & targets:
        return 1
    if others:
        return 0 if tags & others else UNKNOWN
    return UNKNOWN if any(tag.startswith(_NOT_STIMULI) for tag in tags) else 0


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())
