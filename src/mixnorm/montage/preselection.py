"""A classifier on a given number of sensors, which are chosen from its training trials as `mixnorm select` does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design
from mixnorm.eeg.evidence import flash_correlation
from mixnorm.eeg.splitting import InOrder, fitted
from mixnorm.estimators.calibration import fit_sigmoid, plain
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import EliminationOrder
from mixnorm.montage.trials import Training


class PreselectedSVC(ClassifierMixin, BaseEstimator):
    """`GroupSVCCV` on the ``n_sensors`` most important sensors; the noise is that of these sensors.

    Parameters
    ----------
    n_sensors : int
    classifier : GroupSVCCV
        Fitted with all other sensors forbidden.

    Attributes
    ----------
    order_ : ndarray of shape (G,)
        All sensors, the most important one first.
    classifier_ : GroupSVCCV
    """

    def __init__(self, n_sensors: int, classifier: GroupSVCCV) -> None:
        self.n_sensors = n_sensors
        self.classifier = classifier

    @property
    def cv(self) -> InOrder:
        """The inner folds that choose alpha; they keep trials of one group together."""
        return self.classifier.cv

    def fit(self, X: NDArray[np.float64], y: ArrayLike, groups: NDArray | None = None) -> PreselectedSVC:
        """Choose the sensors from trials X (n, channels, times), y being 0 and 1, and fit the classifier on them."""
        y = np.asarray(y)
        groups = np.arange(len(y)) if groups is None else groups
        training = Training(X, np.where(y == 1, 1.0, -1.0), [])
        constraints = Constraints.none(X.shape[1])
        constraints.check_size(self.n_sensors)
        self.order_ = EliminationOrder(constraints).rank([training]).order
        # forbidden, and not cut out of X, so that the classifier takes trials of all channels like any other
        forbidden = {int(sensor): np.inf for sensor in self.order_[self.n_sensors :]}
        self.classifier_ = fitted(clone(self.classifier).set_params(group_weights=forbidden), X, y, groups)
        self.classes_ = self.classifier_.classes_
        return self

    def decision_function(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of trials (n, channels, times)."""
        return self.classifier_.decision_function(X)


def calibrated(decoder: Decoder, design: Design, model: PreselectedSVC) -> Decoder:
    """Calibrate a decoder of preselected sensors on trials that had no part in the choice of the sensors either.

    The sensors of the decoder were chosen from all trials, so that its own held-out scores are too good. Here they are
    chosen anew in every fold; alpha, q and ridge are those of the decoder.
    """
    own, (X, y, groups) = decoder.classifier, design.to_sklearn()
    fixed = clone(model.classifier).set_params(alphas=[own.alpha_], q=own.q_, ridge=own.ridge_)
    scores = np.empty(len(y))
    # scaled anew as well, like the decoder itself on new recordings
    for train, test in InOrder().split(X, groups=groups):
        scaler = design.preparation.scaler().fit(X[train])
        part = PreselectedSVC(model.n_sensors, fixed).fit(scaler.transform(X[train]), y[train], groups[train])
        scores[test] = part.decision_function(scaler.transform(X[test]))
    own.out_of_fold_scores_ = scores
    own.calibration_ = plain(fit_sigmoid(scores, np.where(y == 1, 1.0, -1.0), np.ones(len(y))))
    return replace(decoder, flash_correlation=flash_correlation(scores, y, design.stimulus, design.character))
