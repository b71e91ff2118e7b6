"""How likely the next symbol is after the symbols before it, learned from a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.speller import SpellerError

#: Symbols that stand for a space on spellers.
_SPACES = ("_", " ", "␣", "SP", "SPACE")


class LetterPrior:
    r"""An n-gram model of symbols, interpolated as Witten and Bell did.

    After a context h of at most ``order − 1`` symbols, of which n(h) occurrences and t(h) kinds of followers were
    counted, and with h' the context without its first symbol,

        P(s | h) = (n(h s) + t(h) P(s | h')) / (n(h) + t(h)),

    down to the uniform distribution, so that no symbol is impossible.

    Parameters
    ----------
    text : str
        Letters are matched to symbols in either case. Everything else is a space where the speller has a symbol for it
        ("_"), and otherwise the end of a context.
    symbols : sequence of str
        Those of the speller.
    order : int
        Length n of the n-grams: a symbol is predicted from the n − 1 symbols before it.

    See Also
    --------
    spell : Uses it for recordings.
    StreamSpeller : Uses it on a stream.

    Examples
    --------
    >>> from mixnorm.eeg import LetterPrior
    >>> prior = LetterPrior("the cat and the hat", ["A", "C", "E", "H", "T", "_"])
    >>> prior.symbols[prior.probabilities(["T", "H"]).argmax()]
    'E'
    """

    def __init__(self, text: str, symbols: Sequence[str], order: int = 3) -> None:
        self.symbols, self.order = tuple(symbols), order
        self._place = {symbol: place for place, symbol in enumerate(self.symbols)}
        self._counts: dict[tuple[str, ...], Counter[str]] = {}
        for run in _runs(text, self.symbols):
            for end, symbol in enumerate(run):
                # All lengths of context are counted, because a long one is interpolated with the shorter ones.
                for length in range(min(order - 1, end) + 1):
                    self._counts.setdefault(tuple(run[end - length : end]), Counter())[symbol] += 1
        if not self._counts:
            raise SpellerError(f"the text has no symbol of the speller ({', '.join(self.symbols[:12])}, …).")

    @classmethod
    def from_file(cls, path: str | Path, symbols: Sequence[str]) -> LetterPrior:
        """Learn from a text file (UTF-8).

        Parameters
        ----------
        path : str or path
            The text file.
        symbols : sequence of str
            Those of the speller.

        Returns
        -------
        LetterPrior
            Of the default order.
        """
        try:
            return cls(Path(path).read_text(encoding="utf-8"), symbols)
        except (UnicodeDecodeError, SpellerError) as error:
            raise SpellerError(f"{path}: no letter model can be learned from it: {error}") from error

    def probabilities(self, before: Sequence[str]) -> NDArray[np.float64]:
        """P(symbol) after the symbols before it, in the order of the symbols.

        Parameters
        ----------
        before : sequence of str
            The symbols spelled so far; only the last ones count.

        Returns
        -------
        (n_symbols,) array
            Positive, with sum 1.
        """
        share = np.full(len(self.symbols), 1 / len(self.symbols))
        for length in range(min(self.order - 1, len(before)) + 1):
            followers = self._counts.get(tuple(before[len(before) - length :]))
            # If a context was never seen, neither were longer ones.
            if followers is None:
                break
            counts = np.zeros(len(self.symbols))
            for symbol, count in followers.items():
                counts[self._place[symbol]] = count
            share = (counts + len(followers) * share) / (counts.sum() + len(followers))
        return share


def _runs(text: str, symbols: Sequence[str]) -> list[list[str]]:
    """The symbols of a text, divided where it has something that is not a symbol."""
    # the symbol itself last, so that a speller with "a" and "A" keeps them apart
    either = {symbol.upper(): symbol for symbol in symbols} | {symbol: symbol for symbol in symbols}
    space = next((symbol for symbol in _SPACES if symbol in symbols), None)
    runs: list[list[str]] = [[]]
    for letter in text:
        symbol = either.get(letter, either.get(letter.upper(), space))
        if symbol is None:
            runs.append([])
        elif not (symbol == space and runs[-1][-1:] == [space]):  # several spaces are one
            runs[-1].append(symbol)
    return [run for run in runs if run]
