"""Ways to order electrodes and to refit on them that the electrode benchmark compares, beside those of the package.

Kept here: the former elimination (`_former_elimination`), elimination by the weights of least squares, and sequential
forward selection as in ``bci-essentials``. The candidates for the order of the package are in `_electrode_candidates`.
"""

import sys
from contextlib import suppress
from importlib import import_module
from unittest.mock import MagicMock

import numpy as np
from _former_elimination import HeldOut, components, order_sensors
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold

from mixnorm.core.groups import Groups
from mixnorm.estimators.cross_validation import Fold
from mixnorm.estimators.elimination import elimination_order
from mixnorm.estimators.trained import Trained
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import by_backward_elimination, by_riemannian_distance, by_snr
from mixnorm.montage.plain_svm import choose_alphas, growing, stack_of
from mixnorm.montage.refits import Models, Ranking
from mixnorm.montage.separation import separation

#: No order is scored with more electrodes than this, short of all.
MOST = 16


def by_us(training, noise=None):
    """The order of ``mixnorm select``; with ``noise``, elimination by the distance in this noise alone."""
    n, G, r = training.X.shape
    trained = Trained(training.X.reshape(n, -1), training.signs, np.ones(n))
    return elimination_order([trained], Groups.from_channels(range(G), r), np.ones(G), noise)


def by_former_elimination(training):
    """The former order: least squares on temporal components, judged on training and held-out trials."""
    return order_sensors([training], Constraints.none(training.X.shape[1]))


class TrainingOnly(HeldOut):
    """A least-squares classifier without held-out trials."""

    def _mean_separation(self, scores, residual):
        return self.training_separation(residual)


def least_squares(training, folds):
    """Regularised least squares on temporal components of all trials, alpha by the folds."""
    X, signs = training.X @ components(training.X), training.signs
    everything = Fold(np.ones(len(signs), dtype=np.int64), np.zeros(len(signs), dtype=bool))

    def held_out(alpha):
        models = [HeldOut.of(X, signs, fold, alpha) for fold in folds]
        return np.mean([separation(model.signs, model.scores[:, None])[0] for model in models])

    return TrainingOnly.of(X, signs, everything, max(10.0 ** np.arange(-2, 1.5, 0.5), key=held_out))


def by_least_squares_elimination(training):
    """Elimination by the weights of regularised least squares, on temporal components, alpha by the inner folds."""
    model = least_squares(training, training.folds)
    left, removed = np.arange(training.X.shape[1]), []
    while len(left):
        place = int(np.argmin(np.linalg.norm(model.w.reshape(len(left), -1), axis=1)))
        removed.append(left[place])
        model.remove(place)
        left = np.delete(left, place)
    return np.array(removed[::-1])


def accuracy(X, y):
    """Accuracy of shrinkage LDA over three stratified folds: the function that sequential selection maximises."""
    predicted = np.zeros(len(y))
    for train, test in StratifiedKFold(3, shuffle=True, random_state=42).split(X, y):
        predicted[test] = lda().fit(X[train].reshape(len(train), -1), y[train]).predict(X[test].reshape(len(test), -1))
    return float(np.mean(predicted == y))


def lda():
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def by_sequential_selection(training):
    """Sequential forward selection, as ``bci_essentials.channel_selection`` does with the method "SFS".

    ``electrodes.py sequential`` compares it with that package.
    """
    y, G = (training.signs > 0).astype(int), training.X.shape[1]
    chosen, left = [], list(range(G))
    while left and len(chosen) < MOST:
        found = [accuracy(training.X[:, sorted([*chosen, channel])], y) for channel in left]
        chosen.append(left.pop(int(np.argmax(found))))
    return np.array([*chosen, *left])


def import_pyriemann():
    """Import pyRiemann once, before processes are made; it is left out where this fails.

    It needs matplotlib only for figures, of which none are drawn here.
    """
    with suppress(ImportError):
        import matplotlib.pyplot  # noqa: F401
    if "matplotlib" not in sys.modules:
        for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.patches", "matplotlib.transforms"):
            sys.modules[name] = MagicMock()
    # a second attempt succeeds where a part that is not needed, but imported first, is missing
    for _ in range(2):
        with suppress(ImportError):
            import_module("pyriemann.channelselection")


import_pyriemann()
OURS, FORMER = "mixnorm select", "former elimination"
ORDERS = {
    OURS: by_us,
    FORMER: by_former_elimination,
    "SNR": by_snr,
    "SVM elimination": by_backward_elimination,
    "least-squares elimination": by_least_squares_elimination,
    "pyRiemann": by_riemannian_distance,
    "sequential selection": by_sequential_selection,
}


def plain_refit(training, ranking):
    """A plain ℓ2 SVM on the first K electrodes, alpha by the inner folds: the former refit."""
    n, G, r = training.X.shape
    alphas = choose_alphas(training, ranking)
    steps = growing(stack_of(training, np.ones((n, 1))), ranking, alphas[:, None], 1e-6)
    coefs = np.stack([step.W[0, 0, :, 0].reshape(G, r) for step in steps])
    return Models(ranking.order, ranking.sizes, alphas, coefs, np.array([step.b[0, 0, 0] for step in steps]))


def lda_refit(training, ranking):
    """Shrinkage LDA on the first K electrodes, as in sequential selection."""
    coefs = np.zeros((len(ranking.sizes), *training.X.shape[1:]))
    for own, size in zip(coefs, ranking.sizes, strict=True):
        sensors = ranking.order[:size]
        model = lda().fit(training.X[:, sensors].reshape(len(training.X), -1), training.signs)
        own[sensors] = model.coef_.reshape(size, -1)
    nothing = np.zeros(len(ranking.sizes))
    return Models(ranking.order, ranking.sizes, nothing, coefs, nothing)


def own_refit(name):
    """The refit that belongs to an order; for the order of the package it is that of the package."""
    return lda_refit if name == "sequential selection" else plain_refit


__all__ = ["FORMER", "ORDERS", "OURS", "Ranking", "accuracy", "own_refit"]
