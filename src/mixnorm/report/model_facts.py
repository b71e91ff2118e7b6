"""What a model file says about its model, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mixnorm import load
from mixnorm.core.arrays import to_numpy
from mixnorm.eeg import Decoder
from mixnorm.estimators.archive import read_archive


def model_facts(path: Path) -> dict[str, Any]:
    """Facts about a model file as plain JSON; null for what is not known.

    `class`, `versions` and `file` always; for a decoder `electrodes`, `ch_names`, `sfreq`, `times`, `preparation`,
    `classifier` and `training`; for an estimator its parameters and sizes; for a pipeline its `steps`.
    """
    # The file is opened twice: versions stand in the header of the file alone; `load` does not keep them.
    header, _ = read_archive(path)
    model = load(path)
    facts = {"file": path.name, "bytes": path.stat().st_size, "class": header["class"], "versions": header["versions"]}
    return facts | _facts(model)


def _facts(model: Any) -> dict[str, Any]:
    if isinstance(model, Decoder):
        return decoder_facts(model)
    if isinstance(model, Pipeline):
        return {"steps": [{"name": name, **_step(step)} for name, step in model.steps]}
    return estimator_facts(model)


def decoder_facts(decoder: Decoder) -> dict[str, Any]:
    """Facts about a decoder."""
    return {
        "electrodes": list(decoder.selected),
        "ch_names": list(decoder.ch_names),
        "feature_names": list(decoder.feature_names),
        "sfreq": None if np.isnan(decoder.sfreq) else decoder.sfreq,
        "unit": "µV",
        "times": decoder.times.tolist(),
        "causal": decoder.preparation.is_causal,
        "preparation": decoder.preparation.to_dict(),
        "classifier": {"class": type(decoder.classifier).__name__, **estimator_facts(decoder.classifier)},
        "training": None if decoder.training is None else decoder.training.to_dict(),
    }


def estimator_facts(model: Any) -> dict[str, Any]:
    """Parameters, sizes and certificate of a fitted estimator."""
    params = {name: value for name, value in model.get_params(deep=False).items() if _is_plain(value)}
    facts: dict[str, Any] = {"parameters": params, "n_features": int(model.n_features_in_)}
    for name in ("classes_", "selected_groups_", "subjects_"):
        if hasattr(model, name):
            facts[name.removesuffix("_")] = to_numpy(getattr(model, name)).tolist()
    for name in ("alpha_", "q_", "ridge_", "dual_gap_", "objective_", "n_iter_"):
        value = getattr(model, name, None)
        # baselines of several subjects have one value per subject
        if isinstance(value, int | float):
            facts[name.removesuffix("_")] = value
    return facts


def _step(step: Any) -> dict[str, Any]:
    if isinstance(step, str):
        return {"class": step}
    params = {name: value for name, value in step.get_params(deep=False).items() if _is_plain(value)}
    return {"class": type(step).__name__, "parameters": params}


def _is_plain(value: Any) -> bool:
    # Arrays, splitters and scorers have no short form, and JSON has none for them at all.
    return value is None or isinstance(value, bool | int | float | str)
