"""The device on which problems are solved: the host, the device of `use_device`, or that of the arrays of a fit.

Labels, folds and the choice of parameters are handled on the host. A stack of problems is copied to the device as a
whole, and its solutions are copied back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np

from mixnorm.execution.solve import LATEST, SEND


@contextmanager
def use_device(device: str | None) -> Iterator[None]:
    """Solve whatever is fitted inside the context on a device.

    Parameters
    ----------
    device : str or None
        "cuda", "cuda:1" …; PyTorch is used if it is installed, otherwise CuPy. None or "cpu": the host.

    Yields
    ------
    None
        Nothing; the fits inside the context use the device.

    See Also
    --------
    GroupSVC : Also takes arrays that are on a device already.
    mixnorm.study.Where : The device of a study.

    Notes
    -----
    Electrode selection (`mixnorm.eeg.select_montage`) uses the device for the decoders of all folds and sizes, for its
    path and for the final decoders. Electrodes are put in order on the host: an elimination takes milliseconds, and
    each of its steps depends on the one before.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import GroupSVCCV, use_device
    >>> y = np.tile([0, 1], 30)
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3)) + y[:, None, None]
    >>> with use_device("cpu"):  # or "cuda"
    ...     model = GroupSVCCV().fit(X, y)
    """
    # "cpu" ends the effect of an outer context, so that a part of the work can stay on the host.
    with sending(None if device in (None, "cpu") else _sender(device)):
        yield


@contextmanager
def sending(send: Callable | None) -> Iterator[None]:
    """Solve the problems inside the context on the device that ``send`` copies arrays to; None: on the host."""
    # Both: a context variable is right for threads of this package, and worker threads of joblib do not inherit it.
    token = SEND.set(send)
    LATEST.append(send)
    try:
        yield
    finally:
        # the last one that was entered need not be the first to end, where contexts of several threads overlap
        del LATEST[len(LATEST) - 1 - LATEST[::-1].index(send)]
        SEND.reset(token)


def _sender(device: str) -> Callable:
    if find_spec("torch"):
        import torch

        if torch.device(device).type == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f"device={device!r}: PyTorch finds no GPU here; use device='cpu', or install a GPU version of PyTorch."
            )
        # PyTorch warns of memory that is not writable
        return lambda values: torch.as_tensor(np.require(values, requirements=["C", "W"]), device=device)
    if find_spec("cupy") and device.startswith("cuda"):
        import cupy

        number = int(device.partition(":")[2] or 0)

        def send(values):
            with cupy.cuda.Device(number):
                return cupy.asarray(values)

        return send
    raise ImportError(f'device={device!r} needs PyTorch or CuPy: pip install "mixnorm[torch]", or "mixnorm[cupy]".')
