"""From recordings to a montage: `select_montage`, its options and its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design, prepare
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.splitting import Folds, InOrder, dealt, honest_folds
from mixnorm.estimators.stability import StabilitySelection, stability_selection
from mixnorm.montage.assembly import curve_of, evoked_of, montages_of, sensors_of, source_of, stability_of
from mixnorm.montage.caution import few_trials
from mixnorm.montage.checkpoint import Call, Checkpoint, Work, digest
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.decoders import decoders_by_subject, new_subject_aucs, pooled_decoder, trials_of
from mixnorm.montage.intervals import mean_known
from mixnorm.montage.orders import EliminationOrder, Order, compared_orders
from mixnorm.montage.plain import number, numbers
from mixnorm.montage.recommendation import Choice, choose, recommend
from mixnorm.montage.result import Curve, Path, SelectionResult, SubjectRow
from mixnorm.montage.scoring import ScoredMontages, score_montages
from mixnorm.montage.trials import SubjectTrials
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV

N_INNER = 5
"""Number of inner folds, which choose the order of the sensors and alpha."""
N_BLOCKS = 20
"""With fewer characters than this, stability selection splits so many blocks of neighbouring trials instead."""
N_ALPHAS = 20
"""Number of alphas of the mixed-norm path."""


@dataclass(frozen=True)
class SelectOptions:
    """Options of `select_montage`.

    Attributes
    ----------
    sensors : int or None
        Number of electrodes to put forward; None: the smallest montage within one standard error of the best.
    keep, forbid : tuples of str
        Electrodes that are in every montage, and electrodes that are in none.
    cost : mapping of str to float, or None
        Cost of electrodes, 1 for those not named: the contribution of an electrode counts relative to its cost.
    n_folds : int or None
        Number of outer folds where they are made of characters or blocks; an error where there are fewer of these.
        None: 5, or as many as possible.
    n_resamplings : int
        Number of half-sample pairs for stability selection; 0 turns it off.
    compare : bool
        Whether common other ways to order electrodes are scored on the same folds.
    n_jobs : int or None
        Number of processes; the outer folds run in parallel.
    preparation : Preparation or None
        How recordings are prepared; None: the default for their kind.
    """

    sensors: int | None = None
    keep: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    cost: Mapping[str, float] | None = None
    n_folds: int | None = None
    n_resamplings: int = 50
    compare: bool = True
    n_jobs: int | None = None
    preparation: Preparation | None = None


@dataclass(frozen=True, eq=False)
class Selection(SelectionResult):
    """A `SelectionResult` with the decoders of its montage.

    Attributes
    ----------
    decoder : Decoder
        Fitted on all trials with the recommended montage; with several subjects on their pooled trials, for a new
        subject.
    decoders : dict of str to Decoder
        With several subjects one for each, by name, with the common montage; otherwise empty.
    """

    decoder: Decoder = field(repr=False)
    decoders: dict[str, Decoder] = field(repr=False)


def select_montage(
    source: Design | Recording | EpochedRecording | Sequence[Recording | EpochedRecording],
    options: SelectOptions | None = None,
    progress: Callable[[str], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Selection:
    """Find the best montage for every number of sensors, and score it by nested cross-validation.

    Parameters
    ----------
    source : Design, or one or several recordings with labels
    options : SelectOptions, optional
    progress : callable, optional
        Called with the name of each step before it starts.
    checkpoint : Checkpoint, optional
        Where finished parts are kept, so that an interrupted selection can be resumed.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_recording
    >>> found = select_montage(simulated_recording(300, seed=0), SelectOptions(n_resamplings=0, compare=False))
    >>> found.recommended.n_sensors == len(found.montage)
    True
    """
    options = options or SelectOptions()
    design, recordings = (source, ()) if isinstance(source, Design) else _prepared(source, options.preparation)
    case = _Case.of(design, options, progress or (lambda step: None), checkpoint)
    case.progress("montages and their scores")
    found = case.scored(case.subjects)
    choice = choose(found, options.sensors)
    sensors = [design.ch_names[i] for i in found.order[: found.sizes[choice.chosen]]]
    alphas = {name: float(models.alphas[choice.chosen]) for name, models in zip(case.names, found.models, strict=True)}
    rows = _by_subject(case, found, choice, new_subject_aucs(design, sensors, alphas)) if case.is_shared else None
    stable = _stability(case)
    case.progress("path")
    path = _path(case)
    curves = (curve_of("mixnorm", found.sizes, found.by_fold, found.ratio), *_compared(case))
    return Selection(
        source=source_of(design, recordings, dict(zip(case.names, case.folds, strict=True)), len(found.tests)),
        sensors=sensors_of(design, case.constraints, stable),
        montages=montages_of(design, case.constraints, case.subjects, found),
        recommended=recommend(found, choice, options.sensors, case.subjects),
        curves=curves,
        stability=stability_of(stable, design.ch_names),
        path=path,
        times=numbers(design.times),
        evoked=evoked_of(design),
        by_subject=rows,
        decoder=pooled_decoder(design, sensors, alphas, recordings),
        decoders=decoders_by_subject(design, sensors, alphas, recordings) if case.is_shared else {},
    )


def _prepared(source: Any, preparation: Preparation | None) -> tuple[Design, Sequence[Recording | EpochedRecording]]:
    recordings = [source] if isinstance(source, Recording | EpochedRecording) else list(source)
    return prepare(recordings, preparation), recordings


@dataclass(frozen=True, eq=False)
class _Case:
    """Everything that stays the same during one selection."""

    design: Design
    constraints: Constraints
    options: SelectOptions
    folds: list[Folds]
    subjects: list[SubjectTrials]
    names: list[str]
    progress: Callable[[str], None]
    checkpoint: Checkpoint | None

    @classmethod
    def of(
        cls,
        design: Design,
        options: SelectOptions,
        progress: Callable[[str], None],
        checkpoint: Checkpoint | None,
    ) -> _Case:
        constraints = Constraints.by_name(design.ch_names, options.keep, options.forbid, options.cost)
        if options.sensors is not None:
            constraints.check_size(options.sensors)
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
        return cls(design, constraints, options, folds, subjects, names, progress, checkpoint)

    @property
    def is_shared(self) -> bool:
        """Whether several subjects share the montage."""
        return len(self.subjects) > 1

    def work(self, subjects: list[SubjectTrials], n_jobs: int | None = 1) -> Work:
        """How calls that depend on these subjects are run."""
        if self.checkpoint is None:
            return Work(n_jobs=n_jobs)
        trials = [value for one in subjects for value in vars(one).values()]
        constraints = (self.constraints.keep, self.constraints.forbid, self.constraints.cost)
        about = digest(*trials, *constraints, self.design.ch_names, self.design.preparation)
        return Work(self.checkpoint, about, n_jobs)

    def scored(self, subjects: list[SubjectTrials], order: Order | None = None) -> ScoredMontages:
        """The montages of some subjects, by default in the order of this package."""
        return score_montages(
            subjects,
            order or EliminationOrder(self.constraints),
            cv=InOrder(N_INNER),
            scaler=self.design.preparation.scaler(),
            work=self.work(subjects, self.options.n_jobs),
        )

    def scaled(self, one: SubjectTrials, train: NDArray[np.bool_]) -> NDArray[np.float64]:
        """All trials of a subject, scaled by some of them."""
        return self.design.preparation.scaler().fit(one.X[train]).transform(one.X)


def _compared(case: _Case) -> list[Curve]:
    """The curves of other orders on the same folds; for several subjects the mean over orders found for each."""
    curves: list[Curve] = []
    for order in compared_orders(case.design.ch_names, case.constraints) if case.options.compare else ():
        case.progress(order.name)
        try:
            found = [case.scored([one], order) for one in case.subjects]
        except ImportError as error:
            warnings.warn(f"Not compared with {order.name}: {error}", UserWarning, stacklevel=3)
            continue
        aucs = _padded([one.by_fold for one in found])
        curves.append(curve_of(order.name, found[0].sizes, mean_known(aucs, axis=2), found[0].ratio))
    return curves


def _padded(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Stack AUCs (S, J) of T subjects, who may have different numbers of folds: (S, J, T), NaN where there is none."""
    folds = max(part.shape[1] for part in parts)
    return np.stack([np.pad(p, ((0, 0), (0, folds - p.shape[1])), constant_values=np.nan) for p in parts], axis=2)


