"""Converters for skl2onnx, so that a scikit-learn pipeline with estimators of this package becomes an ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixnorm.eeg.readers.guard import require
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.estimators.selector import SensorSelector
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV


def register_converters() -> None:
    """Teach skl2onnx the estimators of this package; call it once before ``skl2onnx.to_onnx``.

    `GroupSVC` and `GroupSVCCV` give the outputs "label" and "score" (one column), `ChannelScaler` and `SensorSelector`
    the transformed trials. Trials may be epochs (trials, channels, times) or vectors; the model takes their type,
    float32 or float64.

    See Also
    --------
    to_onnx : The model of a decoder, without skl2onnx.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from mixnorm import GroupSVC
    >>> from mixnorm.eeg import ChannelScaler
    >>> from mixnorm.eeg.export import register_converters
    >>> y = np.tile([0, 1], 30)
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3)) + y[:, None, None]
    >>> pipeline = make_pipeline(ChannelScaler(), GroupSVC(alpha=0.1)).fit(X, y)
    >>> register_converters()
    >>> import skl2onnx
    >>> model = skl2onnx.to_onnx(pipeline, X[:1])
    >>> [output.name for output in model.graph.output]
    ['label', 'score']
    """
    skl2onnx = require("skl2onnx", "onnx")
    for kind, shapes, convert in (
        (GroupSVC, _classifier_shapes, _convert_classifier),
        (GroupSVCCV, _classifier_shapes, _convert_classifier),
        (ChannelScaler, _scaler_shapes, _convert_scaler),
        (SensorSelector, _selector_shapes, _convert_selector),
    ):
        skl2onnx.update_registered_converter(
            kind, f"mixnorm{kind.__name__}", shapes, convert, parser=_PARSERS.get(kind)
        )


def _classifier_parser(scope: Any, model: Any, inputs: list, custom_parsers: Any = None) -> list:
    """Two outputs: scikit-learn's own parser would ask for probabilities."""
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    alias = f"mixnorm{type(model).__name__}"
    operator = scope.declare_local_operator(alias, model)
    operator.inputs = inputs
    # labels of a model are of one of these two types
    labels = Int64TensorType if model.classes_.dtype.kind in "iub" else StringTensorType
    operator.outputs.append(scope.declare_local_variable("label", labels()))
    operator.outputs.append(scope.declare_local_variable("score", type(inputs[0].type)()))
    return operator.outputs


_PARSERS = {GroupSVC: _classifier_parser, GroupSVCCV: _classifier_parser}


def _classifier_shapes(operator: Any) -> None:
    n_trials = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n_trials]
    operator.outputs[1].type.shape = [n_trials, 1]


def _scaler_shapes(operator: Any) -> None:
    given = operator.inputs[0].type
    operator.outputs[0].type = type(given)(given.shape)


def _selector_shapes(operator: Any) -> None:
    given, selector = operator.inputs[0].type, operator.raw_operator
    kept = int(np.sum(selector.get_support()))
    shape = [given.shape[0], len(selector.selected_groups_), *given.shape[2:]] if len(given.shape) == 3 else None
    operator.outputs[0].type = type(given)(shape or [given.shape[0], kept])


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Scores x·w + b of flattened trials, and the label by their sign."""
    model, kind = operator.raw_operator, _Typed(scope, operator, container)
    # Constants are written in the type of the input, so that a float32 pipeline needs no conversion inside.
    weights = np.asarray(model.coef_, dtype=np.float64)
    flat = kind.node("Reshape", [operator.inputs[0].full_name, kind.whole([-1, weights.shape[1]])])
    products = kind.node("MatMul", [flat, kind.constant(weights.T)])
    score = operator.outputs[1].full_name
    kind.node("Add", [products, kind.constant(np.asarray(model.intercept_))], score)
    # Greater and not GreaterOrEqual, as `predict`: a score of 0 is the first class.
    positive = kind.node("Greater", [score, kind.constant(np.zeros(1))])
    column = kind.node("Where", [positive, kind.label(model.classes_[1]), kind.label(model.classes_[0])])
    kind.node("Reshape", [column, kind.whole([-1])], operator.outputs[0].full_name)


def _convert_scaler(scope: Any, operator: Any, container: Any) -> None:
    scaler, kind = operator.raw_operator, _Typed(scope, operator, container)
    lower, upper, center, scale = (
        kind.constant(getattr(scaler, name)[:, None]) for name in ("lower_", "upper_", "center_", "scale_")
    )
    clipped = kind.node("Min", [kind.node("Max", [operator.inputs[0].full_name, lower]), upper])
    kind.node("Div", [kind.node("Sub", [clipped, center]), scale], operator.outputs[0].full_name)


def _convert_selector(scope: Any, operator: Any, container: Any) -> None:
    """Epochs keep the chosen channels, vectors the features of the chosen sensors."""
    selector, kind = operator.raw_operator, _Typed(scope, operator, container)
    epochs = len(operator.inputs[0].type.shape) == 3
    kept = np.flatnonzero(np.isin(selector.groups_, selector.selected_groups_) if epochs else selector.get_support())
    kind.node("Gather", [operator.inputs[0].full_name, kind.whole(kept)], operator.outputs[0].full_name, axis=1)


class _Typed:
    """Adds nodes and constants, of the floating-point type of the input, to a model under construction."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        from skl2onnx.common.data_types import guess_proto_type

        self._scope, self._container = scope, container
        self._type = guess_proto_type(operator.inputs[0].type)

    def node(self, kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        output = output or self._scope.get_unique_variable_name(kind)
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, inputs, output, name=name, op_version=13, **attributes)
        return output

    def constant(self, values: np.ndarray) -> str:
        return self._initializer(self._type, list(values.shape), values.ravel().tolist())

    def whole(self, values: Any) -> str:
        import onnx

        return self._initializer(onnx.TensorProto.INT64, [len(values)], [int(value) for value in values])

    def label(self, value: Any) -> str:
        import onnx

        if isinstance(value, np.integer | np.bool_):
            return self._initializer(onnx.TensorProto.INT64, [1], [int(value)])
        return self._initializer(onnx.TensorProto.STRING, [1], [str(value).encode()])

    def _initializer(self, kind: int, shape: list[int], values: list) -> str:
        name = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, shape, values)
        return name
