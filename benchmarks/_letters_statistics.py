"""Statistics over subjects of spelled letters, and their tables. Units are what `_letters.uam_unit` returns."""

from dataclasses import dataclass

import numpy as np
from _letters import BINS, PARTIAL, THRESHOLDS


def by_subject(units, value):
    """{subject: values of all its letters}."""
    found = {}
    for unit in units:
        found.setdefault(unit["subject"], []).extend(value(one) for one in unit["letters"])
    return {who: np.array(values, dtype=float) for who, values in found.items()}


def bootstrap(subjects, statistic, count=2000):
    """95 % interval of a statistic of a list of subjects, which are drawn with replacement."""
    rng = np.random.default_rng(0)
    draws = [statistic(rng.choice(subjects, len(subjects))) for _ in range(count)]
    return np.percentile([draw for draw in draws if draw is not None], [2.5, 97.5], axis=0)


def mean_and_interval(values):
    """Mean over subjects of their means, and its interval; values: {subject: array}."""
    means = {who: own.mean(axis=0) for who, own in values.items() if len(own)}
    names = np.array(sorted(means))
    low, high = bootstrap(names, lambda drawn: np.mean([means[who] for who in drawn], axis=0))
    return np.mean([means[who] for who in names], axis=0), low, high


def letters_right(units):
    """Rows (how symbols are chosen, by what, its number, percent right, low, high)."""
    rows = []
    for kind in ("summed", "posterior"):
        for key, by, numbers in ((kind, "repetitions", None), (f"partial_{kind}", "flashes", PARTIAL)):
            found = mean_and_interval(by_subject(units, lambda one, key=key: one[key]))
            numbers = numbers or range(1, len(found[0]) + 1)
            rows += [(kind, by, n, *(round(100 * v, 1) for v in own)) for n, own in zip(numbers, zip(*found))]
    return rows


@dataclass(frozen=True)
class Stopped:
    """Stopping at a threshold: share of letters stopped, right among these (interval), flashes, right of all."""

    threshold: float
    stopped: float
    right_if_stopped: float
    low: float
    high: float
    flashes: float
    right: float


def stopping(units, which):
    rows = []
    for place, threshold in enumerate(THRESHOLDS):
        found = by_subject(units, lambda one, place=place: one[which][place])
        sums = {who: np.array([own[:, 1].sum(), (own[:, 1] * own[:, 2]).sum()]) for who, own in found.items()}

        def share(drawn, sums=sums):
            stopped, right = sum(sums[who] for who in drawn)
            return right / stopped if stopped else None

        names = np.array(sorted(found))
        flashes, stopped, right = np.concatenate(list(found.values())).mean(axis=0)
        low, high = bootstrap(names, share) if stopped else (np.nan, np.nan)
        rows.append(Stopped(threshold, stopped, share(names) if stopped else np.nan, low, high, flashes, right))
    return rows


@dataclass(frozen=True)
class Gain:
    """Letters per minute over those of a fixed number of equal accuracy (interval); flashes needed and used."""

    ratio: float
    low: float
    high: float
    accuracy: float
    needed: float
    used: float


def gain(units, threshold, interval, pause):
    place = THRESHOLDS.index(threshold)
    right = by_subject(units, lambda one: one["posterior"])
    stops = by_subject(units, lambda one: one["stops"][place])
    names = np.array(sorted(right))

    def ratio(drawn):
        curve = np.mean([right[who].mean(axis=0) for who in drawn], axis=0)
        curve = np.maximum.accumulate(curve) + 1e-9 * np.arange(len(curve))
        reached = np.mean([stops[who][:, 2].mean() for who in drawn])
        used = np.mean([stops[who][:, 0].mean() for who in drawn])
        # where no fixed number is as good, all flashes are counted, which favours the fixed number
        needed = 12 * np.interp(reached, curve, np.arange(1, len(curve) + 1))
        return (needed * interval + pause) / (used * interval + pause), reached, needed, used

    low, high = bootstrap(names, lambda drawn: ratio(drawn)[0])
    found, reached, needed, used = ratio(names)
    return Gain(found, low, high, reached, needed, used)


def expected_calibration_error(bins):
    n, p, y = bins
    return float(np.sum(np.abs(p - y)) / n.sum())


def letter_bins(units):
    """Counts, probabilities and right letters in bins of the probability, over all numbers of repetitions; Brier."""
    p = np.array([q for unit in units for one in unit["letters"] for q in one["probability"]])
    right = np.array([q for unit in units for one in unit["letters"] for q in one["posterior"]], dtype=float)
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    bins = np.array([np.bincount(place, part, BINS) for part in (np.ones(len(p)), p, right)])
    return bins, float(np.mean((p - right) ** 2))


def table(title, heads, rows):
    """Print a table as Markdown."""
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
