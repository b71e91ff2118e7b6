"""Sentences about a selection, made from its fields. Nothing is ever decided by their text."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixnorm.montage.result import FoldsUsed, SelectionResult, Stability
    from mixnorm.montage.verdict_records import ChanceLevel, FewFolds, FewTrials, NoTransfer, Recommendation
    from mixnorm.montage.window_records import Window, WindowScores

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


def few_of(recommended: Recommendation, n_all: int) -> str:
    """How many of all electrodes are put forward, and that they were asked for where they were."""
    asked = ", as asked for" if recommended.verdict == "asked" else ""
    return f"{recommended.n_sensors} of {count(n_all, 'electrode')}{asked}"


def trade(selection: SelectionResult) -> str | None:
    """What the next electrode and all electrodes add to the montage put forward; None where there are no more."""
    chosen = selection.chosen
    more = [one for one in selection.montages if one.n_sensors > chosen.n_sensors]
    if not more or more[0].drop is None or more[0].drop.auc_change is None or chosen.below_all is None:
        return None
    added = more[0].drop
    parts = [f"One more electrode ({added.sensor}): AUC {change(-added.auc_change, added.standard_error)}"]
    if len(more) > 1:
        gain = change(chosen.below_all, chosen.below_all_error)
        parts.append(f"all {more[-1].n_sensors} electrodes: AUC {gain}")
    known = added.standard_error is not None
    error = " (± standard error of the paired difference over folds)" if known else ""
    return f"{'; '.join(parts)}{error}."


def change(value: float, error: float | None) -> str:
    """Write a difference in AUC with its standard error: "+0.012 ± 0.004"."""
    sign = "" if abs(value) < 5e-4 else "−" if value < 0 else "+"
    return f"{sign}{abs(value):.3f}{'' if error is None else f' ± {error:.3f}'}"


def command(arguments: Sequence[str]) -> str:
    """The command that made a selection, to which a number of electrodes and a folder can be added."""
    words = ["mixnorm", "select", *arguments]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def one_subject(unnamed: Sequence[str]) -> str | None:
    """That several recordings without the name of a subject are treated as one subject's; None where they are not."""
    if not unnamed:
        return None
    names = ", ".join(unnamed[:3]) + (", …" if len(unnamed) > 3 else "")
    return (
        f"{len(unnamed)} recordings do not name their subject ({names}) and are treated as recordings of one subject; "
        "if they are of several people, name the subject of each with --subjects A,B,…"
    )


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
        _no_transfer(recommended.no_transfer) if recommended.no_transfer else None,
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


def _no_transfer(found: NoTransfer) -> str:
    scores = [
        f"{name} (AUC {_auc(auc)}, 95 % interval {_auc(low)} … {_auc(high)})"
        for name, auc, low, high in zip(found.sessions, found.auc, found.low, found.high, strict=True)
    ]
    return (
        f"A decoder of the other recordings is not better than chance on {', '.join(scores)}: the recordings may be "
        "of different people. Name the subject of each with --subjects A,B,…, the same name for the same person."
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


def windows(selection: SelectionResult) -> str | None:
    """Which windows were chosen, and what choosing them is worth; None where they were not asked for."""
    found, scores = selection.windows, selection.window_scores
    if not found or scores is None:
        return None
    chosen = [one for one in found if one.selected]
    if not chosen:
        which = f"None of the {len(found)} windows was chosen: these trials do not show a response in any of them."
    elif len(chosen) == len(found):
        which = "The only window was chosen." if len(found) == 1 else f"All {len(found)} windows were chosen."
    else:
        which = f"{len(chosen)} of {len(found)} windows {'was' if len(chosen) == 1 else 'were'} chosen: "
        which += f"{', '.join(covered([(one.start, one.stop) for one in chosen]))}."
    span = _span(scores.low, scores.high, ", 95 % interval")
    return (
        f"{which} AUC on held-out trials: {_auc(scores.auc)}{span}; without norms of windows, so that none is left "
        f"out: {_auc(scores.all_windows_auc)}{_gain(scores)}."
    )


def covered(windows: Sequence[tuple[float, float]]) -> list[str]:
    """The spans of time that windows cover, given by their ends in seconds and in order; neighbours are one span.

    Examples
    --------
    >>> covered([(0.1, 0.2), (0.2, 0.3), (0.5, 0.6)])
    ['100–300 ms', '500–600 ms']
    """
    spans: list[tuple[float, float]] = []
    for start, stop in windows:
        joined = bool(spans) and abs(start - spans[-1][1]) < 1e-6
        spans[-1:] = [(spans[-1][0], stop)] if joined else [*spans[-1:], (start, stop)]
    return [span_name(*span) for span in spans]


def _gain(scores: WindowScores) -> str:
    if scores.gain is None:
        return ""
    error = "" if scores.gain_error is None else ", standard error over folds"
    return f" (difference {change(scores.gain, scores.gain_error)}{error})"


def span_name(start: float, stop: float) -> str:
    """A span of time, given in seconds: "200–300 ms"."""
    return f"{1000 * start:.0f}–{1000 * stop:.0f} ms"


def chosen_in(window: Window, scores: WindowScores) -> str:
    """In how many of the folds a window was chosen: "4 of 5 folds"."""
    return f"{round(window.frequency * scores.n_folds)} of {count(scores.n_folds, 'fold')}"


def count(n: int, what: str) -> str:
    """Write a number with its noun: "1 fold", "2 folds"."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _auc(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"
