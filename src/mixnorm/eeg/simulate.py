r"""Simulated P300 recordings whose informative electrodes are known.

A trial on channel c at time t (s) is

.. math:: x_c(t) = y \, g_c \, w(t) + \sigma \, n_c(t), \qquad
          w(t) \propto \cos(2\pi \cdot 2.5 (t - 0.36)) \exp(-\tfrac12 ((t - 0.42)/0.28)^2)

with y = 1 for targets and 0 for the rest, the mean of w over the eight samples removed, ‖w‖ = 0.0945, the
gains g of the informative channels ``linspace(0.6, 1.4)`` scaled to RMS 1 and zero elsewhere, and n standard
normal noise, correlated over the scalp on request. The defaults are the setting of the paper's Table 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import Events
from mixnorm.eeg.positions import HEAD_RADIUS, electrode_positions
from mixnorm.eeg.recording import Recording

# Parietal and central sites first, where the P300 is largest.
#: The 64 electrodes that simulations draw from, in the order in which they are used.
# fmt: off
ELECTRODES = (
    "Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8", "C3", "C4", "F3", "F4", "Fp1", "Fp2", "T7", "T8",
    "P7", "P8", "O1", "O2", "CP1", "CP2", "FC1", "FC2", "CP5", "CP6", "FC5", "FC6", "F7", "F8", "AF3", "AF4",
    "POz", "PO3", "PO4", "CPz", "FCz", "AFz", "Fpz", "Iz", "C1", "C2", "C5", "C6", "P1", "P2", "P5", "P6",
    "CP3", "CP4", "FC3", "FC4", "F1", "F2", "F5", "F6", "FT7", "FT8", "TP7", "TP8", "AF7", "AF8", "T9", "T10",
)
# fmt: on

#: Sample times of a simulated trial, in seconds after the stimulus.
TIMES = np.arange(8) / 8

# with which results resemble the paper's Table 1; the paper gives no amplitude
_WAVE_NORM = 0.0945


@dataclass(frozen=True)
class Simulated:
    """Trials of one simulated subject, and which electrodes are informative.

    Attributes
    ----------
    X : (n_trials, n_channels, n_times) array
        The trials.
    y : (n_trials,) array
        1 for targets, 0 for the rest.
    ch_names : tuple of str
        Names of the electrodes, one per channel.
    informative : tuple of str
        Names of the electrodes that carry the wave.
    times : (n_times,) array
        Seconds after the stimulus.

    See Also
    --------
    simulated_p300 : Draws the trials.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_p300
    >>> data = simulated_p300(20, n_channels=4, n_informative=2)
    >>> data.X.shape, data.informative
    ((20, 4, 8), ('Fz', 'Cz'))
    """

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    ch_names: tuple[str, ...]
    informative: tuple[str, ...]
    times: NDArray[np.float64] = field(repr=False)

    def to_recording(self) -> Recording:
        """The trials one after the other as a continuous recording at 8 Hz, for `to_raw`.

        Unfiltered and cut at its events, 8 samples in 1 s, it contains exactly these trials.

        Returns
        -------
        Recording
            With one event for each trial.
        """
        return _end_to_end(self.X, self.y, self.ch_names, "S1")


@dataclass(frozen=True)
class Cohort:
    """Trials of several simulated subjects, and which electrodes are informative.

    Attributes
    ----------
    X : (n_trials, n_channels, n_times) array
        The trials of all subjects.
    y : (n_trials,) array
        1 for targets, 0 for the rest.
    subject : (n_trials,) array of str
        Whose trial it is.
    ch_names : tuple of str
        Names of the electrodes, one per channel.
    common : tuple of str
        Electrodes that are informative in all subjects.
    own : dict of str to tuple of str
        By subject: electrodes that are informative in this subject only.
    times : (n_times,) array
        Seconds after the stimulus.

    See Also
    --------
    simulated_cohort : Draws the trials.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_cohort
    >>> data = simulated_cohort(2, 10, n_common=2)
    >>> data.X.shape, data.common, list(data.own)
    ((20, 16, 8), ('Fz', 'Cz'), ['S1', 'S2'])
    """

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    subject: NDArray[np.str_] = field(repr=False)
    ch_names: tuple[str, ...]
    common: tuple[str, ...]
    own: dict[str, tuple[str, ...]]
    times: NDArray[np.float64] = field(repr=False)

    def to_recordings(self) -> list[Recording]:
        """One continuous recording per subject, as `Simulated.to_recording` makes it.

        Returns
        -------
        list of Recording
            In the order of the subjects.
        """
        return [
            _end_to_end(self.X[self.subject == who], self.y[self.subject == who], self.ch_names, who)
            for who in self.own
        ]


def simulated_p300(
    n_trials: int = 1000,
    *,
    n_channels: int = 16,
    n_informative: int = 8,
    noise: float = 0.2,
    noise_correlation: float = 0.0,
    target_fraction: float = 0.5,
    seed: int = 0,
) -> Simulated:
    """Draw trials of the paper's simulated set (Table 1): 16 channels × 8 samples over 1 s, 8 of them informative.

    Parameters
    ----------
    n_trials : int
        Number of trials. The paper's run is 1000 to train on and 10000 to test on: take 11000 and split.
    n_channels : int
        Number of electrodes, at most 64.
    n_informative : int
        How many of them carry the wave.
    noise : float
        Standard deviation of the noise.
    noise_correlation : float in [0, 1)
        Correlation of the noise at two electrodes in the same place; falls off with the distance d as
        exp(−d / 4.75 cm).
    target_fraction : float in (0, 1)
        Share of target trials.
    seed : int
        The same seed gives the same trials.

    Returns
    -------
    Simulated
        The trials, and which electrodes are informative.

    See Also
    --------
    simulated_cohort : Trials of several subjects.
    simulated_recording : A continuous recording.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_p300
    >>> trials = simulated_p300(11_000, seed=3)
    >>> trials.X.shape, int(trials.y[:1000].sum() > 400), trials.informative[:3]
    ((11000, 16, 8), 1, ('Fz', 'Cz', 'Pz'))
    """
    names = electrodes(n_channels, n_informative)
    rng = np.random.default_rng(seed)
    y = _labels(n_trials, target_fraction, rng)
    pattern = np.zeros((n_channels, len(TIMES)))
    pattern[:n_informative] = np.outer(gains(n_informative), p300_wave(TIMES))
    X = y[:, None, None] * pattern + noise * _scalp_noise((n_trials, len(TIMES)), names, noise_correlation, rng)
    return Simulated(X, y, names, names[:n_informative], TIMES)


def simulated_cohort(
    n_subjects: int = 8,
    n_trials: int = 300,
    *,
    n_common: int = 6,
    n_own: int = 1,
    difference: float = 0.2,
    seed: int = 0,
) -> Cohort:
    """Several subjects with 16 channels, common informative electrodes and a given difference between subjects.

    Parameters
    ----------
    n_subjects : int
        Number of subjects.
    n_trials : int
        Trials of each subject, half of them targets.
    n_common : int
        Electrodes that carry the wave in every subject.
    n_own : int
        Further electrodes that carry it in one subject only, drawn for each.
    difference : float in [0, 1]
        0: all subjects have the same wave and gains (UAM is nearly so); 1: latencies are spread by 100 ms
        (standard deviation) and gains drawn anew for each subject (EPFL).
    seed : int
        The same seed gives the same trials.

    Returns
    -------
    Cohort
        The trials of all subjects, and which electrodes are informative.

    See Also
    --------
    simulated_p300 : Trials of one subject.
    mixnorm.MultiTaskGroupSVCCV : The joint fit of several subjects.

    Examples
    --------
    >>> cohort = simulated_cohort(3, 40, n_common=4, n_own=2, seed=1)
    >>> cohort.X.shape, sorted(cohort.own), cohort.common
    ((120, 16, 8), ['S1', 'S2', 'S3'], ('Fz', 'Cz', 'Pz', 'Oz'))
    """
    if not 0.0 <= difference <= 1.0:
        raise ValueError(f"Invalid value for 'difference': it must lie in [0, 1], but got {difference}.")
    names = electrodes(16, n_common + n_own)
    rng = np.random.default_rng(seed)
    subjects = [f"S{index + 1}" for index in range(n_subjects)]
    own, trials, labels = {}, [], []
    for subject in subjects:
        # from the electrodes that are not common
        chosen = np.sort(n_common + rng.permutation(len(names) - n_common)[:n_own])
        own[subject] = tuple(names[channel] for channel in chosen)
        y = _labels(n_trials, 0.5, rng)
        pattern = _own_pattern(np.r_[np.arange(n_common), chosen], len(names), difference, rng)
        trials.append(y[:, None, None] * pattern + 0.2 * _scalp_noise((n_trials, len(TIMES)), names, 0.0, rng))
        labels.append(y)
    whose = np.repeat(subjects, n_trials)
    return Cohort(np.concatenate(trials), np.concatenate(labels), whose, names, names[:n_common], own, TIMES)


def p300_wave(times: NDArray[np.float64], latency: float = 0.0) -> NDArray[np.float64]:
    """The wave w at `times` (s), shifted by `latency` (s), in the scale of eight samples a second."""

    def raw(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.cos(2 * np.pi * 2.5 * (t - 0.36)) * np.exp(-0.5 * ((t - 0.42) / 0.28) ** 2)

    # Mean and norm are those of the unshifted wave on eight samples, whatever the times asked for.
    reference = raw(TIMES)
    scale = _WAVE_NORM / np.linalg.norm(reference - reference.mean())
    return scale * (raw(np.asarray(times) - latency) - reference.mean())


def _end_to_end(X: NDArray[np.float64], y: NDArray[np.int64], ch_names: tuple[str, ...], subject: str) -> Recording:
    n_trials, n_channels, n_times = X.shape
    signal = X.transpose(1, 0, 2).reshape(n_channels, n_trials * n_times)
    events = Events.of(n_times * np.arange(n_trials), y)
    places = electrode_positions(ch_names)
    return Recording(signal, ch_names, float(n_times), events, subject, "1", "simulated", places)


def electrodes(n_channels: int, n_informative: int) -> tuple[str, ...]:
    """The names of so many electrodes; the first of them are the informative ones."""
    if not 1 <= n_channels <= len(ELECTRODES):
        raise ValueError(f"Invalid value for 'n_channels': 1 to {len(ELECTRODES)} are known, but got {n_channels}.")
    if not 0 <= n_informative <= n_channels:
        raise ValueError(f"{n_informative} informative electrodes asked for, but there are {n_channels} channels.")
    return ELECTRODES[:n_channels]


def _labels(n_trials: int, target_fraction: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Targets in random places, their number as near to the fraction as whole trials allow."""
    if not 0.0 < target_fraction < 1.0:
        raise ValueError(f"Invalid value for 'target_fraction': it must lie in (0, 1), but got {target_fraction}.")
    return rng.permutation(np.arange(n_trials) < round(n_trials * target_fraction)).astype(np.int64)


