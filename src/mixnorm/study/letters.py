"""Letters spelled right by number of repetitions, over the subjects of a study, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixnorm.study.results import Results
from mixnorm.study.statistics import half_interval

#: Why a record has no letters → what a report says about it.
REASONS = {
    "codes": "no letters, because the data have no stimulus codes and characters (error potentials have none)",
    "split": "no letters, because the splits divide characters; split_by = 'character' keeps them together",
}


@dataclass(frozen=True)
class LettersRight:
    """Percent of letters that are right after 1, 2, … repetitions, for as many as every subject has.

    Attributes
    ----------
    dataset, method : str
    n_train : int or None
        As in the plan.
    right : tuple of float
        Means over the splits of each subject, then over subjects.
    low, high : tuples of float, or None
        95 % interval of the mean over subjects, mean ± t √(σ²/n); None for one subject.
    """

    dataset: str
    method: str
    n_train: int | None
    right: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None


def letters_right(results: Results) -> list[LettersRight]:
    """The letters of every data set, number of training trials and method that has them."""
    places = [
        (dataset.name, method, n_train)
        for dataset in results.plan.datasets
        for n_train in results.plan.n_train or (None,)
        for method in results.plan.methods
    ]
    found = [(place, [r for r in results.of(*place) if r["characters"]]) for place in places]
    return [_over_subjects(place, records) for place, records in found if records]


def reasons_without_letters(results: Results) -> list[str]:
    """One sentence for every data set of recordings whose letters are not known, and why."""
    sentences = []
    for dataset in results.plan.datasets:
        if dataset.drawn:  # simulated trials are not those of a speller, and have no letters
            continue
        own = [record for record in results.records if record["dataset"] == dataset.name]
        why = {record.get("no_letters") for record in own}
        sentences += [f"{dataset.name}: {REASONS[reason]}." for reason in REASONS if why == {reason}]
    return sentences


def letters_to_json(results: Results) -> list[dict[str, Any]]:
    """What ``mixnorm study --json`` prints."""
    return [asdict(one) for one in letters_right(results)]


def _over_subjects(place: tuple[str, str, int | None], records: Sequence[dict[str, Any]]) -> LettersRight:
    # The means at a number of repetitions must be over the same subjects and splits.
    length = min(len(record["characters"]) for record in records)
    subjects = dict.fromkeys(record["subject"] for record in records)
    means = np.array(
        [np.mean([r["characters"][:length] for r in records if r["subject"] == who], axis=0) for who in subjects]
    )
    mean, half = means.mean(axis=0), half_interval(means)
    if half is None:
        return LettersRight(*place, tuple(mean.tolist()), None, None)
    # Student's interval knows no bounds; shares beyond 0 and 100 percent have no meaning.
    bounds = (np.clip(mean + sign * half, 0, 100).tolist() for sign in (-1, 1))
    return LettersRight(*place, tuple(mean.tolist()), *(tuple(bound) for bound in bounds))
