"""A simulated continuous recording of a speller, with the wave and the electrodes of `mixnorm.eeg.simulate`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mixnorm.eeg.events import Events
from mixnorm.eeg.positions import electrode_positions
from mixnorm.eeg.recording import Recording
from mixnorm.eeg.simulate import electrodes, gains, p300_wave, scalp_mixing


def simulated_recording(
    n_trials: int = 240,
    *,
    n_channels: int = 16,
    n_informative: int = 8,
    sfreq: float = 256.0,
    amplitude: float = 5.0,
    seed: int = 0,
) -> Recording:
    """A continuous recording of a 6 × 6 speller: 12 stimulus codes, 2 of them targets, 10 rounds a character.

    Flashes come every 250 ms, so that responses overlap; the noise has 8 µV and is correlated in
    time (0.9 from one 256th of a second to the next) and over the scalp. `to_raw`
    makes an MNE Raw of it.

    Parameters
    ----------
    n_trials : int
        Number of flashes.
    n_channels, n_informative : int
        Number of electrodes, at most 64, and how many of them carry the response.
    sfreq : float
        Sampling rate in Hz.
    amplitude : float
        Peak of the response, in µV, at gain 1.
    seed : int
        The same seed gives the same recording.

    Returns
    -------
    Recording
        With events that have labels, stimulus codes and characters.

    See Also
    --------
    simulated_p300 : Trials that are cut already.
    prepare : From a recording to trials.
    to_raw : From a recording to MNE.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_recording
    >>> recording = simulated_recording(24, n_channels=4, n_informative=2)
    >>> recording.ch_names, int(recording.events.target.sum())
    (('Fz', 'Cz', 'Pz', 'Oz'), 4)
    """
    names = electrodes(n_channels, n_informative)
    rng = np.random.default_rng(seed)
    character, stimulus, target = _flashes(n_trials, rng)
    seconds = 2.0 + 0.25 * np.arange(n_trials) + 2.0 * character
    onset = np.rint(seconds * sfreq).astype(np.int64)
    n_samples = onset[-1] + round(1.5 * sfreq)
    # the same decay per second at any rate
    memory = 0.9 ** (256.0 / sfreq)
    # scaled so that the autoregressive process has a standard deviation of 8 µV
    white = rng.standard_normal((n_channels, n_samples)) * 8.0 * np.sqrt(1 - memory**2)
    signal = scalp_mixing(names, 0.5) @ lfilter([1.0], [1.0, -memory], white, axis=1)
    wave = p300_wave(np.arange(round(sfreq)) / sfreq)
    response = np.outer(gains(n_informative), amplitude * wave / np.abs(wave).max())
    for at in onset[target == 1]:
        signal[:n_informative, at : at + response.shape[1]] += response
    events = Events.of(onset, target, stimulus, character)
    return Recording(signal, names, float(sfreq), events, "S1", "1", "simulated", electrode_positions(names))


def _flashes(
    n_trials: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Character, code and label of each flash: random rounds of 12, one row and one column attended."""
    rounds = -(-n_trials // 12)
    stimulus = np.concatenate([rng.permutation(12) + 1 for _ in range(rounds)])[:n_trials]
    character = np.arange(n_trials) // 120
    # codes 1–6 are rows, 7–12 columns
    attended = rng.integers([1, 7], [7, 13], size=(character[-1] + 1, 2))
    return character, stimulus, np.any(attended[character] == stimulus[:, None], axis=1).astype(np.int64)
