"""The classifier of a decoder where none is given."""

from typing import Any

from mixnorm.eeg.splitting import InOrder
from mixnorm.estimators.settings import SETTINGS
from mixnorm.estimators.svc_cv import GroupSVCCV


def default_classifier(method: str = "svm-noise", **options: Any) -> GroupSVCCV:
    """Return `GroupSVCCV` with inner folds that keep the trials of a character together (`InOrder`).

    Parameters
    ----------
    method : str
        One of `mixnorm.estimators.settings.SETTINGS`. The default, an SVM with ``noise="evoked"``,
        decodes best from few trials; it uses all electrodes.
    **options : dict
        Other parameters of `GroupSVCCV`.

    Returns
    -------
    GroupSVCCV
        Not fitted yet.

    See Also
    --------
    Decoder.fit : Uses it by default.
    mixnorm.GroupSVCCV : Its parameters.

    Examples
    --------
    >>> from mixnorm.eeg import default_classifier
    >>> model = default_classifier(max_sensors=8)
    >>> model.penalty, model.noise, model.cv
    ('l2', 'evoked', InOrder(n_splits=3))
    """
    if method not in SETTINGS:
        raise ValueError(
            f"Invalid value for the 'method' parameter. Allowed values are {', '.join(map(repr, SETTINGS))}, but got "
            f"{method!r} instead."
        )
    # Folds of whole characters: flashes of one character overlap in time, so that they must not be divided.
    return GroupSVCCV(**({"cv": InOrder()} | SETTINGS[method] | options))
