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
from mixnorm.eeg.design import Design, default_preparation, prepare
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.readers.labels import unnamed_recordings
from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.splitting import Folds, InOrder, dealt, honest_folds
from mixnorm.estimators.folds import auc
from mixnorm.estimators.path import group_svc_path
from mixnorm.estimators.stability import StabilitySelection, stability_selection
from mixnorm.montage.assembly import (
    curve_of,
    evoked_of,
    montages_of,
    sensors_of,
    source_of,
    stability_of,
    window_scores_of,
    windows_of,
)
from mixnorm.montage.caution import few_trials, no_transfer
from mixnorm.montage.checkpoint import Call, Checkpoint, Work, digest
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.decoders import MontageDecoders, new_subject_aucs, trials_of, with_decoder_files
from mixnorm.montage.intervals import mean_known
from mixnorm.montage.letters_right import letters_of
from mixnorm.montage.orders import EliminationOrder, Order, compared_orders
from mixnorm.montage.plain import number, numbers
from mixnorm.montage.progress import Progress, Tracker, report_share
from mixnorm.montage.recommendation import Choice, choose, recommend
from mixnorm.montage.result import Curve, NoTransfer, Path, SelectionResult, SubjectRow
from mixnorm.montage.scored_windows import ScoredWindows, check_windows, score_windows
from mixnorm.montage.scoring import ScoredMontages, score_montages, usable_folds
from mixnorm.montage.steps import DECODERS, MONTAGES, PATH, STABILITY, WINDOWS, steps_of, subject_step
from mixnorm.montage.trials import SubjectTrials
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV

N_BLOCKS = 20
"""With fewer characters than this, stability selection splits so many blocks of neighbouring trials instead."""
N_ALPHAS = 20
"""Number of alphas of the mixed-norm path."""
PATH_TOL = 1e-3
"""Relative duality gap to reach on that path, which is shown and chooses nothing."""


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
        How recordings are prepared; None: the default for their kind (`default_preparation`).
    window : (start, stop) or None
        Seconds after the stimulus, instead of those of the preparation.
    n_samples : int or None
        Number of samples over the window, instead of that of the preparation.
    decoders : bool
        Whether to fit decoders for every number of electrodes, and not only for the montage put forward.
    windows : int or None
        Number of windows of time of equal length; it is then found which of them carry the response. None: windows
        are not chosen.

    See Also
    --------
    select_montage : Takes these options.
    read_costs : Reads ``cost`` from a file.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions
    >>> options = SelectOptions(sensors=8, keep=("Cz",), forbid=("Fp1", "Fp2"))
    >>> options.n_resamplings
    50
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
    window: tuple[float, float] | None = None
    n_samples: int | None = None
    decoders: bool = False
    windows: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Selection(SelectionResult):
    """Montages of every size with their scores, the recommended one, and the decoders of that montage.

    Attributes
    ----------
    source : Source
        The recordings, their trials, and the folds.
    sensors : tuple of SensorInfo
        All sensors, in recording order.
    montages : tuple of Montage
        One for every number of sensors, ascending in size.
    recommended : Recommendation
        Which of them is put forward, and why.
    curves : tuple of Curve
        AUC by number of sensors for each way to order them; that of this package first.
    stability : Stability or None
        How often each sensor is among the first, over halves of the trials.
    path : Path or None
        The mixed-norm path.
    times : tuple of float
        Seconds after the stimulus of the samples.
    evoked : Evoked or None
        Mean responses of both classes.
    by_subject : tuple of SubjectRow, or None
        One for each of several subjects.
    letters : Letters or None
        Shares of characters that are spelled right, where characters and flash codes are known.
    arguments : tuple of str, or None
        The recordings and options of the command that made it.
    windows : tuple of Window, or None
        Windows of time in order, where they were asked for: which of them carry the response.
    window_share : float or None
        Weight of the norms of windows against those of sensors, chosen by cross-validation.
    window_scores : WindowScores or None
        Held-out AUC with windows chosen, and with all of them.
    decoder : Decoder
        Fitted on all trials with the recommended montage; with several subjects on their pooled trials, for a new
        subject.
    decoders : dict of str to Decoder
        With several subjects one for each, by name, with the common montage; otherwise empty.
    decoders_by_size : dict of int to MontageDecoders
        Those of every montage, by number of electrodes, where they were asked for; otherwise empty.

    See Also
    --------
    select_montage : Computes it.
    Decoder : What ``decoder`` can do.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions, select_montage, simulated_recording
    >>> quick = SelectOptions(sensors=2, n_resamplings=0, compare=False)
    >>> found = select_montage(simulated_recording(240, n_channels=4, n_informative=2), quick)
    >>> sorted(found.montage) == sorted(found.decoder.selected), len(found.montages)
    (True, 4)
    """

    decoder: Decoder = field(repr=False)
    decoders: dict[str, Decoder] = field(repr=False)
    decoders_by_size: dict[int, MontageDecoders] = field(default_factory=dict, repr=False)


