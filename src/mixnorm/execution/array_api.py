"""scikit-learn's array API dispatch: arrays of other libraries in, fitted attributes in the same library out."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils import get_tags

from mixnorm.core.arrays import Array, is_array, is_numpy_array, like, namespace, to_numpy
from mixnorm.execution.device import sending

#: Fitted attributes that are in the library and on the device of the trials of the fit.
_FITTED = ("classes_", "coef_", "intercept_", "path_coefs_", "path_intercepts_", "mean_coef_")


def foreign_array(X) -> Array | None:
    """Return X if it is an array of another library than NumPy, and array API dispatch is enabled; else None."""
    other = is_array(X) and not is_numpy_array(X)
    return X if other and get_config()["array_api_dispatch"] else None


@contextmanager
def fitted_on_host(
    estimator, args: tuple, kwargs: dict, reference: Array | None = None
) -> Iterator[tuple[tuple, dict]]:
    """Let an estimator be fitted to arrays of another library: on the host, with its problems solved where they are.

    Yields the arguments as NumPy arrays. At the end the fitted attributes move to the library and device of
    ``reference``, by default X; where the fit raises an error, the attributes fitted before stay as they were. Without
    array API dispatch nothing is changed.
    """
    reference = foreign_array(reference if reference is not None else args[0] if args else kwargs.get("X"))
    if reference is None or not get_tags(estimator).array_api_support:
        yield args, kwargs
        return
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
        if value is not None and np.asarray(value).dtype.kind in "fiub":
            setattr(estimator, name, in_library_of(reference, value))


def in_library_of(reference: Array, values: np.ndarray) -> Array:
    """Return a NumPy array as one in the library and on the device of another array, its type kept."""
    values = np.asarray(values)
    return like(reference, values, dtype=getattr(namespace(reference), values.dtype.name))


def to_host(estimator) -> None:
    """Move the fitted attributes of an estimator to the host."""
    for name in _FITTED:
        if name in vars(estimator):
            setattr(estimator, name, _on_host(vars(estimator)[name]))


def _on_host(value):
    return to_numpy(value) if is_array(value) else value
