"""Sensors with names: mne.Epochs, and DataFrames whose columns belong to sensors. MNE and pandas are not imported."""

import warnings

import numpy as np


def is_mne(X) -> bool:
    """Whether X is an mne.Epochs, or a list of them, which is what scikit-learn's splitters make of epochs."""
    if isinstance(X, list):
        return len(X) > 0 and all(is_mne(one) for one in X)
    return hasattr(X, "get_data") and hasattr(X, "ch_names") and hasattr(X, "info")


def read_mne(X) -> tuple[np.ndarray, tuple[str, ...], dict[str, float | str]]:
    """Return the trials in µV (n, channels, times), the names of the channels, and how they were recorded.

    EEG channels alone are read, and not those that are marked as bad.
    """
    parts = _parts(X)
    first = parts[0]
    kinds = zip(first.ch_names, first.get_channel_types(), strict=True)
    eeg = [name for name, kind in kinds if kind == "eeg"]
    if not eeg:
        raise ValueError(
            f"The epochs contain no EEG channel; their channels are {', '.join(first.ch_names)}. Set the types of the "
            "EEG channels with epochs.set_channel_types."
        )
    bads = _bads(parts)
    names = tuple(name for name in eeg if name not in bads)
    if not names:
        raise ValueError(f"All EEG channels of the epochs are marked as bad: {', '.join(bads)}.")
    filters = {key: float(first.info[key]) for key in ("sfreq", "highpass", "lowpass")}
    about: dict[str, float | str] = {**filters, "tmin": float(first.times[0]), "tmax": float(first.times[-1])}
    about["units"] = "uV"
    return np.concatenate([part.get_data(picks=list(names), units="uV") for part in parts]), names, about


def check_marks(X) -> None:
    """Warn of channels of training epochs that are marked as bad; raise an error where epochs themselves are.

    By default MNE drops epochs that overlap an annotation that begins with BAD when it cuts them. An estimator cannot
    drop them, because y has a label for each.
    """
    parts = _parts(X)
    bads = _bads(parts)
    if bads:
        warnings.warn(
            f"Channels marked as bad are left out: {', '.join(bads)}; to use them, empty epochs.info['bads'].",
            UserWarning,
            stacklevel=6,
        )
    marked = {}
    place = 0
    for part in parts:
        annotations = getattr(part, "annotations", None)
        if annotations is not None and any(_is_bad(text) for text in annotations.description):
            for number, own in enumerate(part.get_annotations_per_epoch()):
                texts = [str(one[2]) for one in own if _is_bad(one[2])]
                if texts:
                    marked[place + number] = texts[0]
        place += len(part)
    if marked:
        trials = ", ".join(f"{trial} ({text})" for trial, text in list(marked.items())[:5])
        raise ValueError(
            f"{len(marked)} of {place} epochs overlap an annotation that marks them as bad: trials {trials}"
            f"{', …' if len(marked) > 5 else ''}. Leave them out, in X and in y (mne.Epochs does so unless "
            "reject_by_annotation=False), or remove the annotations with epochs.set_annotations(None)."
        )


def _parts(X) -> list:
    return X if isinstance(X, list) else [X]


def _bads(parts: list) -> list[str]:
    kinds = zip(parts[0].ch_names, parts[0].get_channel_types(), strict=True)
    marked = {name for part in parts for name in part.info["bads"]}
    return [name for name, kind in kinds if kind == "eeg" and name in marked]


def _is_bad(description) -> bool:
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
    matched = X.reindex(columns=names, fill_value=0.0)
    matched.loc[:, names[~used]] = 0.0
    return matched