def _by_subject(
    case: _Case, found: ScoredMontages, choice: Choice, new_subject: Mapping[str, float]
) -> tuple[SubjectRow, ...]:
    """Each subject's own montage beside the common one."""
    rows = []
    for t, (name, one) in enumerate(zip(case.names, case.subjects, strict=True)):
        case.progress(f"subject {name}")
        own = case.scored([one])
        at = choose(own, case.options.sensors).chosen
        rows.append(
            SubjectRow(
                subject=name,
                n_sensors=int(own.sizes[at]),
                sensors=tuple(case.design.ch_names[i] for i in own.order[: own.sizes[at]]),
                auc=number(own.mean[at], 6),
                common_auc=number(mean_known(found.aucs[choice.chosen, None, :, t], axis=1)[0], 6),
                new_subject_auc=number(new_subject[name], 6),
                few_trials=few_trials([one]),
            )
        )
    return tuple(rows)


def _stability(case: _Case) -> StabilitySelection | None:
    free = ~(case.constraints.keep | case.constraints.forbid)
    if not case.options.n_resamplings or int(free.sum()) < 2:
        return None
    case.progress("stability")
    X = np.concatenate([case.scaled(one, np.ones(len(one.X), dtype=bool)) for one in case.subjects])
    signs = np.concatenate([one.signs for one in case.subjects])
    groups = np.concatenate([one.trial_groups for one in case.subjects])
    if len(np.unique(groups)) < N_BLOCKS:
        groups = dealt(np.arange(len(signs)), N_BLOCKS)
    call = Call.of(
        stability_selection,
        X,
        signs,
        n_resamplings=case.options.n_resamplings,
        trial_groups=groups,
        group_weights=case.constraints.group_weights,
    )
    name = f"stability, {case.options.n_resamplings} half-sample pairs"
    return case.work(case.subjects).run(name, [call])[0]


