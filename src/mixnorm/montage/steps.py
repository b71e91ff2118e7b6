"""The steps of a selection and their estimated work, so that the time left can be shown from the beginning."""

from __future__ import annotations

from collections.abc import Sequence

from mixnorm.montage.progress import Step

#: Before the first step: how many steps there are depends on the trials.
PREPARING = "preparing"
MONTAGES, STABILITY, PATH, DECODERS = "montages and their scores", "stability", "path", "decoders"
WINDOWS = "windows of time"

#: Work relative to that of ranking and refitting in one fold of one subject: one half-sample pair of stability
#: selection, the path in one fold, another order in one fold, the decoders of one montage, the windows in one fold.
#: Measured roughly: they decide only how good the first estimates of the time left are.
_PAIR, _PATH, _ORDER, _DECODER, _WINDOWS = 0.04, 0.05, 0.5, 0.02, 1.0


def subject_step(name: str) -> str:
    """Name of the step that finds the own montage of one of several subjects."""
    return f"subject {name}"


def steps_of(
    n_folds: int, subjects: Sequence[str], n_pairs: int, orders: Sequence[str], n_decoders: int, windows: bool = False
) -> dict:
    """Return the steps by name, in the order in which `select_montage` takes them.

    Parameters
    ----------
    n_folds : int
        Number of outer folds; every step that is scored has one part more, for all trials.
    subjects : names of the subjects
    n_pairs : int
        Number of half-sample pairs for stability selection; 0: there is no such step.
    orders : names of the orders that are compared
    n_decoders : int
        Number of montages for which decoders are fitted.
    windows : bool
        Whether windows of time are chosen, too.

    Examples
    --------
    >>> list(steps_of(5, ["A"], 0, ["SNR ranking"], 1))
    ['montages and their scores', 'path', 'SNR ranking', 'decoders']
    """
    # the last part is the fit on all trials
    T, parts = len(subjects), n_folds + 1
    steps = {MONTAGES: Step(parts, T)}
    if T > 1:
        steps |= {subject_step(name): Step(parts, 1.0) for name in subjects}
    if n_pairs:
        steps[STABILITY] = Step(1, _PAIR * n_pairs * T)
    steps[PATH] = Step(parts, _PATH * T)
    if windows:
        steps[WINDOWS] = Step(parts, _WINDOWS * T)
    steps |= {name: Step(parts * T, _ORDER) for name in orders}
    return steps | {DECODERS: Step(n_decoders, _DECODER * T)}
