"""Where problems are solved: on the host, or on the device that arrays or `use_device` name.

What surrounds a fit (labels, folds, choices) stays on the host; the stack of problems, which is the work, goes to the
device as a whole, and its solutions come back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils import get_tags

from mixnorm.core.arrays import Array, is_array, is_numpy_array, like, namespace, to_numpy

#: Fitted attributes that live where the trials of the fit did.
_FITTED = ("classes_", "coef_", "intercept_", "path_coefs_", "path_intercepts_", "mean_coef_")
#: Turns an array of the host into one of the device in use; None: everything stays on the host. A thread that has
#: entered no context of its own, as the workers of a thread pool, solves where the latest context of the process says.
_SEND: ContextVar[Callable | None] = ContextVar("send")
_LATEST: list[Callable | None] = [None]


@contextmanager
def use_device(device: str | None) -> Iterator[None]:
    """Solve whatever is fitted inside the context on a device.

    Parameters
    ----------
    device : str or None
        "cuda", "cuda:1" …, of PyTorch or else of CuPy. None or "cpu": on the host, as without it.

    Notes
    -----
    Electrode selection (`mixnorm.eeg.select_montage`) uses the device for its path, its stability selection and its
    decoders. The classifiers that score its montages are fitted on the host: each starts from the solution with one
    sensor less, so that there is only one small problem at a time and nothing to batch.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import GroupSVCCV, use_device
    >>> y = np.tile([0, 1], 30)
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3)) + y[:, None, None]
    >>> with use_device("cpu"):  # or "cuda"
    ...     model = GroupSVCCV().fit(X, y)
    """
    with _sending(None if device in (None, "cpu") else _sender(device)):
        yield


@contextmanager
def _sending(send: Callable | None) -> Iterator[None]:
    token = _SEND.set(send)
    _LATEST.append(send)
    try:
        yield
    finally:
        _LATEST.remove(send)
        _SEND.reset(token)


def sender_in_use() -> Callable | None:
    """Return what sends an array to the device in use; None on the host."""
    return _SEND.get(_LATEST[-1])


def _sender(device: str) -> Callable:
    if find_spec("torch"):
        import torch

        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={device!r}: PyTorch finds no GPU here.")
        return lambda values: torch.as_tensor(np.require(values, requirements="CW"), device=device)  # else torch warns
    if find_spec("cupy") and device.startswith("cuda"):
        import cupy

        number = int(device.partition(":")[2] or 0)

        def send(values):
            with cupy.cuda.Device(number):
                return cupy.asarray(values)

        return send
    raise ImportError(f"device={device!r} needs PyTorch or CuPy: pip install mixnorm[torch], or mixnorm[cupy].")


def send_once(values: np.ndarray | None):
    """Return an array on the device in use; what is there already, or is None, stays."""
    send = sender_in_use()
    return values if send is None or not isinstance(values, np.ndarray) else send(values)


def is_elsewhere() -> bool:
    """Whether problems are solved on a device, where all columns of a stack are best solved together."""
    return sender_in_use() is not None


# scikit-learn's array API dispatch.


def home_of(X) -> Array | None:
    """Return X if it is an array of another library than NumPy, and array API dispatch is enabled; else None."""
    other = is_array(X) and not is_numpy_array(X)
    return X if other and get_config()["array_api_dispatch"] else None


@contextmanager
def hosted(estimator, args: tuple, kwargs: dict, home: Array | None = None) -> Iterator[tuple[tuple, dict]]:
    """Let an estimator fit on the host what came as arrays of another library, solving it where they live.

    Yields the arguments with NumPy arrays in their place; at the end what was fitted moves to the library and device
    of ``home``, by default X; where something is refused, what was fitted before stays where it was. Without array API
    dispatch nothing is changed.
    """
    home = home_of(home if home is not None else args[0] if args else kwargs.get("X"))
    if home is None or not get_tags(estimator).array_api_support:
        yield args, kwargs
        return
    before = {name: value for name, value in vars(estimator).items() if name in _FITTED}
    with config_context(array_api_dispatch=False), _sending(lambda values: at_home(home, values)):
        to_host(estimator)
        try:
            yield tuple(map(_on_host, args)), {name: _on_host(value) for name, value in kwargs.items()}
        except BaseException:
            vars(estimator).update(before)
            raise
    for name in _FITTED:
        value = vars(estimator).get(name)
        if value is not None and np.asarray(value).dtype.kind in "fiub":
            setattr(estimator, name, at_home(home, value))


def at_home(home: Array, values: np.ndarray) -> Array:
    """Return a NumPy array in the library and on the device of another, its type kept."""
    values = np.asarray(values)
    return like(home, values, dtype=getattr(namespace(home), values.dtype.name))


def to_host(estimator) -> None:
    """Bring what was fitted back to the host, wherever it is."""
    for name in _FITTED:
        if name in vars(estimator):
            setattr(estimator, name, _on_host(vars(estimator)[name]))


def _on_host(value):
    return to_numpy(value) if is_array(value) else value
