"""Division of trials into training and test trials, by the plan's `split_by`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg import Design
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.splitting import dealt
from mixnorm.study.canonical import sha256
from mixnorm.study.plan import Plan, PlanError

#: Training trials of a random split where the plan gives no number, at most.
USUAL_TRAINING = 1000


@dataclass(frozen=True)
class SplitRule:
    """One split of one subject (or of every subject of a cohort).

    Attributes
    ----------
    by : {"random", "session", "character", "subject"}
    number : int
        Which split, session or fold.
    n_train : int or None
        Training trials per subject; None: as `Plan` says.
    n_held : int or None
        The largest `n_train` of the plan: random splits of all sizes are tested on the same trials.
    n_folds : int
        Folds of characters.
    left_out : str or None
        The subject left out, for "subject".
    seed : int
    """

    by: str
    number: int
    n_train: int | None
    n_held: int | None
    n_folds: int
    left_out: str | None
    seed: int

    @property
    def honest(self) -> bool:
        """Whether neighbouring trials are kept together."""
        return self.by != "random"


@dataclass(frozen=True)
class Split:
    """Positions of training and test trials; training trials in the order in which inner folds see them."""

    train: NDArray[np.int64] = field(repr=False)
    test: NDArray[np.int64] = field(repr=False)


def split_trials(design: Design, rule: SplitRule) -> Split:
    """Divide the trials of a design, subject by subject."""
    parts = [
        _subject_split(design, np.flatnonzero(design.subject == who), rule)
        for who in dict.fromkeys(design.subject.tolist())
    ]
    return Split(np.concatenate([part.train for part in parts]), np.concatenate([part.test for part in parts]))


def rules(plan: Plan, design: Design, subject: str | None) -> Iterator[SplitRule]:
    """Every split of a subject (None: the cohort), for every number of training trials."""
    n_held = max(plan.n_train) if plan.n_train else None
    for n_train in plan.n_train or (None,):
        for number in range(_count(plan, design, subject)):
            left_out = subject if plan.split_by == "subject" else None
            n_folds = plan.splits if plan.split_by == "character" else 0
            yield SplitRule(plan.split_by, number, n_train, n_held, n_folds, left_out, plan.seed)


def check_enough(plan: Plan, design: Design, dataset: str) -> None:
    """Refuse a plan with more training trials than a subject has."""
    if plan.split_by == "subject" and len(np.unique(design.subject)) < 2:
        raise PlanError(f"{dataset}: it has only one subject; leaving one subject out needs at least two.")
    for who in np.unique(design.subject):
        mine = np.flatnonzero(design.subject == who)
        for number in range(_count(plan, design, str(who))):
            available = len(_pool(design, mine, plan.split_by, number, plan.splits))
            tested = len(mine) - available if plan.split_by in ("session", "character") else 1
            if plan.n_train and max(plan.n_train) > available - (plan.split_by == "random"):
                raise PlanError(
                    f"{dataset}: the plan asks for {max(plan.n_train)} training trials, but subject {who} has "
                    f"{len(mine)} trials, {available} of which can be training trials with at least {tested} held out."
                )
            if plan.split_by == "random":
                break


def _subject_split(design: Design, mine: NDArray[np.int64], rule: SplitRule) -> Split:
    who = str(design.subject[mine[0]])
    if rule.by == "subject" and who == rule.left_out:
        return Split(mine[:0], mine)
    order = _shuffled(design.y[mine], _rng(rule, who))
    if rule.by == "random":
        n_train = rule.n_train or min(USUAL_TRAINING, len(mine) * 4 // 5)
        # Test trials are those behind the largest training set, so that learning curves have the same test trials at
        # every size.
        return Split(mine[order[:n_train]], mine[order[rule.n_held or n_train :]])
    pool = _pool(design, mine, rule.by, rule.number, rule.n_folds)
    # Where a subject is held out, only that subject is tested.
    test = np.setdiff1d(mine, pool) if rule.by != "subject" else mine[:0]
    if rule.n_train is not None:
        # in the order of recording, because inner folds keep neighbouring trials together
        pool = np.sort(pool[_shuffled(design.y[pool], _rng(rule, who))[: rule.n_train]])
    return Split(pool, test)


def _pool(design: Design, mine: NDArray[np.int64], by: str, number: int, n_folds: int) -> NDArray[np.int64]:
    """The trials of a subject that may be trained on."""
    if by in ("random", "subject"):
        return mine
    label = dealt(design.character[mine], n_folds) if by == "character" else design.session[mine]
    return mine[label != list(dict.fromkeys(label.tolist()))[number]]


def _count(plan: Plan, design: Design, subject: str | None) -> int:
    """How many splits a subject has; for a cohort, as many as all its subjects have."""
    if plan.split_by == "random":
        return plan.splits
    if plan.split_by == "subject":
        return 1
    whose = [subject] if subject is not None else np.unique(design.subject)
    # A joint fit holds out the same number of the session or fold in every subject.
    return min(_units(plan, design, design.subject == who, str(who)) for who in whose)


def _units(plan: Plan, design: Design, mine: NDArray[np.bool_], who: str) -> int:
    labels = design.session[mine] if plan.split_by == "session" else design.character[mine]
    if plan.split_by == "character" and np.any(labels == UNKNOWN):
        raise PlanError(f"Subject {who}: the source has no characters; split by 'session' or 'random' instead.")
    found = len(np.unique(labels))
    if found < 2:
        raise PlanError(f"Subject {who}: it has only one {plan.split_by}; leaving one out needs at least two.")
    return min(found, plan.splits)


def _rng(rule: SplitRule, who: str) -> np.random.Generator:
    # From the name of the subject and not from its place: leaving out a subject does not change the splits of the
    # others.
    return np.random.default_rng([rule.seed, rule.number, int(sha256(who)[:16], 16)])


def _shuffled(y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random order in which the first n trials, for every n, have nearly the class proportions of all.

    So a small training set contains both classes, and is part of every larger one.
    """
    place = np.empty(len(y))
    for label in np.unique(y):
        mine = rng.permutation(np.flatnonzero(y == label))
        # Each class is spread evenly over [0, 1); the random offset decides which class comes first.
        place[mine] = (np.arange(len(mine)) + rng.random()) / len(mine)
    return np.argsort(place, kind="stable")
