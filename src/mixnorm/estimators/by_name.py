"""Sensors with names: mne.Epochs, and DataFrames whose columns belong to sensors. MNE and pandas are not imported."""

import warnings
from collections import Counter

import numpy as np
from sklearn.utils import _safe_indexing


def read_mne(X) -> tuple[np.ndarray, tuple[str, ...], dict[str, float | str]]:
    """Return the trials in µV (n, channels, times), the names of the channels, and how they were recorded.

    EEG channels alone are read, and not those that are marked as bad.
    """
    # scikit-learn indexes epochs trial by trial, so that a fold of a cross-validation is a list of epochs of one trial
    # each.
    parts = _parts(X)
    first = parts[0]
    kinds = zip(first.ch_names, first.get_channel_types(), strict=True)
    eeg = [name for name, kind in kinds if kind == "eeg"]
    if not eeg:
        raise ValueError(
            f"The epochs contain no EEG channel; their channels are {', '.join(first.ch_names)}. Set the types of the "
            "EEG channels with epochs.set_channel_types."
        )
    # Bad in one part means bad in all: the matrix needs the same channels for every trial.
    bads = _bads(parts)
    names = tuple(name for name in eeg if name not in bads)
    if not names:
        raise ValueError(f"All EEG channels of the epochs are marked as bad: {', '.join(bads)}.")
    filters = {key: float(first.info[key]) for key in ("sfreq", "highpass", "lowpass")}
    about: dict[str, float | str] = {**filters, "tmin": float(first.times[0]), "tmax": float(first.times[-1])}
    about["units"] = "uV"
    return np.concatenate([part.get_data(picks=list(names), units="uV") for part in parts]), names, about


def without_marked(X, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Leave epochs X that an annotation marks as bad out of the arguments of a fit, with all that is given per trial.

    By default MNE drops such epochs when it cuts them; this is for those that were cut with
    ``reject_by_annotation=False``. A warning counts them.
    """
    marked = _marked(X)
    # the usual case: nothing is copied
    if not marked:
        return args, kwargs
    n = sum(len(part) for part in _parts(X))
    kept = [trial for trial in range(n) if trial not in marked]
    counts = ", ".join(f"{text} {count}" for text, count in Counter(marked.values()).most_common())
    if not kept:
        raise ValueError(f"All {n} epochs overlap an annotation that marks them as bad: {counts}.")
    warnings.warn(
        f"{len(marked)} of {n} epochs are left out because they overlap an annotation that marks them as bad: "
        f"{counts}; to use them, remove the annotations with epochs.set_annotations(None).",
        UserWarning,
        stacklevel=3,
    )

    def taken(value):
        if value is X:
            return _take(value, kept)
        # An argument belongs to the trials if it has one entry for each of them; others are left as they are.
        return _safe_indexing(value, kept) if _num_entries(value) == n else value

    return tuple(map(taken, args)), {name: taken(value) for name, value in kwargs.items()}


def check_marks(X) -> None:
    """Warn of channels of training epochs that are marked as bad; raise an error where epochs themselves still are."""
    bads = _bads(_parts(X))
    if bads:
        warnings.warn(
            f"Channels marked as bad are left out: {', '.join(bads)}; to use them, empty epochs.info['bads'].",
            UserWarning,
            stacklevel=6,
        )
    # `without_marked` leaves them where cv is a list of splits, whose trial numbers would no longer fit.
    marked = _marked(X)
    if marked:
        trials = ", ".join(f"{trial} ({text})" for trial, text in list(marked.items())[:5])
        raise ValueError(
            f"{len(marked)} epochs overlap an annotation that marks them as bad: trials {trials}"
            f"{', …' if len(marked) > 5 else ''}. Leave them out, in X and in y (mne.Epochs does so unless "
            "reject_by_annotation=False), or remove the annotations with epochs.set_annotations(None)."
        )


def _marked(X) -> dict[int, str]:
    """The trials that an annotation marks as bad, with the annotation."""
    marked, place = {}, 0
    for part in _parts(X):
        annotations = getattr(part, "annotations", None)
        # `get_annotations_per_epoch` goes through all epochs, which is not needed where no annotation is a bad one.
        if annotations is not None and any(_is_bad(text) for text in annotations.description):
            for number, own in enumerate(part.get_annotations_per_epoch()):
                texts = [str(one[2]) for one in own if _is_bad(one[2])]
                if texts:
                    marked[place + number] = texts[0]
        place += len(part)
    return marked


def _take(X, kept: list[int]):
    """Some trials of epochs, or of a list of them."""
    if not isinstance(X, list):
        return X[kept]
    # Parts may have several epochs each; a trial number counts through all of them.
    whole = [(part, number) for part in X for number in range(len(part))]
    return [whole[trial][0][whole[trial][1]] for trial in kept]


def _num_entries(value) -> int | None:
    return None if isinstance(value, str) or not hasattr(value, "__len__") else len(value)


def _parts(X) -> list:
    return X if isinstance(X, list) else [X]


def _bads(parts: list) -> list[str]:
    kinds = zip(parts[0].ch_names, parts[0].get_channel_types(), strict=True)
    marked = {name for part in parts for name in part.info["bads"]}
    return [name for name, kind in kinds if kind == "eeg" and name in marked]


def _is_bad(description) -> bool:
    # MNE's own rule: "bad", "BAD_muscle" and "bad blink" all mark a bad span.
    return str(description).lower().startswith("bad")


def match_columns(estimator, X, needed):
    """Put the columns of a DataFrame into the order of the fit, by name; those of sensors not in ``needed`` are zero.

    Only where the columns belong to sensors (``groups``). Other tables are left as they are: scikit-learn's rule, the
    same columns in the same order, applies to them.
    """
    names, groups = getattr(estimator, "feature_names_in_", None), getattr(estimator, "groups", None)
    if names is None or groups is None or not hasattr(X, "reindex"):
        return X
    used = np.isin(np.asarray(groups), np.asarray(needed))
    missing = [name for name in names[used] if name not in X.columns]
    if missing:
        found = ", ".join(map(str, X.columns))
        raise ValueError(f"The model needs columns that X does not have: {', '.join(missing)}. X has {found}.")
    # columns of sensors that are not needed may be missing, and are 0 as their coefficients are
    matched = X.reindex(columns=names, fill_value=0.0)
    matched.loc[:, names[~used]] = 0.0
    return matched
