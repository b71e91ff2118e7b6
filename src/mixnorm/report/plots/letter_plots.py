"""Pictures of spelled letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixnorm.eeg.speller import MATRICES, Speller
from mixnorm.eeg.spelling import Spelled, Stopping
from mixnorm.eeg.spelling_rates import Rates, rates_by_repetition, rates_by_threshold
from mixnorm.report.safe_text import for_figure
from mixnorm.report.styles import BLUE, ORANGE, figure_on_screen, method_style, plain
from mixnorm.study.letters import LettersRight
from mixnorm.study.methods import METHODS

LETTERS_SIZE = (5.6, 4.2)


def plot_letters(
    letters: Sequence[Spelled] | Sequence[LettersRight],
    axes: Any = None,
    *,
    speller: Speller | None = None,
    stopping: Stopping | None = None,
) -> Any:
    """Draw how many letters are spelled right.

    Of spelled letters: against the mean number of flashes, for fixed numbers of repetitions and for stopping at a
    probability. Of a study: against the number of repetitions, with 95 % intervals over subjects.

    Parameters
    ----------
    letters : list of Spelled, or list of LettersRight
        What `spell` returns, where the true text is known, or `mixnorm.study.letters.letters_right` of a study.
    axes : matplotlib axes, optional
    speller : Speller, optional
        That the letters were spelled with; by default ``MATRICES["6x6"]``.
    stopping : Stopping, optional
        Its least and greatest number of repetitions apply to stopping at a probability.

    Returns
    -------
    matplotlib axes
    """
    if not letters:
        raise ValueError("There are no letters to draw.")
    axes = figure_on_screen(LETTERS_SIZE) if axes is None else axes
    if isinstance(letters[0], LettersRight):
        _draw_repetitions(axes, letters)
    else:
        _draw_flashes(axes, letters, speller or MATRICES["6x6"], stopping)
    axes.set_ylabel("Letters right (%)", fontsize=9)
    plain(axes)
    axes.tick_params(labelsize=8)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return axes


def _draw_flashes(axes: Any, spelled: Sequence[Spelled], speller: Speller, stopping: Stopping | None) -> None:
    """Letters right against the mean number of flashes."""
    fixed, early = rates_by_repetition(spelled, speller), rates_by_threshold(spelled, speller, stopping=stopping)
    if fixed is None or early is None:
        raise ValueError("The true text is not known, so that it is not known how many letters are right.")
    _draw_rates(axes, fixed, {"color": BLUE, "marker": "o", "label": "fixed number of repetitions"})
    _draw_rates(axes, early, {"color": ORANGE, "marker": "s", "label": "stopped at a probability"})
    axes.set_xlabel("Flashes per letter (mean)", fontsize=9)
    axes.set_ylim(0, 108)
    axes.set_xlim(left=0)


def _draw_rates(axes: Any, found: Sequence[Rates], style: dict[str, str]) -> None:
    """A curve with the number of repetitions below its points, or the probability above them."""
    flashes, right = [one.n_flashes for one in found], [100 * one.right for one in found]
    axes.plot(flashes, right, markersize=5, linewidth=1.4, **style)
    for one, x, y in zip(found, flashes, right, strict=True):
        text, away = (f"{one.repetitions}", -11) if one.threshold is None else (f"{one.threshold:g}", 6)
        axes.annotate(text, (x, y), xytext=(0, away), textcoords="offset points", ha="center", fontsize=7)


def _draw_repetitions(axes: Any, found: Sequence[LettersRight]) -> None:
    """Letters right against the number of repetitions; the bands are 95 % intervals over subjects."""
    several = len({one.dataset for one in found}) > 1
    for one in found:
        name = METHODS[one.method].title + (f", {for_figure(one.dataset)}" if several else "")
        repetitions, style = range(1, len(one.right) + 1), method_style(one.method)
        axes.plot(repetitions, one.right, **style, label=name)
        if one.low is not None and one.high is not None:
            axes.fill_between(repetitions, one.low, one.high, color=style["color"], alpha=0.12, linewidth=0)
    axes.set_xlabel("Repetitions", fontsize=9)
    axes.set_ylim(0, 102)
