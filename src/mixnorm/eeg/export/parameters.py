"""A decoder as parameters of BCI2000: SpatialFilter, IIRBandpass, P3TemporalFilter and LinearClassifier.

The score of a decoder without clipping is affine in the filtered signal: with x_c[o] the signal of channel c, o
samples after the stimulus,

    score = Σ_c Σ_o v_c[o] x_c[o] + constant.

BCI2000's LinearClassifier computes the double sum. The constant is dropped: a speller compares the sums of its
stimuli, to which it makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.cutting import re_referenced
from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.recording import Recording
from mixnorm.version import __version__


class ExportError(ValueError):
    """A decoder that another program cannot compute.

    See Also
    --------
    to_bci2000 : Raises it.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording
    >>> from mixnorm.eeg.export import ExportError, to_bci2000
    >>> decoder = Decoder.fit(simulated_recording(60, n_channels=3, n_informative=2))
    >>> try:
    ...     to_bci2000(decoder)
    ... except ExportError as error:
    ...     print(error)
    BCI2000 has no Butterworth band-pass of 0.5–10 Hz, ...
    """


@dataclass(frozen=True)
class Bci2000Parameters:
    """The text of a parameter file, and what BCI2000 leaves out.

    Attributes
    ----------
    text : str
        Parameter lines.
    constant : float
        What must be added to BCI2000's output to obtain the score.
    notes : tuple of str
        What a user must know.
    """

    text: str
    constant: float
    notes: tuple[str, ...]


def to_bci2000(decoder: Decoder, *, without_clipping: bool = False) -> Bci2000Parameters:
    """Return a decoder as parameters of the P3 signal processing module of BCI2000.

    Parameters
    ----------
    decoder : Decoder
        With a causal filter that BCI2000 has (a Butterworth high-pass, low-pass, or both one after the other, as in
        the preset "bci2000"), or none, and a window that begins at or after the stimulus.
    without_clipping : bool
        Export a decoder that clips amplitudes as one that does not. The scores of trials with large amplitudes change;
        `score_change` says how much.

    Returns
    -------
    Bci2000Parameters
        ``text`` is what the parameter file holds, ``constant`` what must be added to the output of BCI2000 to obtain
        the score, ``notes`` what a user must know.

    Raises
    ------
    ExportError
        Where BCI2000 would compute other scores.

    See Also
    --------
    to_onnx : A model for other programs.
    mixnorm.eeg.Preparation.preset : The preset "bci2000".

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, Preparation, simulated_recording
    >>> from mixnorm.eeg.export import to_bci2000
    >>> recording = simulated_recording(60, n_channels=3, n_informative=2)
    >>> exported = to_bci2000(Decoder.fit(recording, Preparation.preset("bci2000")))
    >>> exported.text.splitlines()[0].split()[2:4]
    ['SamplingRate=', '256Hz']
    """
    _check(decoder, without_clipping)
    weights, constant = sample_weights(decoder)
    used, needed = decoder.used.tolist(), decoder.needed
    names = [decoder.feature_names[feature] for feature in used]
    lines = [
        _line("Source:Signal%20Properties", "int", "SamplingRate", f"{decoder.sfreq:g}Hz", "rate of the model"),
        _line(
            "Source:Online%20Processing",
            "list",
            "TransmitChList",
            f"{len(needed)} {_words(needed)}",
            "channels the model needs",
        ),
        _line("Filtering:SpatialFilter", "int", "SpatialFilterType", "1", "full matrix"),
        _line("Filtering:SpatialFilter", "matrix", "SpatialFilter", _spatial(decoder, names, needed), "reference"),
        *_filter_lines(decoder),
        _line(
            "Filtering:P3TemporalFilter",
            "int",
            "EpochLength",
            f"{_epoch_ms(decoder)}ms",
            "from stimulus to last sample",
        ),
        _line(
            "Filtering:LinearClassifier",
            "matrix",
            "Classifier",
            _classifier(names, weights[used]),
            f"mixnorm {__version__}; score = output + {constant:.17g}",
        ),
    ]
    return Bci2000Parameters("\n".join([*lines, ""]), constant, tuple(_notes(decoder, constant)))


def sample_weights(decoder: Decoder) -> tuple[NDArray[np.float64], float]:
    """Weights v (channels, samples from the stimulus on) and constant of the score of a decoder without clipping.

    A sample of the classifier is the mean over some samples of the signal, minus that over the baseline, minus the
    centre, divided by the scale of its channel.
    """
    grid, scaler = decoder.preparation.grid(decoder.sfreq), decoder.scaler
    w = np.asarray(decoder.classifier.coef_, dtype=np.float64).reshape(len(decoder.feature_names), -1)
    per_microvolt = w / scaler.scale_[:, None]
    # From the stimulus on: BCI2000's epochs begin there, and the window was checked to do so too.
    v = np.zeros((len(w), grid.stop))
    for sample, (first, length) in enumerate(zip(grid.first, grid.length, strict=True)):
        v[:, first : first + length] += per_microvolt[:, [sample]] / length
    if grid.baseline is not None:
        low, high = grid.baseline
        v[:, low:high] -= per_microvolt.sum(axis=1, keepdims=True) / (high - low)
    constant = float(decoder.classifier.intercept_[0]) - float(per_microvolt.sum(axis=1) @ scaler.center_)
    return v, constant


class ScoreChange(NamedTuple):
    """How scores change: the share of trials, and median and largest change in standard deviations of the scores."""

    share: float
    median: float
    largest: float


def score_change(decoder: Decoder, recording: Recording) -> ScoreChange:
    """How the scores of a recording would change with the filters that BCI2000 has, and without clipping."""
    preparation = decoder.preparation.with_(clip=None)
    if preparation.band is not None:
        preparation = preparation.with_(family="butterworth-pair", phase="causal")
    # BCI2000 has no clipping: limits at infinity make ours the same
    scaler = copy(decoder.scaler)
    scaler.lower_, scaler.upper_ = np.full((2, len(scaler.scale_)), np.inf) * [[-1], [1]]
    ours = decoder.predict(recording).score
    theirs = replace(decoder, preparation=preparation, scaler=scaler).predict(recording).score
    known = np.isfinite(ours)
    # in standard deviations, because scores have no unit of their own
    change = np.abs(ours - theirs)[known] / ours[known].std()
    return ScoreChange(float(np.mean(change > 1e-9)), float(np.median(change)), float(change.max()))


def clips(decoder: Decoder) -> bool:
    """Whether the decoder limits amplitudes."""
    return bool(np.isfinite(decoder.scaler.lower_).any() or np.isfinite(decoder.scaler.upper_).any())


def _check(decoder: Decoder, without_clipping: bool) -> None:
    preparation = decoder.preparation
    if preparation.window is None:
        raise ExportError("the model was trained on epochs without a window; train it on a continuous recording")
    band, family = preparation.band, preparation.family
    if not preparation.is_causal:
        raise ExportError("BCI2000 has no zero-phase filter; train the model with the preset 'bci2000'")
    if band is not None and (family == "chebyshev1" or (family == "butterworth" and None not in band)):
        kind = {"chebyshev1": "Chebyshev filter", "butterworth": "Butterworth band-pass"}[family]
        raise ExportError(
            f"BCI2000 has no {kind} of {preparation.describe().split(',')[0]}, only a Butterworth high-pass and "
            "low-pass by themselves; train the model with the preset 'bci2000'"
        )
    if preparation.grid(decoder.sfreq).start < 0:
        raise ExportError(
            "an epoch of BCI2000 begins with the stimulus, but the window or the baseline of the model begins before "
            "it; train the model without that baseline"
        )
    odd = [name for name in decoder.ch_names if name != _latin(name)]
    if odd:
        raise ExportError(f"channel {odd[0]!r} has characters that parameter files cannot contain; rename it")
    if clips(decoder) and not without_clipping:
        raise ExportError(
            f"the model limits amplitudes (clip={preparation.clip:g}), which BCI2000 cannot; train it with the preset "
            "'bci2000', or export it without clipping (--without-clipping), which changes the scores of trials with "
            "large amplitudes"
        )


def _notes(decoder: Decoder, constant: float) -> Iterable[str]:
    yield f"BCI2000's output lacks a constant: the score is the output {constant:+.6g}. A speller needs no constant."
    if decoder.preparation.band is not None:
        yield (
            "The signal processing module must contain IIRBandpass between SpatialFilter and P3TemporalFilter; the P3 "
            "module that comes with BCI2000 has none, and would apply the weights to the unfiltered signal."
        )
    yield "Stimuli must begin with a sample block, as they do in BCI2000; SampleBlockSize is not changed."


def _filter_lines(decoder: Decoder) -> list[str]:
    """Parameters of IIRBandpass; its own values switch off what the model does not have."""
    preparation = decoder.preparation
    low, high = preparation.band or (None, None)
    values = {
        # 0 Hz and order 0 switch a filter off in BCI2000
        "HighPassCorner": f"{low or 0:g}Hz",
        "HighPassOrder": f"{preparation.order if low else 0}",
        "LowPassCorner": f"{high or 0:g}Hz",
        "LowPassOrder": f"{preparation.order if high else 0}",
        "NotchCenter": "0Hz",
        "Downsample": "0",
    }
    if preparation.band is None:
        return []
    section = "Filtering:IIR%20Bandpass"
    kinds = {name: "float" if value.endswith("Hz") else "int" for name, value in values.items()}
    return [_line(section, kinds[name], name, value, "filter of the model") for name, value in values.items()]


def _spatial(decoder: Decoder, names: Sequence[str], needed: Sequence[str]) -> str:
    """The matrix that re-references: one row per channel of the classifier, one column per recorded channel."""
    # Re-referencing is linear: what it makes of the identity is its matrix.
    referenced, rows = re_referenced(np.eye(len(needed)), needed, decoder.preparation)
    matrix = referenced[[rows.index(name) for name in names]]
    values = " ".join(f"{value:.17g}" for value in matrix.ravel())
    return f"{{ {_words(names)} }} {{ {_words(needed)} }} {values}"


def _classifier(names: Sequence[str], weights: NDArray[np.float64]) -> str:
    """Rows (input channel, input element, output channel, weight); elements count from 1, the stimulus' sample."""
    rows = [
        f"{_words([name])} {offset + 1} 1 {own[offset]:.17g}"
        for name, own in zip(names, weights, strict=True)
        for offset in np.flatnonzero(own)
    ]
    columns = "{ input%20channel input%20element%20(bin) output%20channel weight }"
    return f"{len(rows)} {columns} {' '.join(rows)}"


def _epoch_ms(decoder: Decoder) -> int:
    """Length of an epoch, rounded up to a millisecond: the samples after the last one have no weight."""
    return int(np.ceil(1000 * decoder.preparation.grid(decoder.sfreq).stop / decoder.sfreq))


def _line(section: str, kind: str, name: str, value: str, comment: str) -> str:
    return f"{section} {kind} {name}= {value} // {comment}"


def _words(names: Iterable[str]) -> str:
    """Names with the URL-like encoding of parameter files, which are in Latin-1."""
    return " ".join(quote(name, safe="'+-_.()", encoding="latin-1") for name in names)


def _latin(name: str) -> str:
    return name.encode("latin-1", errors="replace").decode("latin-1")
