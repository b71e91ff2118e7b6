"""The preparation of a recording: everything that is done before the classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.schema import Either, Many, Number, Record, Text, Whole, Word, check, or_none
from mixnorm.eeg.filters import FAMILIES, PHASES, design_sos
from mixnorm.eeg.rejection import check_reject
from mixnorm.eeg.sample_grid import SampleGrid
from mixnorm.eeg.scaling import SCALINGS, ChannelScaler

REDUCTIONS = ("pick", "mean")
#: Filters of a higher order are unstable, and one of order 1e9 would never be ready.
_HIGHEST_ORDER = 50

_SPAN = or_none(Many(Number(-1e4, 1e4), least=2, most=2))
_COUNT = or_none(Whole(1, 1_000_000))
#: The fields as files have them (model files, plans); a new field needs a line here.
FIELDS = Record(
    optional={
        "reference": or_none(Either(Text(), Many(Text(), least=1, most=10_000))),
        "band": or_none(Many(or_none(Number(0, 1e9)), least=2, most=2)),
        "family": Word(*FAMILIES),
        "order": Whole(1, _HIGHEST_ORDER),
        "ripple": Number(0, 1000),
        "phase": Word(*PHASES),
        "window": _SPAN,
        "n_samples": _COUNT,
        "decimation": _COUNT,
        "reduce": Word(*REDUCTIONS),
        "baseline": _SPAN,
        "scaling": Word(*SCALINGS),
        "clip": or_none(Number(0)),
        "reject": or_none(Either(Word("auto"), Number(0))),
    }
)


@dataclass(frozen=True)
class Preparation:
    """Reference, filter, window, samples, baseline and scaling, in the order in which they are applied.

    The continuous signal is re-referenced and filtered *before* it is cut. Scaling and clipping are
    learned on training trials only, by the `ChannelScaler` that `scaler`
    builds.

    Parameters
    ----------
    reference : None, "average" or tuple of channel names
        The mean of these channels is subtracted from all; named ones are then left out, as mastoids are.
    band : (low, high) or None
        Hz; None: not filtered. One of the two may be None.
    family : {"butterworth", "chebyshev1", "butterworth-pair"}
        Kind of filter; see `mixnorm.eeg.filters.design_sos`.
    order : int
        SciPy's N: a band-pass has 2N poles, and twice as many when run forward and backward.
    ripple : float
        Pass-band ripple in dB, "chebyshev1" only.
    phase : {"causal", "zero"}
        Causal filters delay the response and can run on a stream; zero-phase filters use later samples.
    window : (start, stop) or None
        Seconds relative to the stimulus, stop not included. None (epochs only): the whole epoch.
    n_samples : int or None
        Samples per channel, evenly spaced over the window. None: every sample, or every `decimation`-th.
    decimation : int or None
        Take every `decimation`-th sample from the start of the window; `n_samples` is then their maximum number.
    reduce : {"pick", "mean"}
        The sample itself, or the mean from it up to the next.
    baseline : (start, stop) or None
        Seconds; the mean over it is subtracted from each channel of each trial.
    scaling : {"robust", "standard", "windsor", "none"}
        How amplitudes are scaled; see `ChannelScaler`.
    clip : float or None
        Limit of the amplitudes, in the units of `scaling`.
    reject : float, "auto" or None
        Peak-to-peak limit of training trials, in µV or learned from them; None: no limit. See `ChannelScaler`.

    See Also
    --------
    prepare : Applies it to recordings.
    default_preparation : The one that ``mixnorm select`` and ``mixnorm train`` use.
    ChannelScaler : Scaling, clipping and rejection.

    Examples
    --------
    >>> from mixnorm.eeg import Preparation
    >>> Preparation.preset("epfl").times(2048.0)
    array([0.   , 0.125, 0.25 , 0.375, 0.5  , 0.625, 0.75 , 0.875])
    >>> Preparation.from_dict(Preparation().to_dict()) == Preparation()
    True
    """

    reference: str | tuple[str, ...] | None = None
    band: tuple[float | None, float | None] | None = (0.5, 10.0)
    family: str = "butterworth"
    order: int = 2
    ripple: float = 0.5
    phase: str = "causal"
    window: tuple[float, float] | None = (0.1, 0.7)
    n_samples: int | None = 12
    decimation: int | None = None
    reduce: str = "mean"
    baseline: tuple[float, float] | None = None
    scaling: str = "robust"
    clip: float | None = 4.0
    reject: float | str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("family", FAMILIES),
            ("phase", PHASES),
            ("reduce", REDUCTIONS),
            ("scaling", SCALINGS),
        ):
            # Here and not where a value is used: a preparation comes from files and plans, and is used much later.
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"Invalid value for the '{name}' parameter. Allowed values are"
                    f" {', '.join(map(repr, allowed))}, but got {getattr(self, name)!r} instead."
                )
        check_reject(self.reject)
        self._check_spans()
        self._check_counts()

    def _check_spans(self) -> None:
        for name in ("band", "window", "baseline"):
            span = getattr(self, name)
            if span is None:
                continue
            # The class is frozen. JSON and TOML have lists, which are brought to the form that equality compares.
            object.__setattr__(self, name, tuple(None if edge is None else float(edge) for edge in span))
            low, high = getattr(self, name)
            if None not in (low, high) and not low < high:
                raise ValueError(f"Invalid value for '{name}': it must increase, but got {span}.")
        if self.band is not None and (self.band == (None, None) or min(e for e in self.band if e is not None) <= 0):
            raise ValueError(f"Invalid value for 'band': edges must be above 0 Hz, but got {self.band}.")

    def _check_counts(self) -> None:
        if isinstance(self.reference, str) and self.reference != "average":
            object.__setattr__(self, "reference", (self.reference,))
        elif self.reference is not None and self.reference != "average":
            object.__setattr__(self, "reference", tuple(self.reference))
        for name in ("order", "n_samples", "decimation"):
            value = getattr(self, name)
            # 2.0 from a file is 2, and 2.5 is an error
            if value is not None and (value != int(value) or value < 1):
                raise ValueError(f"Invalid value for '{name}': it must be an integer above 0, but got {value}.")
            if value is not None:
                object.__setattr__(self, name, int(value))
        if self.order > _HIGHEST_ORDER:
            raise ValueError(f"Invalid value for 'order': it must be at most {_HIGHEST_ORDER}, but got {self.order}.")

    @classmethod
    def preset(cls, name: str) -> Preparation:
        """One of `PRESETS` by name.

        - "default": for any other recording; means of 50 ms from 100 to 700 ms, causal.
        - "epfl": Hoffmann's steps (2008). Mean of the mastoids as reference; Butterworth 3, 1–8 Hz, forward
          and backward; 0–1 s, 8 samples (every 256th at 2048 Hz); each channel windsorised at its 10th and
          90th percentile and scaled to [−1, 1]. Eight samples a second carry 4 Hz at most, so an 8 Hz signal
          aliases, as the paper's own does: kept as published.
        - "uam": Chebyshev I of order 5, 2–20 Hz, causal; 0–0.6 s, every 5th sample at 256 Hz, 31 in all. The
          paper gives neither ripple (0.5 dB here) nor window.
        - "errp": Butterworth 4, 1–10 Hz, causal; 0–1 s, 16 samples (every 32nd at 512 Hz).
        - "bci2000": the default with filters that BCI2000 has, a Butterworth high-pass and low-pass, each of order 2
          and by itself, and without clipping, so that its module for P300 computes the same scores.
        - "epochs": for recordings that are already filtered and cut into epochs; all samples.

        Parameters
        ----------
        name : str
            A key of `PRESETS`.

        Returns
        -------
        Preparation
            Change single settings with `with_`.
        """
        if name not in PRESETS:
            raise ValueError(f"Unknown preset {name!r}; there are {', '.join(map(repr, PRESETS))}.")
        return PRESETS[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: strings, numbers, lists and None.

        Returns
        -------
        dict
            One value for each field, by its name.
        """
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Preparation:
        """The preparation that `to_dict` described.

        Parameters
        ----------
        description : mapping
            Values by name; fields that are missing have their defaults.

        Returns
        -------
        Preparation
            All values are checked.
        """
        # Before the schema, whose message would speak of a later version: here a plan may have a spelling mistake.
        unknown = set(description) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"Unknown field of a preparation: {', '.join(sorted(unknown))}.")
        check(FIELDS, description, "Invalid preparation")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in description.items()})

    def describe(self) -> str:
        """A short description.

        Returns
        -------
        str
            One line.

        Examples
        --------
        >>> Preparation().describe(), Preparation.preset("epochs").describe()
        ('0.5–10 Hz, 100–700 ms, 12 samples', 'as cut before')
        >>> Preparation(reject=150).describe()
        '0.5–10 Hz, 100–700 ms, 12 samples, limit 150 µV in training'
        """
        parts = []
        if self.reference is not None:
            parts.append(
                f"reference {self.reference if isinstance(self.reference, str) else ', '.join(self.reference)}"
            )
        if self.band is not None:
            # an open side is left empty, as in "–10 Hz"
            low, high = ("" if edge is None else f"{edge:g}" for edge in self.band)
            parts.append(f"{low}–{high} Hz")
        if self.window is not None:
            parts.append(f"{1000 * self.window[0]:g}–{1000 * self.window[1]:g} ms")
        if self.n_samples is not None:
            parts.append(f"{self.n_samples} samples")
        if self.reject is not None:
            parts.append(f"limit {self.reject if self.reject == 'auto' else f'{self.reject:g} µV'} in training")
        return ", ".join(parts) or "as cut before"

    def with_(self, **changes: Any) -> Preparation:
        """The same preparation with some fields changed.

        Parameters
        ----------
        **changes : dict
            New values by name.

        Returns
        -------
        Preparation
            A new object; this one does not change.
        """
        return replace(self, **changes)

    @property
    def is_causal(self) -> bool:
        """Whether no sample depends on later ones: nothing is filtered, or the filter is causal."""
        return self.band is None or self.phase == "causal"

    def scaler(self) -> ChannelScaler:
        """The transformer that learns scaling, clipping and rejection on training trials.

        Returns
        -------
        ChannelScaler
            Not fitted yet.
        """
        return ChannelScaler(self.scaling, self.clip, self.reject)

    def sos(self, sfreq: float) -> NDArray[np.float64] | None:
        """Second-order sections at this rate (Hz), or None when nothing is filtered.

        Parameters
        ----------
        sfreq : float
            Sampling rate of the recording.

        Returns
        -------
        (n_sections, 6) array or None
            As SciPy's filters take it.
        """
        if self.band is None:
            return None
        # SciPy's own error speaks of normalised frequencies.
        top = max(edge for edge in self.band if edge is not None)
        if top >= sfreq / 2:
            raise ValueError(f"the sampling rate of {sfreq:g} Hz is too low for a filter up to {top:g} Hz")
        return design_sos(self.band, sfreq, self.family, self.order, self.ripple)

    def grid(self, sfreq: float) -> SampleGrid:
        """Which samples around a stimulus are used at this rate (Hz).

        Parameters
        ----------
        sfreq : float
            Sampling rate of the recording.

        Returns
        -------
        SampleGrid
            Offsets in samples.
        """
        return SampleGrid.of(self, sfreq)

    def times(self, sfreq: float) -> NDArray[np.float64]:
        """The exact times (s) of the samples at this rate (Hz); with means, their centres.

        Parameters
        ----------
        sfreq : float
            Sampling rate of the recording.

        Returns
        -------
        (n_samples,) array
            Seconds after the stimulus.
        """
        return self.grid(sfreq).times


#: The default, one preset for each of the paper's real data sets, one that BCI2000 can compute, one for recordings
#: already in epochs.
PRESETS: dict[str, Preparation] = {
    "default": Preparation(),
    "epfl": Preparation(
        reference=("MA1", "MA2"),
        band=(1.0, 8.0),
        order=3,
        phase="zero",
        window=(0.0, 1.0),
        n_samples=8,
        reduce="pick",
        scaling="windsor",
        clip=10.0,
    ),
    "uam": Preparation(
        band=(2.0, 20.0),
        family="chebyshev1",
        order=5,
        ripple=0.5,
        phase="causal",
        window=(0.0, 0.6),
        n_samples=31,
        decimation=5,
        reduce="pick",
        scaling="standard",
        clip=None,
    ),
    "errp": Preparation(
        band=(1.0, 10.0),
        order=4,
        phase="causal",
        window=(0.0, 1.0),
        n_samples=16,
        reduce="pick",
        scaling="standard",
        clip=None,
    ),
    "bci2000": Preparation(family="butterworth-pair", scaling="robust", clip=None),
    "epochs": Preparation(band=None, window=None, n_samples=None, reduce="pick"),
}
