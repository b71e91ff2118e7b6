"""From recordings to a montage: which electrodes are needed, what each one buys, what leaving the rest off costs."""

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
from mixnorm.montage.caution import NOT_SURE, caution_of, few_trials
from mixnorm.montage.checkpoint import Call, Parts, call_of, digest, run_calls
from mixnorm.montage.constraints import wishes_by_name
from mixnorm.montage.decoders import decoders_by_subject, newcomer_aucs, pooled_decoder, trials_of
from mixnorm.montage.elimination import Wishes
from mixnorm.montage.orders import (
    by_backward_elimination,
    by_riemannian_distance,
    by_snr,
    finder,
    standard_cap,
)
from mixnorm.montage.parts_of_result import (
    curve,
    evoked_part,
    montage_parts,
    number,
    numbers,
    sensor_parts,
    source_part,
    stability_part,
)
from mixnorm.montage.scoring import Montages, Subject, mean_known, score_montages
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV

N_INNER = 5
"""Inner folds, by which everything is chosen."""
N_BLOCKS = 20
"""Blocks of neighbouring trials that halves are drawn from where there are fewer characters than that."""

COMPARED = {
    "SNR ranking": by_snr,
    "backward elimination": by_backward_elimination,
    "Riemannian selection (pyRiemann)": by_riemannian_distance,
}


@dataclass(frozen=True)
class SelectOptions:
    """What to select, and how.

    Attributes
    ----------
    sensors : int or None
        So many sensors are recommended; None: the smallest montage within one standard error of the best.
    keep, forbid : tuples of str
        Electrodes that are in every montage, and in none.
    cost : mapping of str to float, or None
        What an electrode costs, 1 if not named: what it brings counts relative to that.
    n_folds : int or None
        Outer folds, where they are made of characters or blocks; refused where there are fewer of these. None: 5, or
        as many as there can be.
    n_resamplings : int
        Pairs of halves of stability selection; 0: none.
    compare : bool
        Whether the orders that people use elsewhere are scored on the same folds.
    n_jobs : int or None
        Outer folds in parallel.
    preparation : Preparation or None
        Of recordings; None: the default of their kind.
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
class Selection:
    """The montages of a recording, one for every number of sensors, with all that is needed to choose among them.

    Attributes
    ----------
    source, recommended, path, evoked : dict
    sensors, montages, curves : lists of dict
    stability : dict or None
    by_subject : list of dict, or None
        As :meth:`to_json` gives them; :doc:`docs/electrodes.md` describes every field.
    times : list of float
        Seconds.
    decoder : Decoder
        Fitted on all trials with the recommended montage; of several subjects pooled, for a newcomer.
    decoders : dict of str to Decoder
        Of several subjects each one's own, by name, with the recommended (common) montage.
    """

    source: dict[str, Any]
    sensors: list[dict[str, Any]] = field(repr=False)
    montages: list[dict[str, Any]] = field(repr=False)
    recommended: dict[str, Any]
    curves: list[dict[str, Any]] = field(repr=False)
    stability: dict[str, Any] | None = field(repr=False)
    path: dict[str, Any] = field(repr=False)
    times: list[float] = field(repr=False)
    evoked: dict[str, Any] = field(repr=False)
    by_subject: list[dict[str, Any]] | None = field(repr=False)
    decoder: Decoder = field(repr=False)
    decoders: dict[str, Decoder] = field(repr=False)

    @property
    def montage(self) -> tuple[str, ...]:
        """Names of the recommended electrodes, the most important one first."""
        found = next(m for m in self.montages if m["n_sensors"] == self.recommended["n_sensors"])
        return tuple(found["sensors"])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: strings, numbers, lists and None."""
        names = ("source", "sensors", "montages", "recommended", "curves", "stability", "path", "times", "evoked")
        body = {name: getattr(self, name) for name in names}
        return {"format": "mixnorm-selection", "version": 1, **body, "by_subject": self.by_subject}


