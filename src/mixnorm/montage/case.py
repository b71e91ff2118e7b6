"""Everything that stays the same during one selection: trials, folds, constraints, options, progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.design import Design
from mixnorm.eeg.splitting import Folds, InOrder, honest_folds
from mixnorm.montage.checkpoint import Checkpoint, Work, digest
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.decoders import trials_of
from mixnorm.montage.orders import EliminationOrder, Order, compared_orders
from mixnorm.montage.progress import Progress, Tracker
from mixnorm.montage.scored_windows import check_windows
from mixnorm.montage.scoring import ScoredMontages, score_montages, usable_folds
from mixnorm.montage.select_options import SelectOptions
from mixnorm.montage.steps import steps_of
from mixnorm.montage.trials import SubjectTrials


@dataclass(frozen=True, eq=False)
class Case:
    """Everything that stays the same during one selection."""

    design: Design
    constraints: Constraints
    options: SelectOptions
    folds: list[Folds]
    subjects: list[SubjectTrials]
    names: list[str]
    tracker: Tracker
    checkpoint: Checkpoint | None

    @classmethod
    def of(
        cls,
        design: Design,
        options: SelectOptions,
        progress: Callable[[Progress], None],
        checkpoint: Checkpoint | None,
    ) -> Case:
        """Check the options against the design, and make the folds of every subject."""
        constraints = Constraints.by_name(design.ch_names, options.keep, options.forbid, options.cost)
        if options.sensors is not None:
            constraints.check_size(options.sensors)
        if options.windows is not None:
            check_windows(options.windows, len(design.times))
        X, y, groups = design.to_sklearn()
        signs = np.where(y == 1, 1.0, -1.0)
        names = list(dict.fromkeys(design.subject.tolist()))
        folds, subjects = [], []
        for name in names:
            own = design.subject == name
            folds.append(honest_folds(trials_of(design, own), options.n_folds))
            subjects.append(SubjectTrials(X[own], signs[own], folds[-1].number, groups[own]))
            if not subjects[-1].has_both_classes:
                raise ValueError(f"Subject {name!r} has trials of one class only; leave this subject out.")
        # before anything is computed, so that the time left is known from the first step on
        orders = compared_orders(design.ch_names, constraints) if options.compare else ()
        steps = steps_of(
            n_folds=len(usable_folds(subjects)),
            subjects=names,
            n_pairs=options.n_resamplings if has_stability(constraints, options) else 0,
            orders=[order.name for order in orders],
            n_decoders=1 + (len(constraints.allowed) if options.decoders else 0),
            windows=options.windows is not None,
        )
        return cls(design, constraints, options, folds, subjects, names, Tracker(steps, progress), checkpoint)

    @property
    def is_shared(self) -> bool:
        """Whether several subjects share the montage."""
        return len(self.subjects) > 1

    def work(self, subjects: list[SubjectTrials], n_jobs: int | None = 1) -> Work:
        """How calls that depend on these subjects are run."""
        if self.checkpoint is None:
            return Work(n_jobs=n_jobs, tracker=self.tracker)
        trials = [value for one in subjects for value in vars(one).values()]
        constraints = (self.constraints.keep, self.constraints.forbid, self.constraints.cost)
        # the options that only choose among the montages, such as a number of electrodes, are not part of it: parts of
        # an interrupted selection are used again when another number is asked for
        about = digest(*trials, *constraints, self.design.ch_names, self.design.preparation)
        return Work(self.checkpoint, about, n_jobs, self.tracker)

    def scored(
        self, subjects: list[SubjectTrials], order: Order | None = None, folds: Sequence[int] | None = None
    ) -> ScoredMontages:
        """The montages of some subjects, by default in the order of this package and on all folds."""
        return score_montages(
            subjects,
            order or EliminationOrder(self.constraints),
            cv=InOrder(),
            scaler=self.design.preparation.scaler(),
            work=self.work(subjects, self.options.n_jobs),
            folds=folds,
        )

    def sensors_and_alphas(self, found: ScoredMontages, place: int) -> tuple[list[str], dict[str, float]]:
        """The electrodes of the montage at an index, and the alpha of every subject's classifier."""
        sensors = [self.design.ch_names[i] for i in found.order[: found.sizes[place]]]
        return sensors, {
            name: float(models.alphas[place]) for name, models in zip(self.names, found.models, strict=True)
        }

    def scaled(self, one: SubjectTrials, train: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """All trials of a subject, scaled by some of them, and which of these are within the peak-to-peak limit."""
        scaler = self.design.preparation.scaler().fit(one.X[train])
        # held-out trials stay: nobody can leave out the bad trials of the future
        accepted = train.copy()
        accepted[train] = scaler.accepted(one.X[train], one.signs[train])
        return scaler.transform(one.X), accepted


def has_stability(constraints: Constraints, options: SelectOptions) -> bool:
    """Whether there are electrodes to choose from, and halves of trials to choose on."""
    return options.n_resamplings > 0 and int((~(constraints.keep | constraints.forbid)).sum()) > 1