def gains(n_informative: int) -> NDArray[np.float64]:
    """The gains g of the informative channels, of RMS 1 whatever their number, so that the size of the wave stays."""
    rising = np.linspace(0.6, 1.4, n_informative)
    return rising / np.sqrt(np.mean(rising**2)) if n_informative else rising


def _own_pattern(
    informative: NDArray[np.int64], n_channels: int, difference: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """One subject's target response (n_channels, n_times): the common one and its own share."""
    common = gains(len(informative))
    # A permutation keeps the RMS of the gains: subjects differ in where the response is, not in its size.
    own = (1 - difference) * common + difference * rng.permutation(common)
    pattern = np.zeros((n_channels, len(TIMES)))
    pattern[informative] = np.outer(own, p300_wave(TIMES, latency=0.1 * difference * rng.standard_normal()))
    return pattern


def _scalp_noise(
    shape: tuple[int, int], names: tuple[str, ...], correlation: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Unit noise (trials, channels, times), independent over trials and times."""
    if not 0.0 <= correlation < 1.0:
        raise ValueError(f"Invalid value for 'noise_correlation': it must lie in [0, 1), but got {correlation}.")
    n_trials, n_times = shape
    white = rng.standard_normal((n_trials, len(names), n_times))
    if correlation == 0.0:
        return white
    return np.einsum("cd,ndt->nct", scalp_mixing(names, correlation), white)


def scalp_mixing(names: tuple[str, ...], correlation: float) -> NDArray[np.float64]:
    """L with L L' = (1 − ρ) I + ρ exp(−2 d / head radius): makes white noise spatially correlated."""
    places = electrode_positions(names)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    covariance = (1 - correlation) * np.eye(len(names)) + correlation * np.exp(-2 * distances / HEAD_RADIUS)
    return np.linalg.cholesky(covariance)