def select_montage(
    source: Design | Recording | EpochedRecording | Sequence[Recording | EpochedRecording],
    options: SelectOptions | None = None,
    tell: Callable[[str], None] | None = None,
    parts: Parts | None = None,
) -> Selection:
    """Find the best montage for every number of sensors, and score it by nested cross-validation.

    Parameters
    ----------
    source : Design, or one or several recordings with labels
    options : SelectOptions, optional
    tell : callable, optional
        Is told what is done next.
    parts : Parts, optional
        Where finished parts are kept, so that a selection that was stopped goes on where it was.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_recording
    >>> found = select_montage(simulated_recording(300, seed=0), SelectOptions(n_resamplings=0, compare=False))
    >>> found.recommended["n_sensors"] == len(found.montage)
    True
    """
    options = options or SelectOptions()
    tell = tell or (lambda what: None)
    design, recordings = (source, ()) if isinstance(source, Design) else _prepared(source, options.preparation)
    wishes = wishes_by_name(design.ch_names, options.keep, options.forbid, options.cost)
    _check_sensors(options.sensors, wishes)
    case = _Case.of(design, wishes, options, parts)
    tell("montages and their scores")
    found = case.scored(case.subjects)
    place, reason = _recommended(found, options.sensors)
    caution, unsure = caution_of(found, place, case.subjects)
    own = _by_subject(case, found, place, tell)
    stable = _stability(case, tell)
    tell("path")
    path = _path(case)
    curves = [curve("mixnorm", found.sizes, found.by_fold, found.ratio), *_compared(case, tell)]
    sensors = [design.ch_names[i] for i in found.order[: found.sizes[place]]]
    alphas = {name: float(models.alphas[place]) for name, models in zip(case.names, found.models, strict=True)}
    return Selection(
        source=source_part(design, recordings, dict(zip(case.names, case.folds, strict=True)), len(found.tests)),
        sensors=sensor_parts(design, wishes, stable),
        montages=montage_parts(design, wishes, case.subjects, found),
        recommended={
            "n_sensors": int(found.sizes[place]),
            "reason": f"{NOT_SURE}. {reason}" if unsure else reason,
            "caution": caution,
        },
        curves=curves,
        stability=stability_part(stable, design.ch_names),
        path=path,
        times=numbers(design.times),
        evoked=evoked_part(design),
        by_subject=own and _with_newcomers(case, own, sensors, alphas),
        decoder=pooled_decoder(design, sensors, alphas, recordings),
        decoders=decoders_by_subject(design, sensors, alphas, recordings) if own else {},
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """Everything that stays the same during one selection."""

    design: Design
    wishes: Wishes
    options: SelectOptions
    folds: list[Folds]
    subjects: list[Subject]
    names: list[str]
    parts: Parts | None

    @classmethod
    def of(cls, design: Design, wishes: Wishes, options: SelectOptions, parts: Parts | None) -> _Case:
        X, y, groups = design.to_sklearn()
        signs = np.where(y == 1, 1.0, -1.0)
        names = list(dict.fromkeys(design.subject.tolist()))
        folds, subjects = [], []
        for name in names:
            own = design.subject == name
            folds.append(honest_folds(trials_of(design, own), options.n_folds))
            subjects.append(Subject(X[own], signs[own], folds[-1].number, groups[own]))
            if not subjects[-1].has_both_classes:
                raise ValueError(f"Subject {name!r} has trials of one class only; leave it out.")
        return cls(design, wishes, options, folds, subjects, names, parts)

    def run(self, name: str, subjects: list[Subject], calls: list[Call], n_jobs: int | None = None) -> list[Any]:
        """Make calls about some of the subjects; what an earlier run has finished is taken from there."""
        if self.parts is None:
            return run_calls(calls, n_jobs)
        data = [value for one in subjects for value in vars(one).values()]  # all there is, also what is added later
        wishes = (self.wishes.keep, self.wishes.forbid, self.wishes.cost)
        about = digest(*data, *wishes, self.design.ch_names, self.design.preparation)
        return self.parts.run(name, about, calls, n_jobs)

    def scored(self, subjects: list[Subject], find: Callable | None = None, name: str = "montages") -> Montages:
        return score_montages(
            subjects,
            cv=InOrder(N_INNER),
            wishes=self.wishes,
            scaler=self.design.preparation.scaler(),
            run=lambda calls: self.run(name, subjects, calls, self.options.n_jobs),
            find=find,
        )

    def scaled(self, one: Subject, train: NDArray[np.bool_]) -> NDArray[np.float64]:
        """All trials of a subject, scaled by some of them."""
        return self.design.preparation.scaler().fit(one.X[train]).transform(one.X)


def _prepared(source: Any, preparation: Preparation | None) -> tuple[Design, Sequence[Recording | EpochedRecording]]:
    recordings = [source] if isinstance(source, Recording | EpochedRecording) else list(source)
    return prepare(recordings, preparation), recordings


def _check_sensors(asked: int | None, wishes: Wishes) -> None:
    if asked is None:
        return
    allowed, kept = int((~wishes.forbid).sum()), int(wishes.keep.sum())
    if asked < 1:
        raise ValueError(f"A montage has at least one sensor, but {asked} were asked for.")
    if asked > allowed:
        gone = f" ({wishes.forbid.sum()} are forbidden)" if wishes.forbid.any() else ""
        raise ValueError(f"{asked} sensors were asked for, but there are only {allowed}{gone}.")
    if asked < kept:
        raise ValueError(f"{asked} sensors were asked for, but {kept} are to be kept.")


def _recommended(found: Montages, asked: int | None) -> tuple[int, str]:
    """Place of the recommended montage among the sizes, and the reason in a sentence."""
    mean = found.mean
    place, best, error = found.smallest_near_best()
    many = "sensor" if found.sizes[best] == 1 else "sensors"
    top = f"the best ({mean[best]:.3f} with {found.sizes[best]} {many})"
    if asked is not None:
        place = int(np.flatnonzero(found.sizes == asked)[0])
        so_many = "One sensor was asked for; its" if asked == 1 else f"{asked} sensors were asked for; their"
        return place, f"{so_many} AUC is {mean[best] - mean[place]:.3f} below {top}."
    if place == best:
        return place, f"It is {top}, and none that is smaller comes within one standard error of it."
    return place, f"The smallest montage within one standard error ({error:.3f}) of {top}."


def _compared(case: _Case, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """The curves of what people use elsewhere, on the same folds; for several subjects the mean over them."""
    if not case.options.compare:
        return []
    allowed = np.flatnonzero(~case.wishes.forbid)
    cap = np.array([i for i in standard_cap(case.design.ch_names) if i in allowed], dtype=np.int64)
    finders = {name: finder(order, allowed) for name, order in COMPARED.items()}
    if len(cap):
        finders["standard 8-channel cap"] = lambda training: (cap, np.array([len(cap)]))
    curves = []
    for name, find in finders.items():
        tell(name)
        try:
            found = [case.scored([one], find, name) for one in case.subjects]
        except ImportError as error:
            warnings.warn(f"Left out of the comparison: {name}. {error}", UserWarning, stacklevel=3)
            continue
        aucs = _padded([one.by_fold for one in found])
        curves.append(curve(name, found[0].sizes, mean_known(aucs, axis=2), found[0].ratio))
    return curves


def _padded(parts: list[NDArray]) -> NDArray:
    """(S, J, T) of subjects who may have different numbers of folds."""
    folds = max(part.shape[1] for part in parts)
    return np.stack([np.pad(p, ((0, 0), (0, folds - p.shape[1])), constant_values=np.nan) for p in parts], axis=2)


def _by_subject(case: _Case, found: Montages, place: int, tell: Callable[[str], None]) -> list[dict] | None:
    """Each subject's own montage beside the common one; None for a single subject."""
    if len(case.subjects) == 1:
        return None
    rows = []
    for t, (name, one) in enumerate(zip(case.names, case.subjects, strict=True)):
        tell(f"subject {name}")
        own = case.scored([one])
        at, _ = _recommended(own, case.options.sensors)
        rows.append(
            {
                "subject": name,
                "n_sensors": int(own.sizes[at]),
                "sensors": [case.design.ch_names[i] for i in own.order[: own.sizes[at]]],
                "auc": number(own.mean[at], 6),
                "common_auc": number(mean_known(found.aucs[place, None, :, t], axis=1)[0], 6),
            }
        )
    return rows


def _with_newcomers(case: _Case, rows: list[dict], sensors: list[str], alphas: dict[str, float]) -> list[dict]:
    """The rows of subjects, with what the pooled decoder of the others scores on each; a word where trials are few."""
    aucs = newcomer_aucs(case.design, sensors, alphas)
    return [
        {**row, "newcomer_auc": number(aucs[row["subject"]], 6), "caution": few_trials([one])}
        for row, one in zip(rows, case.subjects, strict=True)
    ]


def _stability(case: _Case, tell: Callable[[str], None]) -> StabilitySelection | None:
    if not case.options.n_resamplings or int((~(case.wishes.keep | case.wishes.forbid)).sum()) < 2:
        return None
    tell("stability")
    X = np.concatenate([case.scaled(one, np.ones(len(one.X), dtype=bool)) for one in case.subjects])
    signs = np.concatenate([one.signs for one in case.subjects])
    groups = np.concatenate([one.trial_groups for one in case.subjects])
    if len(np.unique(groups)) < N_BLOCKS:
        groups = dealt(np.arange(len(signs)), N_BLOCKS)
    call = call_of(
        stability_selection,
        X,
        signs,
        n_resamplings=case.options.n_resamplings,
        trial_groups=groups,
        group_weights=case.wishes.group_weights,
    )
    return case.run(f"stability by {case.options.n_resamplings} pairs of halves", case.subjects, [call], n_jobs=1)[0]


def _path(case: _Case, n_alphas: int = 20) -> dict[str, Any]:
    """The mixed-norm path, one norm over all subjects: sensors on it, and its AUC on the test trials of each fold."""
    (whole,) = case.run("path", case.subjects, [call_of(_path_without, case, None, n_alphas)], n_jobs=1)
    folds = []
    for fold in np.unique(np.concatenate([one.number for one in case.subjects])):
        parts = [one.take(mask) for one in case.subjects for mask in (one.number == fold, one.number != fold)]
        if all(part.has_both_classes for part in parts):
            folds.append(call_of(_path_without, case, fold, whole["alphas"]))
    scores = [found["auc"] for found in case.run("path in folds", case.subjects, folds, n_jobs=1)]
    mean = np.mean(scores, axis=0) if scores else np.full(n_alphas, np.nan)
    return {
        "alphas": numbers(whole["alphas"], 6),
        "n_selected": [int(count) for count in whole["n_selected"]],
        "auc": numbers(mean, 6),
    }


def _path_without(case: _Case, fold: int | None, alphas: Any) -> dict[str, NDArray]:
    """The path learned without the trials of a fold and scored on these; None: learned and scored on all."""
    fold_of = np.concatenate([one.number for one in case.subjects])
    train = fold_of != fold
    test = ~train if fold is not None else train
    model = MultiTaskGroupSVCCV(
        alphas,
        similarities=[0.0],
        group_weights=case.wishes.group_weights,
        cv=[(np.flatnonzero(train), np.flatnonzero(test))],
        tol=1e-3,
    )
    X = np.concatenate([case.scaled(one, one.number != fold) for one in case.subjects])
    signs = np.concatenate([one.signs for one in case.subjects])
    with warnings.catch_warnings():
        # Sensors to keep are not penalised; where they alone separate the trials there is no certificate. The path is
        # shown, and nothing is chosen by it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, signs, subjects=np.repeat(case.names, [len(one.signs) for one in case.subjects]))
    return {"alphas": model.alphas_, "n_selected": model.n_selected_[0], "auc": model.scores_[0, :, 0]}
