"""Pictures of spelled letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixnorm.eeg.speller import MATRICES, Speller
from mixnorm.eeg.spelling import Spelled, Stopping
from mixnorm.eeg.spelling_rates import Rates, rates_by_repetition, rates_by_threshold
from mixnorm.report.label_places import Box
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
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.
    speller : Speller, optional
        That the letters were spelled with; by default ``MATRICES["6x6"]``.
    stopping : Stopping, optional
        Its least and greatest number of repetitions apply to stopping at a probability.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    mixnorm.eeg.spell : Spells recordings.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording, spell, MATRICES
    >>> train, new = (simulated_recording(240, n_channels=4, n_informative=4, amplitude=15, seed=s) for s in (0, 1))
    >>> axes = plot_letters(spell(Decoder.fit(train), [new], MATRICES["6x6"]))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['fixed number of repetitions', 'stopped at a probability']
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
    # Both against the mean number of flashes: stopping early is worth something where its curve is above the other.
    fixed, early = rates_by_repetition(spelled, speller), rates_by_threshold(spelled, speller, stopping=stopping)
    if fixed is None or early is None:
        raise ValueError("The true text is not known, so that it is not known how many letters are right.")
    _draw_rates(axes, fixed, {"color": BLUE, "marker": "o", "label": "fixed number of repetitions"})
    _draw_rates(axes, early, {"color": ORANGE, "marker": "s", "label": "stopped at a probability"})
    axes.set_xlabel("Flashes per letter (mean)", fontsize=9)
    # room for the numbers above points at 100 %
    axes.set_ylim(0, 108)
    axes.set_xlim(left=0)
    _write(axes, fixed, [f"{one.repetitions}" for one in fixed], -11)
    _write(axes, early, [f"{one.threshold:g}" for one in early], 6)


def _draw_rates(axes: Any, found: Sequence[Rates], style: dict[str, str]) -> None:
    axes.plot(
        [one.n_flashes for one in found], [100 * one.right for one in found], markersize=5, linewidth=1.4, **style
    )


def _write(axes: Any, found: Sequence[Rates], texts: Sequence[str], above: float) -> None:
    """Write beside the points what they are, from the last one on; no text that would lie on another is written."""
    written: list[Box] = []
    points_per_pixel = 72 / axes.figure.figure.dpi
    for one, text in reversed(list(zip(found, texts, strict=True))):
        spot = one.n_flashes, 100 * one.right
        x, y = axes.transData.transform(spot) * points_per_pixel
        # about half of the width and of the height of the text, in points
        box = Box(x, y, 2.5 * len(text), 4.0)
        if not any(box.overlaps(other) for other in written):
            written.append(box)
            axes.annotate(text, spot, xytext=(0, above), textcoords="offset points", ha="center", fontsize=7)


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
