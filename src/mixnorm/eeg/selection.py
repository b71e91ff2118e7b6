"""From recordings to a montage: which electrodes are needed, what each one buys, what leaving the rest off costs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design, prepare
from mixnorm.eeg.folds import Folds, InOrder, dealt, honest_folds
from mixnorm.eeg.orders import (
    by_backward_elimination,
    by_riemannian_distance,
    by_snr,
    finder,
    standard_cap,
)
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.selection_json import (
    curve,
    evoked_part,
    montage_parts,
    number,
    numbers,
    sensor_parts,
    source_part,
    stability_part,
)
from mixnorm.eeg.wishes import wishes_by_name
from mixnorm.elimination import Wishes
from mixnorm.montages import Montages, Subject, mean_known, score_montages
from mixnorm.multitask_cv import MultiTaskGroupSVCCV
from mixnorm.stability import StabilitySelection, stability_selection
from mixnorm.svc import GroupSVC

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
    n_folds : int
        Outer folds, where they are made of characters or blocks.
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
    n_folds: int = 5
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
        Fitted on all trials with the recommended montage.
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
) -> Selection:
    """Find the best montage for every number of sensors, and score it by nested cross-validation.

    Parameters
    ----------
    source : Design, or one or several recordings with labels
    options : SelectOptions, optional
    tell : callable, optional
        Is told what is done next.

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
    case = _Case.of(design, wishes, options)
    tell("montages and their scores")
    found = case.scored(case.subjects)
    place, reason = _recommended(found, options.sensors)
    own = _by_subject(case, found, place, tell)
    stable = _stability(case, tell)
    tell("path")
    path = _path(case)
    curves = [curve("mixnorm", found.sizes, found.by_fold, found.ratio), *_compared(case, tell)]
    sensors = [design.ch_names[i] for i in found.order[: found.sizes[place]]]
    return Selection(
        source=source_part(design, recordings, case.folds),
        sensors=sensor_parts(design, wishes, stable),
        montages=montage_parts(design, wishes, case.subjects, found),
        recommended={"n_sensors": int(found.sizes[place]), "reason": reason},
        curves=curves,
        stability=stability_part(stable, design.ch_names),
        path=path,
        times=numbers(design.times),
        evoked=evoked_part(design),
        by_subject=own,
        decoder=_decoder(design, sensors, found.models[0].alphas[place], recordings),
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

    @classmethod
    def of(cls, design: Design, wishes: Wishes, options: SelectOptions) -> _Case:
        X, y, groups = design.to_sklearn()
        signs = np.where(y == 1, 1.0, -1.0)
        names = list(dict.fromkeys(design.subject.tolist()))
        folds, subjects = [], []
        for name in names:
            own = design.subject == name
            folds.append(honest_folds(_trials(design, own), options.n_folds))
            subjects.append(Subject(X[own], signs[own], folds[-1].number, groups[own]))
            if not subjects[-1].has_both_classes:
                raise ValueError(f"Subject {name!r} has trials of one class only; leave it out.")
        return cls(design, wishes, options, folds, subjects, names)

    def scored(self, subjects: list[Subject], find: Callable | None = None) -> Montages:
        return score_montages(
            subjects,
            cv=InOrder(N_INNER),
            wishes=self.wishes,
            scaler=self.design.preparation.scaler(),
            n_jobs=self.options.n_jobs,
            find=find,
        )

    def scaled(self) -> list[NDArray[np.float64]]:
        """All trials of each subject, scaled by themselves."""
        return [self.design.preparation.scaler().fit_transform(one.X) for one in self.subjects]


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
        return place, f"{asked} sensors were asked for; their AUC is {mean[best] - mean[place]:.3f} below {top}."
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
            found = [case.scored([one], find) for one in case.subjects]
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


def _stability(case: _Case, tell: Callable[[str], None]) -> StabilitySelection | None:
    if not case.options.n_resamplings or int((~(case.wishes.keep | case.wishes.forbid)).sum()) < 2:
        return None
    tell("stability")
    X = np.concatenate(case.scaled())
    signs = np.concatenate([one.signs for one in case.subjects])
    groups = np.concatenate([one.trial_groups for one in case.subjects])
    if len(np.unique(groups)) < N_BLOCKS:
        groups = dealt(np.arange(len(signs)), N_BLOCKS)
    return stability_selection(
        X,
        signs,
        n_resamplings=case.options.n_resamplings,
        trial_groups=groups,
        group_weights=case.wishes.group_weights,
    )


def _path(case: _Case, n_alphas: int = 20) -> dict[str, Any]:
    """The mixed-norm path, one norm over all subjects: sensors on it, and its AUC on the test trials of each fold."""
    fold_of = np.concatenate([one.number for one in case.subjects])
    refitted = _joint_path(case, n_alphas, np.concatenate(case.scaled()), np.ones(len(fold_of), dtype=bool))
    scores = []
    for fold in np.unique(fold_of):
        parts = [one.take(mask) for one in case.subjects for mask in (one.number == fold, one.number != fold)]
        if all(part.has_both_classes for part in parts):
            X = np.concatenate([_scaled_by(case, one, one.number != fold) for one in case.subjects])
            scores.append(_joint_path(case, refitted.alphas_, X, fold_of != fold).scores_[0, :, 0])
    mean = np.mean(scores, axis=0) if scores else np.full(n_alphas, np.nan)
    return {
        "alphas": numbers(refitted.alphas_, 6),
        "n_selected": [int(count) for count in refitted.n_selected_[0]],
        "auc": numbers(mean, 6),
    }


def _joint_path(case: _Case, alphas: Any, X: NDArray, train: NDArray) -> MultiTaskGroupSVCCV:
    """A path learned on some trials and scored on the others (on the same ones where there are no others)."""
    test = train if train.all() else ~train
    model = MultiTaskGroupSVCCV(
        alphas,
        similarities=[0.0],
        group_weights=case.wishes.group_weights,
        cv=[(np.flatnonzero(train), np.flatnonzero(test))],
        tol=1e-3,
    )
    signs = np.concatenate([one.signs for one in case.subjects])
    with warnings.catch_warnings():
        # Sensors to keep are not penalised; where they alone separate the trials there is no certificate. The path is
        # shown, and nothing is chosen by it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, signs, subjects=np.repeat(case.names, [len(one.signs) for one in case.subjects]))


def _scaled_by(case: _Case, one: Subject, train: NDArray) -> NDArray:
    return case.design.preparation.scaler().fit(one.X[train]).transform(one.X)


def _decoder(design: Design, sensors: list[str], alpha: float, recordings: Sequence[Any]) -> Decoder:
    """The decoder of a montage; it asks for no other electrodes, but for those of the reference."""
    reference = design.preparation.reference
    if reference == "average":  # of all electrodes: then all are needed
        beta = {i: np.inf for i, name in enumerate(design.ch_names) if name not in sensors}
        classifier = GroupSVC(float(alpha), penalty="l2", group_weights=beta)
        return Decoder.from_design(design, recordings[0].ch_names if recordings else None, classifier)
    order = [design.ch_names.index(name) for name in sensors]
    part = replace(design, X=design.X[:, order], ch_names=tuple(sensors), positions=design.positions[order])
    return Decoder.from_design(part, (*sensors, *(reference or ())), GroupSVC(float(alpha), penalty="l2"))


def _trials(design: Design, mask: NDArray[np.bool_]) -> Design:
    """Some of the trials."""
    names = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")
    return replace(design, **{name: getattr(design, name)[mask] for name in names})
