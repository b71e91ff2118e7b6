"""Sentences about a selection, made from its fields. Nothing is ever decided by their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixnorm.montage.result import (
        ChanceLevel,
        FewFolds,
        FewTrials,
        FoldsUsed,
        Recommendation,
        Stability,
    )

NEW_SUBJECT = (
    "montage-SUBJECT.mixnorm is the decoder of one subject; “common montage” is its AUC. montage.mixnorm is one "
    "decoder trained on the trials of all subjects, for a new subject; “as new subject” is the AUC of such a decoder "
    "trained on the other subjects only, with the electrodes chosen on all subjects."
)
"""What the decoders of several subjects are, and how they were scored."""


def headline(recommended: Recommendation) -> str:
    """What is said first where nothing can be recommended with confidence; otherwise empty."""
    return "No montage can be recommended with confidence" if recommended.verdict == "unsure" else ""


def label(recommended: Recommendation) -> str:
    """A short name of the montage put forward, for marks in tables and figures."""
    if recommended.n_asked is not None:
        return "asked for"
    return "recommended" if recommended.verdict == "recommended" else "smallest near the best"


def reason(recommended: Recommendation) -> str:
    """Why this montage is put forward."""
    n_best, n_asked = recommended.best_n_sensors, recommended.n_asked
    best = f"{_auc(recommended.best_auc)} with {count(n_best, 'electrode')}"
    if n_asked is not None:
        verb = "was" if n_asked == 1 else "were"
        asked = f"{count(n_asked, 'electrode')} {verb} asked for"
        if n_asked == n_best:
            return f"{asked}; no other number of electrodes has a higher AUC."
        return f"{asked}; the AUC is {_auc(recommended.below_best)} below the best ({best})."
    if recommended.tolerance is not None:
        return _within_tolerance(recommended, best)
    if recommended.n_sensors == n_best:
        return f"The montage with the highest AUC ({best}); no smaller one is within one standard error of it."
    known = recommended.standard_error is not None
    error = f" ({recommended.standard_error:.3f})" if known else ""
    return f"The smallest montage within one standard error{error} of the best ({best})."


def _within_tolerance(recommended: Recommendation, best: str) -> str:
    near = f"within {recommended.tolerance:g} of the highest AUC ({best})"
    if recommended.n_sensors == recommended.best_n_sensors:
        return f"The montage with the highest AUC ({best}); no smaller one is within {recommended.tolerance:g} of it."
    known = recommended.standard_error is not None and recommended.below_best is not None
    loss = (
        f" Its own AUC is {recommended.below_best:.3f} ± {recommended.standard_error:.3f} below it." if known else ""
    )
    return f"The smallest montage {near}, after smoothing over the number of electrodes.{loss}"


def caution(recommended: Recommendation) -> str | None:
    """What must be known before the montage is relied on, or None."""
    said = [
        few_trials(recommended.few_trials) if recommended.few_trials else None,
        _chance_level(recommended.chance_level) if recommended.chance_level else None,
        _few_folds(recommended.few_folds) if recommended.few_folds else None,
    ]
    return " ".join(one for one in said if one) or None


def few_trials(few: FewTrials) -> str:
    """How many trials of a class there are, where they are too few."""
    counts = {"target": few.n_targets, "nontarget": few.n_nontargets}
    small = [count(n, f"{name} trial") for name, n in counts.items() if n is not None]
    return f"Only {' and '.join(small)}: too few to compare electrodes; record more."


def _chance_level(found: ChanceLevel) -> str:
    unknown = {
        "best": "any electrode helps; record more.",
        "chosen": "this montage is better than chance; record more, or use more electrodes.",
    }
    interval = f"The 95 % interval of the {found.montage} montage{_span(found.low, found.high)}"
    return f"{interval} includes chance level (0.5): these trials do not show that {unknown[found.montage]}"


def _few_folds(few: FewFolds) -> str:
    span = _span(few.low, few.high, " for the best montage")
    return (
        f"Only {count(few.count, 'fold')}: the decoder is better than chance, but the intervals{span} say little "
        "about another session; record more."
    )


def _span(low: float | None, high: float | None, whose: str = "") -> str:
    return "" if low is None or high is None else f" ({low:.3f} … {high:.3f}{whose})"


def optimistic(folds: FoldsUsed) -> str | None:
    """Why the AUCs may be too high for another day, or None where the folds are sessions."""
    one_session = [name for name, kind in folds.by_subject.items() if kind in ("character", "block")]
    two_sessions = [name for name, kind in folds.by_subject.items() if kind == "run"]
    concerned = one_session or two_sessions
    whose = "" if len(concerned) == len(folds.by_subject) else f" of {', '.join(concerned)}"
    if one_session:
        return (
            f"Only one session{whose}: training and held-out trials are from the same session, so that the AUCs may "
            "be optimistic for another day."
        )
    if two_sessions:
        return (
            f"Only two sessions{whose}, whose runs are the folds: training and held-out trials may be from the same "
            "session, so that the AUCs may be optimistic for another day."
        )
    return None


def stability(found: Stability) -> str:
    """The error bound of stability selection in words."""
    halves = f"{100 * found.threshold:.0f} % of {2 * found.n_resamplings} random halves of the trials"
    where = "of the same ranking" if found.by == "elimination" else "on the path"
    first = "selected" if found.n_first is None else f"among the first {found.n_first} {where}"
    chosen = count(len(found.selected), "electrode")
    return (
        f"{chosen} {'was' if len(found.selected) == 1 else 'were'} {first} in at least {halves}. At most "
        f"{found.error_bound:.1f} of them are expected to be false, that is, to be selected from half of the trials "
        "no more often than a random electrode (Meinshausen and Bühlmann 2010; Shah and Samworth 2013)."
    )


def count(n: int, what: str) -> str:
    """Write a number with its noun: "1 fold", "2 folds"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _auc(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
