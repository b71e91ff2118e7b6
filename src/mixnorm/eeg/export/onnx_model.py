"""A decoder as an ONNX model: from prepared trials in microvolts to score and probability."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.readers.guard import require
from mixnorm.version import __version__

if TYPE_CHECKING:
    import onnx

#: The oldest set of operators that has all that are used here, for programs with an old runtime.
OPSET = 13


def to_onnx(decoder: Decoder) -> onnx.ModelProto:
    """Return a decoder as an ONNX model.

    Input "epochs": float64 (trials, channels, times), in µV, the channels and times of the decoder; they stand in the
    metadata of the model (``ch_names``, ``times_s``, ``sfreq_hz``, ``preparation``). Re-referencing, filtering and
    cutting come before the model, scaling and clipping are inside.

    Outputs, float64 (trials,): "score", and "probability" of a target: the sigmoid that was fitted to held-out scores,
    as in `predict_proba` of the classifier. A classifier without one (`GroupSVC`, or from a file of version 0.1) gets
    (1 + score) / 2 limited to [0, 1], for which the score minimises the expected squared hinge loss (Zhang 2004). The
    metadata say which (``probability``).

    Parameters
    ----------
    decoder : Decoder
        Fitted, or loaded from a file.

    Returns
    -------
    onnx.ModelProto
        Write it with ``onnx.save(model, path)``.

    See Also
    --------
    register_converters : For scikit-learn pipelines.
    to_bci2000 : Parameters of BCI2000.

    References
    ----------
    Zhang, T. (2004). Statistical behavior and consistency of classification methods based on convex risk
    minimization. Annals of Statistics 32, 56–134 (section 3.2: squared hinge loss).

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording
    >>> from mixnorm.eeg.export import to_onnx
    >>> model = to_onnx(Decoder.fit(simulated_recording(60, n_channels=3, n_informative=2)))
    >>> [output.name for output in model.graph.output]
    ['score', 'probability']
    """
    onnx = require("onnx", "onnx")
    shape = [len(decoder.feature_names), len(decoder.times)]
    # float64, so that scores agree with those of the decoder to rounding
    double = onnx.TensorProto.DOUBLE
    constants = {name: onnx.numpy_helper.from_array(value, name) for name, value in _constants(decoder).items()}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, inputs, [output]) for kind, inputs, output in (*_STEPS, *_probability(decoder))],
        "mixnorm_decoder",
        [onnx.helper.make_tensor_value_info("epochs", double, ["trials", *shape])],
        [onnx.helper.make_tensor_value_info(name, double, ["trials"]) for name in ("score", "probability")],
        list(constants.values()),
    )
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        # older than what the library writes by default, so that old runtimes accept the model
        ir_version=8,
        producer_name="mixnorm",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, _described(decoder))
    onnx.checker.check_model(model)
    return model


#: Operator, inputs, output: scaling and clipping as in `ChannelScaler`, then x·w + b.
_STEPS = (
    ("Max", ["epochs", "lower"], "above_lower"),
    ("Min", ["above_lower", "upper"], "clipped"),
    ("Sub", ["clipped", "center"], "centred"),
    ("Div", ["centred", "scale"], "scaled"),
    ("Reshape", ["scaled", "flat_shape"], "flat"),
    ("MatMul", ["flat", "weights"], "products"),
    ("Add", ["products", "intercept"], "score"),
)
_SIGMOID = (
    ("Mul", ["score", "slope"], "sloped"),
    ("Add", ["sloped", "offset"], "log_odds"),
    ("Sigmoid", ["log_odds"], "probability"),
)
_LIMITED = (
    ("Mul", ["score", "slope"], "half_score"),
    ("Add", ["half_score", "offset"], "unlimited"),
    ("Max", ["unlimited", "zero"], "not_negative"),
    ("Min", ["not_negative", "one"], "probability"),
)


def _calibration(decoder: Decoder) -> Mapping[str, float] | None:
    return getattr(decoder.classifier, "calibration_", None)


def _probability(decoder: Decoder) -> tuple[tuple[str, list[str], str], ...]:
    return _LIMITED if _calibration(decoder) is None else _SIGMOID


def _constants(decoder: Decoder) -> dict[str, NDArray]:
    scaler, classifier = decoder.scaler, decoder.classifier
    column = {name: getattr(scaler, f"{name}_")[:, None] for name in ("lower", "upper", "center", "scale")}
    weights = np.asarray(classifier.coef_[0], dtype=np.float64)
    # (1 + score) / 2 as slope and offset, so that both graphs begin alike
    known = _calibration(decoder) or {"slope": 0.5, "intercept": 0.5}
    return {name: np.asarray(value, dtype=np.float64) for name, value in column.items()} | {
        "flat_shape": np.array([-1, len(weights)], dtype=np.int64),
        "weights": weights,
        "intercept": np.asarray(classifier.intercept_[0], dtype=np.float64),
        "slope": np.array(known["slope"], dtype=np.float64),
        "offset": np.array(known["intercept"], dtype=np.float64),
        **({} if _calibration(decoder) else {"zero": np.array(0.0), "one": np.array(1.0)}),
    }


def _described(decoder: Decoder) -> dict[str, str]:
    """What a program must know to make the input; ONNX keeps metadata as text."""
    facts: dict[str, Any] = {
        "ch_names": list(decoder.feature_names),
        "recorded_channels": list(decoder.ch_names),
        "times_s": decoder.times.tolist(),
        "sfreq_hz": None if np.isnan(decoder.sfreq) else decoder.sfreq,
        "unit": "µV",
        "preparation": decoder.preparation.to_dict(),
        "probability": "from the score alone" if _calibration(decoder) is None else "calibrated on held-out scores",
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in facts.items()}
