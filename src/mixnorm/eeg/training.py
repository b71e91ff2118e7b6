"""What is known of the training of a decoder: recordings, trials, held-out scores. Stored in its model file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.schema import Flag, Many, Number, Record, Text, Whole, or_none

_SHARE = Number(0, 1)


@dataclass(frozen=True)
class CalibrationBin:
    """Held-out trials of similar probability: how many, the mean probability, and the share that were targets."""

    n_trials: int
    probability: float
    targets: float


@dataclass(frozen=True)
class Training:
    """How a decoder was trained and how well it does on trials that had no part in it.

    Attributes
    ----------
    recordings : tuple of str
        Names of the files.
    subjects, sessions : tuple of str
    n_trials, n_targets : int
    method : str
        Name of the classifier, as in a study.
    folds_by : str
        What was left out, one after the other: "session", "run", "character" or "block".
    auc_by_fold : tuple of float or None
        AUC of the trials left out; None where they contain only one class.
    auc, auc_low, auc_high : float or None
        Mean over the folds and its 95 % interval, which is corrected for the overlap of the training sets.
    calibrated : bool
        Whether the probabilities are a sigmoid of the score that was fitted to held-out trials of each training set;
        otherwise they are (1 + score) / 2, limited to [0, 1].
    calibration : tuple of CalibrationBin
        Held-out trials in bins of the probability of a target.
    """

    recordings: tuple[str, ...]
    subjects: tuple[str, ...]
    sessions: tuple[str, ...]
    n_trials: int
    n_targets: int
    method: str
    folds_by: str
    auc_by_fold: tuple[float | None, ...]
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    calibrated: bool
    calibration: tuple[CalibrationBin, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What `to_dict` described, already checked against `TRAINING`."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**{**plain, "calibration": tuple(CalibrationBin(**one) for one in values["calibration"])})


#: What a model file may hold of it.
TRAINING = Record(
    {
        "recordings": Many(Text(4000), most=100_000),
        "subjects": Many(Text(4000, empty=True), most=100_000),
        "sessions": Many(Text(4000, empty=True), most=100_000),
        "n_trials": Whole(1),
        "n_targets": Whole(0),
        "method": Text(),
        "folds_by": Text(),
        "auc_by_fold": Many(or_none(_SHARE), most=100_000),
        "auc": or_none(_SHARE),
        "auc_low": or_none(_SHARE),
        "auc_high": or_none(_SHARE),
        "calibrated": Flag(),
        "calibration": Many(Record({"n_trials": Whole(1), "probability": _SHARE, "targets": _SHARE}), most=1000),
    }
)


def calibration_bins(
    probability: NDArray[np.float64], target: NDArray[np.int64], n_bins: int = 5
) -> tuple[CalibrationBin, ...]:
    """Held-out trials in bins of as many trials each, by increasing probability; NaN is left out."""
    known = np.isfinite(probability)
    chance, target = probability[known], target[known]
    # Bins of equal size: bins of equal width would have few trials where probabilities are rare.
    parts = np.array_split(np.argsort(chance, kind="stable"), n_bins)
    return tuple(
        CalibrationBin(len(part), float(chance[part].mean()), float(target[part].mean()))
        for part in parts
        if len(part)
    )
