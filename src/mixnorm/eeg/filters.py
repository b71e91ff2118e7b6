"""The band-pass filter: SciPy's second-order sections, and zero-phase; `mixnorm.eeg.bridging` has the causal one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import signal as sps

FAMILIES = ("butterworth", "chebyshev1", "butterworth-pair")
PHASES = ("causal", "zero")


def design_sos(
    band: tuple[float | None, float | None], sfreq: float, family: str, order: int, ripple: float
) -> NDArray[np.float64]:
    """Second-order sections of the filter; a band-pass of order N has 2N poles, as in SciPy.

    Parameters
    ----------
    band : (low, high)
        Edges in Hz; None leaves that side open, so that (None, high) is a low-pass.
    sfreq : float
        Sampling rate in Hz; `high` must lie below half of it.
    family : {"butterworth", "chebyshev1", "butterworth-pair"}
        Kind of filter. "butterworth-pair": a high-pass and a low-pass one after the other, as in BCI2000, which is not
        the same filter as a band-pass.
    order : int
        SciPy's N.
    ripple : float
        Pass-band ripple in dB; "chebyshev1" only.
    """
    edges = [edge for edge in band if edge is not None]
    kind = "bandpass" if len(edges) == 2 else ("lowpass" if band[0] is None else "highpass")
    if family == "butterworth-pair" and kind == "bandpass":
        # which of them comes first does not matter, because both are linear
        parts = ((None, edges[1]), (edges[0], None))
        return np.vstack([design_sos(part, sfreq, "butterworth", order, ripple) for part in parts])
    edges = edges if len(edges) == 2 else edges[0]
    if family == "chebyshev1":
        return sps.cheby1(order, ripple, edges, btype=kind, fs=sfreq, output="sos")
    return sps.butter(order, edges, btype=kind, fs=sfreq, output="sos")


def zero_phase(sos: NDArray[np.float64], signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Forward and backward over the whole signal (n_channels, n_samples): no delay, twice the order."""
    out = np.empty(signal.shape)
    # Row by row, so that padding and copies are those of one channel and not of the whole recording.
    for channel, row in enumerate(signal):
        out[channel] = sps.sosfiltfilt(sos, row)
    return out


def bridged(signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """The signal (n_channels, n_samples) with lost samples replaced by straight lines between their neighbours.

    Before the first and after the last finite value, that value is repeated. Without lost samples, the signal itself.
    """
    # one pass and no memory in the usual case
    if np.isfinite(signal.sum()):
        return signal
    out, place = signal.copy(), np.arange(signal.shape[1])
    for row in out:
        there = np.isfinite(row)
        if there.any():
            row[~there] = np.interp(place[~there], place[there], row[there])
    return out
