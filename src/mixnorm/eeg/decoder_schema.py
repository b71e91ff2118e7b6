"""What the model file of a decoder may hold beside its classifier: channels, rate, preparation, scaling. The scaler
and the classifier are read and written here, for `Decoder` and `CohortDecoder`.

To store something new, add a line to ``optional`` of `DECODER` (files of earlier versions do not have it): a key of
the header, or ``name`` of an array ``name.npy``. The fields of a preparation are in `mixnorm.eeg.preparation.FIELDS`,
the attributes of a classifier in `mixnorm.estimators.model_schema`.

Sizes: C channels after re-referencing, N samples per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.schema import Array, Many, Number, Record, SchemaError, Text, Whole, Word, check, or_none, shown
from mixnorm.eeg.preparation import FIELDS, Preparation
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.training import TRAINING

#: Before the names of the arrays of the classifier, in the file of the decoder.
NESTED = "classifier/"
# What a scaler learns from trials.
_LEARNED = ("lower_", "upper_", "center_", "scale_")
# A window of this many samples, hours at any rate, is no window; cutting it would need all memory.
_MOST_SAMPLES = 10_000_000
_NAMES = Many(Text(), least=1, most=100_000)


def _channels_agree(values: Mapping[str, Any]) -> str | None:
    for key in ("ch_names", "feature_names"):
        if len(set(values[key])) < len(values[key]):
            return f"'{key}' must be names that differ"
    missing = [name for name in values["feature_names"] if name not in set(values["ch_names"])]
    return f"'ch_names' lacks {missing[0]!r}, which is in 'feature_names'" if missing else None


def _times_agree(values: Mapping[str, Any]) -> str | None:
    if np.any(np.diff(values["times"]) <= 0):
        return "'times' must increase"
    rate = values["sfreq"] or 0.0
    for name in ("window", "baseline"):
        span = values["preparation"].get(name)
        if span is not None and max(map(abs, span)) * rate > _MOST_SAMPLES:
            return f"'{name}' of the preparation is longer than {_MOST_SAMPLES} samples"
    return None


#: Header and arrays of a decoder, without those of its classifier.
DECODER = Record(
    {
        "preparation": FIELDS,
        "sfreq": or_none(Number(0, 1e7, above=True)),
        "ch_names": _NAMES,
        "feature_names": Many(Text(), least=1, most=100_000, size="C"),
        "unit": Word("µV"),
        "times": Array("f", "N"),
        "scaler/center_": Array("f", "C"),
        "scaler/scale_": Array("f", "C", low=1e-300),
        "scaler/lower_": Array("f", "C", low=-inf, high=inf),
        "scaler/upper_": Array("f", "C", low=-inf, high=inf),
    },
    {"training": or_none(TRAINING), "flash_correlation": Number(-1, 1), "n_characters": or_none(Whole(1))},
    rules=[_channels_agree, _times_agree],
)


def check_decoder(values: Mapping[str, Any], classifier: Any) -> None:
    """Raise a `SchemaError` if the content of a model file is not that of a decoder with this classifier."""
    check(DECODER, values, "decoder")
    shape = len(values["feature_names"]), len(values["times"])
    # The parts of a file are each valid by themselves; that they belong together is checked here.
    if getattr(classifier, "_epochs_shape", None) != shape:
        raise SchemaError(f"the classifier is not one for trials of {shape[0]} channels and {shape[1]} samples.")
    if not np.array_equal(classifier.groups_, np.arange(shape[0])):
        raise SchemaError("the sensors of the classifier must be the numbers of the channels.")


def nested_classifier(header: dict[str, Any], arrays: dict[str, NDArray], classes: dict[str, Any]) -> Any:
    """The fitted classifier in the file of a decoder, of one of some classes."""
    name, own = header.get("classifier_class"), header.get("classifier")
    if not isinstance(name, str) or name not in classes:
        raise SchemaError(f"A decoder holds one of {', '.join(classes)}, but this one holds {shown(name)}.")
    if not isinstance(own, dict):
        raise SchemaError("'classifier' is missing.")
    return classes[name]._from_archive(own, arrays)


def scaler_arrays(scaler: ChannelScaler, prefix: str) -> dict[str, NDArray]:
    """What a scaler learned, by the names that it has in a file."""
    return {f"{prefix}{name}": getattr(scaler, name) for name in _LEARNED}


def scaler_from(preparation: Preparation, values: Mapping[str, Any], prefix: str) -> ChannelScaler:
    """Return the scaler of a preparation with what `scaler_arrays` gave."""
    scaler = preparation.scaler()
    for name in _LEARNED:
        setattr(scaler, name, values[f"{prefix}{name}"])
    scaler.n_channels_in_ = len(scaler.scale_)
    # The limits concern training trials only, and are not stored.
    scaler.limits_ = np.full(len(scaler.scale_), np.inf)
    return scaler
