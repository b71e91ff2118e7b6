"""Pipelines of scikit-learn in model files: estimators of this package with scaling and reshaping before them.

A file names its steps; the classes that a name can stand for are in the tables below, so that loading executes nothing
that the file chooses. Everything is checked against a schema, as for a single estimator.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.schema import (
    Array,
    Either,
    Flag,
    Many,
    Number,
    Record,
    SchemaError,
    Text,
    Whole,
    Word,
    check,
    or_none,
    shown,
)
from mixnorm.estimators.model_schema import OUTPUT_CONFIG
from mixnorm.estimators.persistence import import_class

_MOST_STEPS = 20
#: Estimators that archive themselves.
OWN = {
    "GroupSVC": "mixnorm.estimators.svc:GroupSVC",
    "GroupSVCCV": "mixnorm.estimators.svc_cv:GroupSVCCV",
    "SensorSelector": "mixnorm.estimators.selector:SensorSelector",
}


@dataclass(frozen=True)
class Step:
    """A transformer that can be a step: where its class is, its parameters and its fitted attributes."""

    place: str
    params: Record
    fitted: Record


OTHERS = {
    "StandardScaler": Step(
        "sklearn.preprocessing:StandardScaler",
        Record({"copy": Flag(), "with_mean": Flag(), "with_std": Flag()}),
        Record(
            {"n_features_in_": Whole(1, size="d"), "n_samples_seen_": Either(Number(1), Array("if", "d", low=1))},
            {
                "mean_": or_none(Array("f", "d")),
                "var_": or_none(Array("f", "d", low=0)),
                "scale_": or_none(Array("f", "d", low=1e-300)),
                "feature_names_in_": Array("U", "d"),
            },
        ),
    ),
    "ChannelScaler": Step(
        "mixnorm.eeg.scaling:ChannelScaler",
        Record(
            {"scaling": Word("robust", "standard", "windsor", "none"), "clip": or_none(Number(0))},
            {"reject": or_none(Either(Word("auto"), Number(0)))},
        ),
        Record(
            {
                "n_channels_in_": Whole(1, size="C"),
                "center_": Array("f", "C"),
                "scale_": Array("f", "C", low=1e-300),
                "lower_": Array("f", "C", low=-inf, high=inf),
                "upper_": Array("f", "C", low=-inf, high=inf),
            },
            {
                "limits_": Array("f", "C", low=0, high=inf),
                "ch_names_in_": or_none(Many(Text())),
                "_sklearn_output_config": OUTPUT_CONFIG,
            },
        ),
    ),
    "Vectorizer": Step(
        "mne.decoding:Vectorizer",
        Record(),
        Record({"features_shape_": Many(Whole(1), least=1, most=5)}, {"n_features_in_": Whole(1)}),
    ),
}


class PipelineFile:
    """What a model file holds of a `sklearn.pipeline.Pipeline`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def _to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        steps: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, (name, step) in enumerate(self._pipeline.steps):
            header, own = _archived(name, step)
            steps.append({"name": name, **header})
            arrays |= {f"step{number}/{key}": array for key, array in own.items()}
        return {"steps": steps}, arrays

    @classmethod
    def _from_archive(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Pipeline:
        if set(header) != {"steps"} or not isinstance(header["steps"], list):
            raise SchemaError(f"a pipeline must have 'steps', but it is {shown(header)}.")
        if not 1 <= len(header["steps"]) <= _MOST_STEPS:
            raise SchemaError(f"a pipeline must have 1 to {_MOST_STEPS} steps, but has {len(header['steps'])}.")
        steps = []
        for number, given in enumerate(header["steps"]):
            prefix = f"step{number}/"
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            steps.append(_loaded(given, own))
        # An array that belongs to no step would be read and ignored; a file that `save` wrote has none.
        strange = [key for key in arrays if not key.startswith(tuple(f"step{n}/" for n in range(len(steps))))]
        if strange:
            raise SchemaError(f"{shown(strange[0])} is unknown.")
        return Pipeline(steps)


def _archived(name: str, step: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if step is None or step == "passthrough":
        return {"class": "passthrough"}, {}
    # By name and by class: a class of another package may have the same name.
    kind = type(step).__name__
    if kind in OWN and isinstance(step, import_class(OWN[kind])):
        header, arrays = step._to_archive()
        return {"class": kind, "model": header}, arrays
    if kind not in OTHERS or not isinstance(step, import_class(OTHERS[kind].place)):
        raise TypeError(
            f"Step {name!r} of the pipeline is a {kind}, which cannot be saved; only {', '.join([*OWN, *OTHERS])} can."
        )
    check_is_fitted(step)
    params = step.get_params(deep=False)
    # scikit-learn's convention for fitted attributes; `_metadata_request` and the like are not part of the model.
    fitted = {key: value for key, value in vars(step).items() if key.endswith("_") and not key.startswith("_")}
    _check_step(kind, params, fitted)
    arrays = {key: value for key, value in fitted.items() if isinstance(value, np.ndarray)}
    values = {key: _plain(value) for key, value in fitted.items() if key not in arrays}
    return {"class": kind, "model": {"params": params, "fitted": values}}, arrays


def _loaded(given: Any, arrays: dict[str, np.ndarray]) -> tuple[str, Any]:
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("name"), str)
        or not isinstance(given.get("class"), str)
    ):
        raise SchemaError(f"{shown(given)} is not a step of a pipeline.")
    kind, header = given["class"], given.get("model")
    if kind == "passthrough":
        return given["name"], "passthrough"
    if not isinstance(header, dict) or kind not in (*OWN, *OTHERS):
        raise SchemaError(f"{shown(kind)} cannot be a step of a pipeline.")
    if kind in OWN:
        return given["name"], import_class(OWN[kind])._from_archive(header, arrays)
    if set(header) != {"params", "fitted"} or not all(isinstance(part, dict) for part in header.values()):
        raise SchemaError(f"step {shown(given['name'])} must have 'params' and 'fitted'.")
    fitted = {**header["fitted"], **arrays}
    _check_step(kind, header["params"], fitted)
    step = import_class(OTHERS[kind].place)(**header["params"])
    for key, value in fitted.items():
        # MNE's Vectorizer adds a tuple to it, and JSON has lists only.
        setattr(step, key, tuple(value) if key == "features_shape_" else value)
    return given["name"], step


def _check_step(kind: str, params: dict[str, Any], fitted: dict[str, Any]) -> None:
    check(OTHERS[kind].params, params, f"parameters of {kind}")
    check(OTHERS[kind].fitted, {key: _plain(value) for key, value in fitted.items()}, f"fitted attributes of {kind}")


def _plain(value: Any) -> Any:
    """Numbers of NumPy and tuples as JSON has them."""
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
