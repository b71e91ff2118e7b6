"""A decoder as header and arrays of a model file, and back. What they may hold is in `mixnorm.eeg.decoder_schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder_schema import NESTED, check_decoder, nested_classifier, scaler_arrays, scaler_from
from mixnorm.eeg.evidence import USUAL_CORRELATION
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.training import Training
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV

if TYPE_CHECKING:
    from mixnorm.eeg.decoder import Decoder

# A model file can name only these classes: loading must not execute what the file chooses.
_CLASSIFIERS = {"GroupSVC": GroupSVC, "GroupSVCCV": GroupSVCCV}


def to_archive(decoder: Decoder) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Header (plain JSON) and arrays of a decoder; those of its classifier are nested."""
    inner, arrays = decoder.classifier._to_archive()
    header = {
        "preparation": decoder.preparation.to_dict(),
        "sfreq": None if np.isnan(decoder.sfreq) else decoder.sfreq,  # an epoch of one sample has no rate
        "ch_names": list(decoder.ch_names),
        "feature_names": list(decoder.feature_names),
        "unit": "µV",
        "training": None if decoder.training is None else decoder.training.to_dict(),
        "flash_correlation": decoder.flash_correlation,
        "n_characters": decoder.n_characters,
    }
    own = {"times": decoder.times, **scaler_arrays(decoder.scaler, "scaler/")}
    check_decoder(header | own, decoder.classifier)
    # after the check, which is for the values of the decoder itself
    header |= {"classifier_class": type(decoder.classifier).__name__, "classifier": inner}
    return header, own | {f"{NESTED}{name}": array for name, array in arrays.items()}


def fields_from_archive(header: dict[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    """The fields of the decoder that `to_archive` described; everything is checked before it is used."""
    values = {key: value for key, value in header.items() if key not in ("classifier", "classifier_class")}
    values |= {key: array for key, array in arrays.items() if not key.startswith(NESTED)}
    nested = {key.removeprefix(NESTED): array for key, array in arrays.items() if key.startswith(NESTED)}
    classifier = nested_classifier(header, nested, _CLASSIFIERS)
    check_decoder(values, classifier)
    preparation = Preparation.from_dict(values["preparation"])
    return {
        "preparation": preparation,
        "sfreq": np.nan if values["sfreq"] is None else float(values["sfreq"]),
        "ch_names": tuple(values["ch_names"]),
        "feature_names": tuple(values["feature_names"]),
        "times": values["times"],
        "scaler": scaler_from(preparation, values, "scaler/"),
        "classifier": classifier,
        "flash_correlation": values.get("flash_correlation", USUAL_CORRELATION),  # not in earlier versions
        "n_characters": values.get("n_characters"),
        "training": None if values.get("training") is None else Training.from_dict(values["training"]),
    }