def select_montage(
    source: Any,
    options: SelectOptions | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Selection:
    """Find the best montage for every number of sensors, and score it by nested cross-validation.

    Parameters
    ----------
    source : Design, or one or several recordings with labels
        Anything that `prepare` takes: paths, `mne.io.Raw`, `mne.Epochs`, arrays with names.
    options : SelectOptions, optional
        The defaults of `SelectOptions` by default.
    progress : callable, optional
        Called with a `Progress` when a step starts and whenever a part of it is finished.
    checkpoint : Checkpoint, optional
        Where finished parts are kept, so that an interrupted selection can be resumed.

    Returns
    -------
    Selection
        Montages of every size, the recommended one, and its decoder.

    See Also
    --------
    SelectOptions : The options.
    Decoder : A decoder for electrodes that are known already.
    mixnorm.SensorSelector : The same order of electrodes, as a step of a scikit-learn pipeline.
    mixnorm.stability_selection : How often electrodes are among the first.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions, select_montage, simulated_recording
    >>> found = select_montage(simulated_recording(300, seed=0), SelectOptions(n_resamplings=0, compare=False))
    >>> found.recommended.n_sensors == len(found.montage)
    True
    """
    options = options or SelectOptions()
    design, recordings = (source, ()) if isinstance(source, Design) else _prepared(source, options)
    case = _Case.of(design, options, progress or (lambda progress: None), checkpoint)
    case.tracker.start(MONTAGES)
    found = case.scored(case.subjects)
    choice = choose(found, options.sensors)
    sensors, alphas = case.sensors_and_alphas(found, choice.chosen)
    rows = _by_subject(case, found, choice, new_subject_aucs(design, sensors, alphas)) if case.is_shared else None
    stable = _stability(case)
    case.tracker.start(PATH)
    path = _path(case)
    windows = _windows(case) if options.windows is not None else None
    curves = (curve_of("mixnorm", found.sizes, found.by_fold, found.ratio), *_compared(case, found))
    montages = montages_of(design, case.constraints, case.subjects, found)
    case.tracker.start(DECODERS)
    decoders = MontageDecoders.fit(design, sensors, alphas, recordings)
    case.tracker.finish_part()
    by_size = _decoders_by_size(case, found, recordings) if options.decoders else {}
    return Selection(
        source=source_of(design, recordings, dict(zip(case.names, case.folds, strict=True)), len(found.tests)),
        sensors=sensors_of(design, case.constraints, stable),
        montages=with_decoder_files(montages, len(sensors), by_size),
        recommended=recommend(found, choice, options.sensors, case.subjects, _no_transfer(case, found, recordings)),
        curves=curves,
        stability=stability_of(stable, design.ch_names),
        path=path,
        times=numbers(design.times),
        evoked=evoked_of(design),
        by_subject=rows,
        letters=letters_of(design, case.names, case.subjects, found),
        windows=windows and windows_of(design, windows),
        window_share=windows and windows.share,
        window_scores=windows and window_scores_of(windows, found.ratio),
        decoder=decoders.pooled,
        decoders=decoders.by_subject,
        decoders_by_size=by_size,
    )


def _prepared(source: Any, options: SelectOptions) -> tuple[Design, Sequence[Recording | EpochedRecording]]:
    recordings = as_recordings(source)
    preparation = default_preparation(recordings, options.preparation, options.window, options.n_samples)
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
    tracker: Tracker
    checkpoint: Checkpoint | None

    @classmethod
    def of(
        cls,
        design: Design,
        options: SelectOptions,
        progress: Callable[[Progress], None],
        checkpoint: Checkpoint | None,
    ) -> _Case:
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
        orders = compared_orders(design.ch_names, constraints) if options.compare else ()
        steps = steps_of(
            n_folds=len(usable_folds(subjects)),
            subjects=names,
            n_pairs=options.n_resamplings if _has_stability(constraints, options) else 0,
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

    def scaled(self, one: SubjectTrials, train: NDArray[np.bool_]) -> NDArray[np.float64]:
        """All trials of a subject, scaled by some of them."""
        return self.design.preparation.scaler().fit(one.X[train]).transform(one.X)

    def accepted(self, one: SubjectTrials, train: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The training trials of a subject that are within the peak-to-peak limit, as a mask of all trials."""
        accepted = train.copy()
        accepted[train] = self.design.preparation.scaler().fit(one.X[train]).accepted(one.X[train], one.signs[train])
        return accepted


def _has_stability(constraints: Constraints, options: SelectOptions) -> bool:
    """Whether there are electrodes to choose from, and halves of trials to choose on."""
    return options.n_resamplings > 0 and int((~(constraints.keep | constraints.forbid)).sum()) > 1


def _no_transfer(case: _Case, found: ScoredMontages, recordings: Sequence[Any]) -> NoTransfer | None:
    """Whether recordings that name no subject, taken for sessions of one, do not predict each other."""
    if not unnamed_recordings(recordings) or case.is_shared or case.folds[0].by != "session":
        return None
    number, session = case.folds[0].number, case.design.session
    names = [", ".join(dict.fromkeys(session[number == fold].tolist())) for fold in usable_folds(case.subjects)]
    return no_transfer(found, names)


def _windows(case: _Case) -> ScoredWindows:
    """Which windows of time carry the response."""
    case.tracker.start(WINDOWS)
    return score_windows(
        case.subjects,
        case.options.windows,
        case.constraints.group_weights,
        scaler=case.design.preparation.scaler(),
        folds=usable_folds(case.subjects),
        work=case.work(case.subjects, case.options.n_jobs),
    )


def _decoders_by_size(case: _Case, found: ScoredMontages, recordings: Sequence[Any]) -> dict[int, MontageDecoders]:
    """The decoders of every montage."""
    by_size = {}
    for place, size in enumerate(found.sizes):
        by_size[int(size)] = MontageDecoders.fit(case.design, *case.sensors_and_alphas(found, place), recordings)
        case.tracker.finish_part()
    return by_size


def _compared(case: _Case, found: ScoredMontages) -> list[Curve]:
    """The curves of other orders on the same folds; for several subjects the mean over orders found for each.

    All of them end at the same electrodes, and so at the same AUC: that of all electrodes is taken from ``found``.
    """
    curves: list[Curve] = []
    folds = usable_folds(case.subjects)
    for order in compared_orders(case.design.ch_names, case.constraints) if case.options.compare else ():
        case.tracker.start(order.name)
        try:
            own = [case.scored([one], order, folds) for one in case.subjects]
        except ImportError as error:
            warnings.warn(f"Not compared with {order.name}: {error}", UserWarning, stacklevel=3)
            continue
        # every subject has the folds of ``found``, in the same order, and NaN where it has no trials in one
        sizes, aucs = own[0].sizes, np.concatenate([one.aucs for one in own], axis=2)
        if order.ends_with_all:
            sizes, aucs = np.append(sizes, found.sizes[-1]), np.concatenate([aucs, found.aucs[-1:]])
        curves.append(curve_of(order.name, sizes, mean_known(aucs, axis=2), found.ratio))
    return curves


def _by_subject(
    case: _Case, found: ScoredMontages, choice: Choice, new_subject: Mapping[str, float]
) -> tuple[SubjectRow, ...]:
    """Each subject's own montage beside the common one."""
    rows = []
    for t, (name, one) in enumerate(zip(case.names, case.subjects, strict=True)):
        case.tracker.start(subject_step(name))
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
    if not _has_stability(case.constraints, case.options):
        return None
    case.tracker.start(STABILITY)
    subjects = [one.take(case.accepted(one, np.ones(len(one.X), dtype=bool))) for one in case.subjects]
    X = np.concatenate([case.scaled(one, np.ones(len(one.X), dtype=bool)) for one in subjects])
    call = Call.of(
        stability_selection,
        X,
        np.concatenate([one.signs for one in subjects]),
        n_resamplings=case.options.n_resamplings,
        trial_groups=np.concatenate([_units(one) for one in subjects]),
        subjects=np.repeat(case.names, [len(one.signs) for one in subjects]),
        group_weights=case.constraints.group_weights,
        progress=report_share,
    )
    name = f"stability, {case.options.n_resamplings} half-sample pairs"
    return case.work(case.subjects).run(name, [call])[0]


def _units(one: SubjectTrials) -> NDArray:
    """What is kept whole in a half: characters, or blocks of neighbouring trials where these are too few."""
    enough = len(np.unique(one.trial_groups)) >= N_BLOCKS
    return one.trial_groups if enough else dealt(np.arange(len(one.signs)), N_BLOCKS)


def _path(case: _Case) -> Path:
    """The mixed-norm path, one norm over all subjects: numbers of selected sensors, and AUC on held-out trials."""
    with warnings.catch_warnings():  # here, and not in the calls: on a device these run in threads
        # Sensors to keep are not penalised; where they alone separate the trials there is no certificate. The path is
        # shown, and nothing is chosen by it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _path_and_scores(case)


def _path_and_scores(case: _Case) -> Path:
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
    train = np.concatenate([case.accepted(one, one.fold != fold) for one in case.subjects])
    test = fold_of == fold if fold is not None else train
    X = np.concatenate([case.scaled(one, one.fold != fold) for one in case.subjects])
    signs = np.concatenate([one.signs for one in case.subjects])
    if not case.is_shared:
        return _path_of_one(X, signs, (train, test), alphas, case.constraints.group_weights)
    rows = train | test
    model = MultiTaskGroupSVCCV(
        alphas,
        similarities=[0.0],
        group_weights=case.constraints.group_weights,
        cv=[(np.flatnonzero(train[rows]), np.flatnonzero(test[rows]))],
        rehearse=False,
        tol=PATH_TOL,
    )
    whose = np.repeat(case.names, [len(one.signs) for one in case.subjects])
    model.fit(X[rows], signs[rows], subjects=whose[rows])
    return {"alphas": model.alphas_, "n_selected": model.n_selected_[0], "auc": model.scores_[0, :, 0]}


def _path_of_one(X: NDArray, signs: NDArray, split: tuple[NDArray, NDArray], alphas: Any, beta: NDArray) -> dict:
    """The same for one subject: only the path on the training trials is needed, and none on all trials beside it."""
    train, test = split
    path = group_svc_path(X[train], signs[train], alphas=alphas, group_weights=beta, tol=PATH_TOL)
    n_selected = path.coefs.reshape(len(path.alphas), X.shape[1], -1).any(axis=2).sum(axis=1)
    scores = X[test].reshape(int(test.sum()), -1) @ path.coefs.T + path.intercepts
    return {"alphas": path.alphas, "n_selected": n_selected, "auc": auc(signs[test], scores)}
