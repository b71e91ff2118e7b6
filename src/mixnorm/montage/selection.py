"""From recordings to a montage: `select_montage`, its options and its result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design, default_preparation, prepare
from mixnorm.eeg.readers.labels import unnamed_recordings
from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.splitting import dealt
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
from mixnorm.montage.case import Case, has_stability
from mixnorm.montage.caution import few_trials, no_transfer
from mixnorm.montage.checkpoint import Call, Checkpoint
from mixnorm.montage.decoders import (
    DecoderFits,
    HeldOutSubject,
    HeldOutTrials,
    MontageDecoders,
    with_decoder_files,
)
from mixnorm.montage.intervals import mean_known
from mixnorm.montage.letters_right import letters_of
from mixnorm.montage.orders import compared_orders
from mixnorm.montage.plain import number, numbers
from mixnorm.montage.progress import Progress, report_share
from mixnorm.montage.recommendation import Choice, choose, recommend
from mixnorm.montage.result import Curve, SelectionResult, SubjectRow
from mixnorm.montage.scored_windows import ScoredWindows, score_windows
from mixnorm.montage.scoring import ScoredMontages, usable_folds
from mixnorm.montage.select_options import SelectOptions
from mixnorm.montage.shown_path import shown_path
from mixnorm.montage.steps import DECODERS, MONTAGES, PATH, PREPARING, STABILITY, WINDOWS, subject_step
from mixnorm.montage.trials import SubjectTrials
from mixnorm.montage.verdict_records import NoTransfer

N_BLOCKS = 20
"""With fewer characters than this, stability selection splits so many blocks of neighbouring trials instead."""


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
        Called with a `Progress` when a step starts and whenever a part of it is finished; before the first step, when
        the recordings begin to be prepared and whenever one is.
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
    progress = progress or (lambda progress: None)
    design, recordings = (source, ()) if isinstance(source, Design) else _prepared(source, options, progress)
    case = Case.of(design, options, progress, checkpoint)
    case.tracker.start(MONTAGES)
    found = case.scored(case.subjects)
    choice = choose(found, options.sensors)
    sensors, alphas = case.sensors_and_alphas(found, choice.chosen)
    # from the nested cross-validation: nothing has to be fitted again to calibrate the decoder
    fits = DecoderFits(design, recordings, case.constraints.allowed, options.decoders)
    held_out = _held_out(case, found, choice.chosen, fits)
    rows = _by_subject(case, found, choice, held_out) if case.is_shared else None
    # stability, path, windows and the other orders are for the page: the montages above do not depend on them
    stable = _stability(case)
    case.tracker.start(PATH)
    path = shown_path(case)
    windows = _windows(case) if options.windows is not None else None
    curves = (curve_of("mixnorm", found.sizes, found.by_fold, found.ratio), *_compared(case, found))
    montages = montages_of(design, case.constraints, case.subjects, found)
    case.tracker.start(DECODERS)
    decoders = fits.decoders(sensors, alphas, held_out)
    case.tracker.finish_part()
    by_size = _decoders_by_size(case, found, fits) if options.decoders else {}
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


def _prepared(
    source: Any, options: SelectOptions, progress: Callable[[Progress], None]
) -> tuple[Design, Sequence[Recording | EpochedRecording]]:
    recordings = as_recordings(source)
    now = Progress(PREPARING, number=0, n_steps=0, done=0.0, restored=0.0)
    progress(now)
    preparation = default_preparation(recordings, options.preparation, options.window, options.n_samples)
    return prepare(recordings, preparation, lambda finished: progress(now)), recordings


def _no_transfer(case: Case, found: ScoredMontages, recordings: Sequence[Any]) -> NoTransfer | None:
    """Whether recordings that name no subject, taken for sessions of one, do not predict each other."""
    # Where the user named the subject, a poor session is one of the folds, and not a doubt about who it is.
    if not unnamed_recordings(recordings) or case.is_shared or case.folds[0].by != "session":
        return None
    number, session = case.folds[0].number, case.design.session
    names = [", ".join(dict.fromkeys(session[number == fold].tolist())) for fold in usable_folds(case.subjects)]
    return no_transfer(found, names)


def _windows(case: Case) -> ScoredWindows:
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


def _held_out(case: Case, found: ScoredMontages, place: int, fits: DecoderFits) -> HeldOutTrials:
    """The held-out scores of the montages of one size."""
    own = {}
    for t, name in enumerate(case.names):
        aucs = found.aucs[place, :, t]
        own[name] = HeldOutSubject(found.held_out(case.subjects, t, place), aucs[np.isfinite(aucs)])
    return HeldOutTrials(own, fits.scores_by_others(*case.sensors_and_alphas(found, place)))


def _decoders_by_size(case: Case, found: ScoredMontages, fits: DecoderFits) -> dict[int, MontageDecoders]:
    """The decoders of every montage."""
    by_size = {}
    for place, size in enumerate(found.sizes):
        held_out = _held_out(case, found, place, fits)
        by_size[int(size)] = fits.decoders(*case.sensors_and_alphas(found, place), held_out)
        case.tracker.finish_part()
    return by_size


def _compared(case: Case, found: ScoredMontages) -> list[Curve]:
    """The curves of other orders on the same folds; for several subjects the mean over orders found for each.

    All of them end at the same electrodes, and so at the same AUC: that of all electrodes is taken from ``found``.
    """
    curves: list[Curve] = []
    folds = usable_folds(case.subjects)
    for order in compared_orders(case.design.ch_names, case.constraints) if case.options.compare else ():
        case.tracker.start(order.name)
        try:
            own = [case.scored([one], order, folds) for one in case.subjects]
        # pyRiemann is an optional extra; without it the other curves are still worth showing
        except ImportError as error:
            warnings.warn(f"Not compared with {order.name}: {error}", UserWarning, stacklevel=3)
            continue
        # every subject has the folds of ``found``, in the same order, and NaN where it has no trials in one
        sizes, aucs = own[0].sizes, np.concatenate([one.aucs for one in own], axis=2)
        if order.ends_with_all:
            sizes, aucs = np.append(sizes, found.sizes[-1]), np.concatenate([aucs, found.aucs[-1:]])
        curves.append(curve_of(order.name, sizes, mean_known(aucs, axis=2), found.ratio))
    return curves


def _by_subject(case: Case, found: ScoredMontages, choice: Choice, held_out: HeldOutTrials) -> tuple[SubjectRow, ...]:
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
                new_subject_auc=number(held_out.by_others[name].aucs[0], 6),
                few_trials=few_trials([one]),
            )
        )
    return tuple(rows)


def _stability(case: Case) -> StabilitySelection | None:
    if not has_stability(case.constraints, case.options):
        return None
    case.tracker.start(STABILITY)
    # all trials, also those of the outer folds: nothing is scored here
    parts = [case.scaled(one, np.ones(len(one.X), dtype=bool)) for one in case.subjects]
    subjects = [one.take(accepted) for one, (_, accepted) in zip(case.subjects, parts, strict=True)]
    X = np.concatenate([scaled[accepted] for scaled, accepted in parts])
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
