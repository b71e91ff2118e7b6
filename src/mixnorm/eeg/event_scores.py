"""The scores that a decoder gives to the events of a recording."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.left_out import LeftOut


@dataclass(frozen=True)
class Scores:
    """One score per event of a recording, in the order of the events.

    Attributes
    ----------
    onset : (n,) float array
        Seconds from the start of the recording; for epochs the number of the trial.
    score : (n,) float array
        Positive scores indicate a target; NaN where the trial cannot be used.
    target, stimulus, character : (n,) int arrays
        As in `Events`.
    reason : (n,) array of str
        Why there is no score; "" where there is one.
    left_out : LeftOut
        Counts the trials without a score.

    See Also
    --------
    Decoder.predict : Computes them.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording
    >>> recording = simulated_recording(60, n_channels=3, n_informative=2)
    >>> scores = Decoder.fit(recording).predict(recording)
    >>> len(scores), bool(scores.score[scores.target == 1].mean() > scores.score[scores.target == 0].mean())
    (60, True)
    """

    onset: NDArray[np.float64]
    score: NDArray[np.float64]
    target: NDArray[np.int64]
    stimulus: NDArray[np.int64]
    character: NDArray[np.int64]
    reason: NDArray[np.str_]
    left_out: LeftOut = field(repr=False)

    def __len__(self) -> int:
        return len(self.score)
