"""Stability selection: how often a sensor is selected from half of the trials, with a bound on false selections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from mixnorm.core.problem import Stack
from mixnorm.estimators.elimination import check_strategy, elimination_noise, elimination_order
from mixnorm.estimators.entry_order import entry_order
from mixnorm.estimators.inputs import class_balance, encode_labels, read_fit
from mixnorm.estimators.objective import Objective, as_noise
from mixnorm.estimators.quadratic import check_enough_trials
from mixnorm.estimators.trained import Trained
from mixnorm.execution import SolverOptions

#: The value of ``error_bound`` from which the default threshold is computed.
_ALLOWED = 1.0


@dataclass(frozen=True, eq=False)
class StabilitySelection:
    """Result of `stability_selection`.

    Attributes
    ----------
    frequencies : ndarray of shape (G,)
        Share of the halves in which a sensor was among the first ``n_sensors``.
    groups : ndarray of shape (G,)
        Labels of the sensors, in the order of the frequencies.
    selected : ndarray
        Labels of the sensors with a frequency of at least ``threshold``.
    threshold : float
        Smallest frequency of a selected sensor.
    error_bound : float
        E[V] ≤ n_sensors² / ((2 threshold − 1) G): upper bound on the expected number V of falsely selected sensors. A
        sensor in ``selected`` is false if half of the trials select it no more often than a random choice would
        (Meinshausen and Bühlmann 2010, Theorem 1; in this form, without further assumptions, Shah and Samworth 2013,
        Theorem 1).
    unimodal_bound : float
        A smaller bound, which assumes that the distribution of the frequencies of such sensors over pairs of halves is
        unimodal (Shah and Samworth 2013, Theorem 2).
    n_sensors : int
        Number of sensors selected from each half.
    n_resamplings : int
        Number of pairs of complementary halves.

    See Also
    --------
    stability_selection : Computes it.

    Examples
    --------
    >>> from mixnorm import stability_selection
    >>> from mixnorm.eeg import simulated_p300
    >>> data = simulated_p300(200, noise=0.05, n_channels=6, n_informative=2, seed=0)
    >>> found = stability_selection(data.X, data.y, n_resamplings=5)
    >>> found.frequencies.shape, 2 * found.n_resamplings  # sensors, halves of the trials
    ((6,), 10)
    """

    frequencies: np.ndarray
    groups: np.ndarray
    selected: np.ndarray
    threshold: float
    error_bound: float
    unimodal_bound: float
    n_sensors: int
    n_resamplings: int

    @property
    def statement(self) -> str:
        """The bound in words."""
        return (
            f"At most {self.error_bound:.1f} falsely chosen sensors are expected among the {len(self.selected)} that "
            f"were among the first {self.n_sensors} in at least {100 * self.threshold:.0f} % of "
            f"{2 * self.n_resamplings} halves of the trials; false are those that half of the trials choose no more "
            f"often than chance would (Meinshausen and Bühlmann; Shah and Samworth)."
        )


def stability_selection(
    X,
    y,
    *,
    groups: Sequence | None = None,
    n_resamplings: int = 50,
    n_sensors: int | None = None,
    strategy: str = "elimination",
    threshold: float | None = None,
    trial_groups: Sequence | None = None,
    subjects: Sequence | None = None,
    noise=None,
    ridge: float = 0.0,
    group_weights=None,
    class_weight=None,
    tol: float = 1e-3,
    max_iter: int = 10_000,
    random_state=0,
    progress: Callable[[float], None] | None = None,
) -> StabilitySelection:
    r"""Select sensors by how often they are among the first that half of the trials choose.

    The trials of each class are split ``n_resamplings`` times at random into two halves. On every half the first
    ``n_sensors`` sensors are found, by the elimination of `SensorSelector` and ``mixnorm select``, or with
    ``strategy="path"`` by the path of the ℓ1-ℓ2 problem, which is followed until so many have entered (all halves are
    solved as one stack). A sensor is selected if it is among them in at least the share ``threshold`` of the halves.

    Parameters
    ----------
    X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
        The trials.
    y : array of shape (n,)
        Any two labels.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs.
    n_resamplings : int
        Number of pairs of complementary halves.
    n_sensors : int or None
        Number of sensors to select from each half. None: ⌊√(0.8 G)⌋, the largest number for which ``error_bound`` is
        at most 1 with a threshold of 0.9.
    strategy : {"elimination", "path"}
        How sensors are chosen from a half, as in `SensorSelector`.
    threshold : float or None
        In (0.5, 1]. None: the smallest at which ``error_bound`` is at most 1, (1 + n_sensors²/G)/2.
    trial_groups : array of n labels
        Trials of one label (a character, a block) stay in the same half.
    subjects : array of n labels
        With "elimination": the subject of every trial. Each subject's trials are halved, and one order is found for
        all subjects, each with its own class means and noise.
    noise : str, array of shape (d, d), or None
        Covariance of the noise, as in `SensorSelector`; a named one is estimated from every half by itself.
    ridge : float
        Strength of the quadratic term that is added to the norm, as in `SensorSelector`. For "path" alone.
    group_weights : array in the order of the sensors, or dict by label
        As in `SensorSelector`. Sensors of weight 0 have frequency 1, sensors of weight infinity 0; the bounds count
        neither.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`. For "path" alone.
    tol : float
        Relative duality gap to reach. For "path" alone.
    max_iter : int
        Largest number of iterations for one alpha. For "path" alone.
    random_state : int or RandomState
        Seed of the divisions into halves.
    progress : callable or None
        Called with the share of the halves that are done. For "elimination" alone: a path solves all halves at once.

    Returns
    -------
    StabilitySelection
        Frequencies, the selected sensors, and bounds on the number of false ones.

    See Also
    --------
    SensorSelector : Chooses a given number of sensors from all trials.
    mixnorm.eeg.select_montage : Reports these frequencies for the electrodes of recordings.

    Examples
    --------
    >>> from mixnorm import stability_selection
    >>> from mixnorm.eeg import simulated_p300
    >>> data = simulated_p300(400, noise=0.05, n_informative=3, seed=0)
    >>> found = stability_selection(data.X, data.y, n_resamplings=10)
    >>> found.selected, found.n_sensors, round(found.threshold, 2), round(found.error_bound, 2)
    (array([0, 1, 2]), 3, 0.78, 1.0)
    """
    check_strategy(strategy, ridge)
    trials, y = read_fit(BaseEstimator(), X, y)
    classes, signs = encode_labels(y)
    check_count(n_resamplings, "n_resamplings")
    people = _subjects(subjects, strategy, len(signs))
    # Complementary pairs, as Shah and Samworth's bound requires; halves drawn one by one would not have it.
    halves = _halves_by_subject(signs, trial_groups, people, n_resamplings, check_random_state(random_state))
    weights = np.stack([class_balance(half, signs, classes, class_weight) for half in halves.T.astype(float)], axis=1)
    by_path = strategy == "path"
    objective = Objective("group", 2.0, groups, group_weights, True, as_noise(noise) if by_path else None, ridge)
    stack = objective.stack(trials, signs, weights)
    quadratic = objective.quadratic(stack, halves.astype(float))
    # Checked for all halves before the first fit, so that an error does not come after minutes.
    estimate = elimination_noise(noise, stack.groups) if not by_path else objective.noise
    for half in halves.T:
        for one in people:
            check_enough_trials(estimate, signs, half & one, classes, "in one half of the trials")
    kept, free = stack.group_weights[0, :, 0] == 0, stack.penalised[0, :, 0]
    n_free = int(free.sum())
    n_sensors = _check_n_sensors(n_sensors, n_free)
    if by_path:
        ranks = entry_order(stack, n_sensors, SolverOptions("auto", tol, max_iter), quadratic)
    else:
        tell = progress or (lambda share: None)
        ranks = _elimination_ranks(stack, halves, people, noise, tell)
    # Sensors that are always kept have the first ranks and do not take a place of the n_sensors.
    frequencies = np.where(kept, 1.0, np.mean(free[:, None] & (ranks < n_sensors + kept.sum()), axis=1))
    threshold = _check_threshold(threshold, n_sensors, n_free)
    labels = stack.groups.labels.copy()
    return StabilitySelection(
        frequencies,
        labels,
        # frequencies are multiples of 1/(2 n_resamplings), and a threshold such as 0.7 is not exact in binary
        labels[frequencies >= threshold - 1e-12],
        threshold,
        error_bound(n_sensors, n_free, threshold),
        unimodal_bound(n_sensors, n_free, threshold, n_resamplings),
        n_sensors,
        n_resamplings,
    )


def _subjects(subjects: Sequence | None, strategy: str, n: int) -> list[np.ndarray]:
    """Masks of the trials of every subject."""
    if subjects is None:
        return [np.ones(n, dtype=bool)]
    labels = np.asarray(subjects)
    if labels.shape != (n,):
        raise ValueError(f"subjects must hold one label for each of the {n} trials, but its shape is {labels.shape}.")
    if strategy != "elimination":
        raise ValueError("subjects is for strategy='elimination'.")
    return [labels == one for one in np.unique(labels)]


def _halves_by_subject(
    signs: np.ndarray, trial_groups: Sequence | None, people: list[np.ndarray], n_pairs: int, random: Any
) -> np.ndarray:
    """Complementary halves of the trials of every subject, (n, 2 n_pairs)."""
    if len(people) == 1:
        return complementary_halves(signs, trial_groups, n_pairs, random)
    halves = np.zeros((len(signs), 2 * n_pairs), dtype=bool)
    for one in people:
        labels = None if trial_groups is None else np.asarray(trial_groups)[one]
        halves[one] = complementary_halves(signs[one], labels, n_pairs, random)
    return halves


def _elimination_ranks(
    stack: Stack,
    halves: np.ndarray,
    people: list[np.ndarray],
    noise: str | np.ndarray | None,
    tell: Callable[[float], None],
) -> np.ndarray:
    """Rank of every sensor by elimination on every half, (G, halves); G for sensors that are not in the order."""
    X, signs, beta = stack.X[0, 0], stack.y[0, 0], stack.group_weights[0, :, 0]
    ranks = np.full((len(beta), halves.shape[1]), len(beta))
    for number, (own, half) in enumerate(zip(ranks.T, halves.T, strict=True), start=1):
        parts = [half & one for one in people]
        trained = [Trained(X[part], signs[part], np.ones(part.sum())) for part in parts]
        order = elimination_order(trained, stack.groups, beta, noise)
        own[order] = np.arange(len(order))
        tell(number / halves.shape[1])
    return ranks


def complementary_halves(signs: np.ndarray, trial_groups, n_pairs: int, random) -> np.ndarray:
    """Return pairs of disjoint halves of the trials, (n, 2 n_pairs) of bools: columns 2i and 2i + 1 are a pair.

    Trial groups are kept whole. Each is paired at random with another one of the same kind (trials of the first class
    only, of the second class only, or of both), and the two groups of a pair go to different halves. If the number of
    groups is odd, one of them, drawn anew each time, is left out.
    """
    labels = np.arange(len(signs)) if trial_groups is None else np.asarray(trial_groups)
    if labels.shape != signs.shape:
        raise ValueError(
            f"trial_groups must hold one label for each of the {len(signs)} trials, but its shape is {labels.shape}."
        )
    units, unit_of = np.unique(labels, return_inverse=True)
    # Groups of one class are paired with groups of the same class, so that both halves have about the same share of
    # targets.
    share = np.bincount(unit_of, weights=signs > 0) / np.bincount(unit_of)
    kind = np.where(share == 0, 0, np.where(share == 1, 2, 1))
    halves = np.zeros((len(signs), 2 * n_pairs), dtype=bool)
    for pair in range(n_pairs):
        # an odd group is left out at random, or the first half would always be the larger one
        drawn = random.permutation(len(units))[len(units) % 2 :]
        matched = drawn[np.argsort(kind[drawn], kind="stable")].reshape(-1, 2)
        first = np.where(random.uniform(size=len(matched)) < 0.5, matched[:, 0], matched[:, 1])
        side = np.zeros(len(units), dtype=int)
        side[matched] = 2
        side[first] = 1
        for which in (1, 2):
            half = side[unit_of] == which
            if len(np.unique(signs[half])) < 2:
                raise ValueError(
                    f"Half of the {len(units)} trial groups contain trials of one class only; stability selection "
                    "needs more groups, or groups that contain both classes."
                )
            halves[:, 2 * pair + which - 1] = half
    return halves


def error_bound(n_sensors: int, n_groups: int, threshold: float) -> float:
    """Return q² / ((2π − 1) G), the bound of Meinshausen and Bühlmann on E[V], for q = n_sensors and threshold π."""
    return n_sensors**2 / ((2 * threshold - 1) * n_groups) if n_groups else 0.0


def unimodal_bound(n_sensors: int, n_groups: int, threshold: float, n_pairs: int) -> float:
    """Return C(π, B) q² / G, the bound of Shah and Samworth's Theorem 2 on E[V], or `error_bound` if that is smaller.

    C(π, B) = 1 / (2 (2π − 1 − 1/(2B))) up to π = 3/4, and 4 (1 − π + 1/(2B)) / (1 + 1/B) above. π is rounded up to a
    multiple of 1/(2B), because frequencies over 2B halves are such multiples. The theorem needs q/G ≤ 1/√3 and a
    minimal π; outside this range `error_bound` is returned.
    """
    other = error_bound(n_sensors, n_groups, threshold)
    if not n_groups or n_sensors / n_groups > 1 / np.sqrt(3):
        return other
    # rounded first: 100 · 0.55 is 55.00000000000001 in floating point, and its ceiling would be 56
    tau = np.ceil(round(2 * n_pairs * threshold, 9)) / (2 * n_pairs)
    lowest = 0.5 + max((n_sensors / n_groups) ** 2, 1 / (2 * n_pairs) + 3 / 4 * (n_sensors / n_groups) ** 2)
    # the theorem says nothing for thresholds this low
    if tau <= lowest:
        return other
    half = 1 / (2 * n_pairs)
    factor = 1 / (2 * (2 * tau - 1 - half)) if tau <= 0.75 else 4 * (1 - tau + half) / (1 + 1 / n_pairs)
    return min(other, factor * n_sensors**2 / n_groups)


def check_count(value, name: str) -> None:
    """Raise an error if a value is not a whole number from 1."""
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1):
        raise ValueError(f"{name} must be a whole number from 1, but got {value!r}.")


def _check_n_sensors(n_sensors, n_free: int) -> int:
    if n_sensors is None:
        # error_bound = q²/((2π − 1) G) = 1 with π = 0.9 gives q = √(0.8 G).
        return max(1, int(np.sqrt(0.8 * n_free)))
    check_count(n_sensors, "n_sensors")
    if n_sensors > n_free:
        raise ValueError(f"n_sensors={n_sensors} is larger than the number of sensors to choose from, {n_free}.")
    return int(n_sensors)


def _check_threshold(threshold, n_sensors: int, n_free: int) -> float:
    if threshold is None:
        return min(1.0, (1 + n_sensors**2 / (_ALLOWED * max(n_free, 1))) / 2)
    if not (isinstance(threshold, float | int | np.number) and 0.5 < threshold <= 1):
        raise ValueError(f"threshold must be above 0.5 and at most 1, but got {threshold!r}.")
    return float(threshold)
