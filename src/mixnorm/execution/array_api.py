"""scikit-learn's array API dispatch: a fit to arrays of another library gives fitted attributes of that library."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils import get_tags

from mixnorm.core.arrays import Array, is_array, is_numpy_array, like, namespace, to_numpy
from mixnorm.execution.device import sending

#: Fitted attributes that are converted to the library and device of the training trials.
_FITTED = ("classes_", "coef_", "intercept_", "path_coefs_", "path_intercepts_", "mean_coef_")


def foreign_array(X) -> Array | None:
    """Return X if it is an array of a library other than NumPy and array API dispatch is enabled; otherwise None."""
    # Without dispatch scikit-learn itself converts X to NumPy, and results are NumPy arrays as in its own estimators.
    other = is_array(X) and not is_numpy_array(X)
    return X if other and get_config()["array_api_dispatch"] else None


@contextmanager
def fitted_on_host(
    estimator, args: tuple, kwargs: dict, reference: Array | None = None
) -> Iterator[tuple[tuple, dict]]:
    """Convert the arguments of a fit to NumPy arrays, and the fitted attributes back to the library of X.

    Inside the context the estimator works with NumPy arrays, but its problems are solved in the library and on the
    device of ``reference``, by default X. At the end the fitted attributes are converted to this library and device.
    If the fit raises an error, they keep their former values. Without array API dispatch nothing is changed.
    """
    reference = foreign_array(reference if reference is not None else args[0] if args else kwargs.get("X"))
    if reference is None or not get_tags(estimator).array_api_support:
        yield args, kwargs
        return
    # A refit may read fitted attributes (`adapt` does): they are converted too, and converted back if the fit fails.
    before = {name: value for name, value in vars(estimator).items() if name in _FITTED}
    with config_context(array_api_dispatch=False), sending(lambda values: in_library_of(reference, values)):
        to_host(estimator)
        try:
            yield tuple(map(_on_host, args)), {name: _on_host(value) for name, value in kwargs.items()}
        except BaseException:
            vars(estimator).update(before)
            raise
    for name in _FITTED:
        value = vars(estimator).get(name)
        # labels that are strings have no counterpart in other array libraries
        if value is not None and np.asarray(value).dtype.kind in "fiub":
            setattr(estimator, name, in_library_of(reference, value))


def in_library_of(reference: Array, values: np.ndarray) -> Array:
    """Convert a NumPy array to the library and device of another array; the type of the numbers does not change."""
    values = np.asarray(values)
    return like(reference, values, dtype=getattr(namespace(reference), values.dtype.name))


def to_host(estimator) -> None:
    """Convert the fitted attributes of an estimator to NumPy arrays."""
    for name in _FITTED:
        if name in vars(estimator):
            setattr(estimator, name, _on_host(vars(estimator)[name]))


def _on_host(value):
    return to_numpy(value) if is_array(value) else value