def _path(case: _Case) -> Path:
    """The mixed-norm path, one norm over all subjects: numbers of selected sensors, and AUC on held-out trials."""
    work = case.work(case.subjects)
    (whole,) = work.run("path", [Call.of(_path_without, case, None, N_ALPHAS)])
    calls = []
    for fold in np.unique(np.concatenate([one.fold for one in case.subjects])):
        parts = [one.take(mask) for one in case.subjects for mask in (one.fold == fold, one.fold != fold)]
        if all(part.has_both_classes for part in parts):
            calls.append(Call.of(_path_without, case, fold, whole["alphas"]))
    scores = [found["auc"] for found in work.run("path in folds", calls)]
    mean = np.mean(scores, axis=0) if scores else np.full(N_ALPHAS, np.nan)
    return Path(
        alphas=numbers(whole["alphas"], 6),
        n_selected=tuple(int(count) for count in whole["n_selected"]),
        auc=numbers(mean, 6),
    )


def _path_without(case: _Case, fold: int | None, alphas: Any) -> dict[str, NDArray]:
    """Fit the path without the trials of a fold and score it on these; None: fit and score it on all trials."""
    fold_of = np.concatenate([one.fold for one in case.subjects])
    train = fold_of != fold
    test = ~train if fold is not None else train
    model = MultiTaskGroupSVCCV(
        alphas,
        similarities=[0.0],
        group_weights=case.constraints.group_weights,
        cv=[(np.flatnonzero(train), np.flatnonzero(test))],
        rehearse=False,
        tol=1e-3,
    )
    X = np.concatenate([case.scaled(one, one.fold != fold) for one in case.subjects])
    signs = np.concatenate([one.signs for one in case.subjects])
    with warnings.catch_warnings():
        # Sensors to keep are not penalised; where they alone separate the trials there is no certificate. The path is
        # shown, and nothing is chosen by it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, signs, subjects=np.repeat(case.names, [len(one.signs) for one in case.subjects]))
    return {"alphas": model.alphas_, "n_selected": model.n_selected_[0], "auc": model.scores_[0, :, 0]}
