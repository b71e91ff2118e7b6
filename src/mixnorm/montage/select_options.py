"""Options of `select_montage`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mixnorm.eeg.preparation import Preparation


@dataclass(frozen=True)
class SelectOptions:
    """Options of `select_montage`.

    Attributes
    ----------
    sensors : int or None
        Number of electrodes to put forward; None: the smallest montage within one standard error of the best.
    keep, forbid : tuples of str
        Electrodes that are in every montage, and electrodes that are in none.
    cost : mapping of str to float, or None
        Cost of electrodes, 1 for those not named: the contribution of an electrode counts relative to its cost.
    n_folds : int or None
        Number of outer folds where they are made of characters or blocks; an error where there are fewer of these.
        None: 5, or as many as possible.
    n_resamplings : int
        Number of half-sample pairs for stability selection; 0 turns it off.
    compare : bool
        Whether common other ways to order electrodes are scored on the same folds.
    n_jobs : int or None
        Number of processes; the outer folds run in parallel.
    preparation : Preparation or None
        How recordings are prepared; None: the default for their kind (`default_preparation`).
    window : (start, stop) or None
        Seconds after the stimulus, instead of those of the preparation.
    n_samples : int or None
        Number of samples over the window, instead of that of the preparation.
    decoders : bool
        Whether to fit decoders for every number of electrodes, and not only for the montage put forward.
    windows : int or None
        Number of windows of time of equal length; it is then found which of them carry the response. None: windows
        are not chosen.

    See Also
    --------
    select_montage : Takes these options.
    read_costs : Reads ``cost`` from a file.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions
    >>> options = SelectOptions(sensors=8, keep=("Cz",), forbid=("Fp1", "Fp2"))
    >>> options.n_resamplings
    50
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
    window: tuple[float, float] | None = None
    n_samples: int | None = None
    decoders: bool = False
    windows: int | None = None
