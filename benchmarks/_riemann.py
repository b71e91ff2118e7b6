"""pyRiemann's transfer to a new subject: Xdawn covariances, re-centred for every subject, in the tangent space.

A trial is described by the covariance of its Xdawn components and of the mean responses of both classes [1]_. The
covariances of every subject are re-centred: C becomes M^(−½) C M^(−½), where M is their Riemannian mean, which needs
no labels [2]_. A logistic regression in the tangent space is fitted to all labelled trials, those of the new subject
with a larger weight. Its strength and this weight are chosen as `adapt` chooses its strength: known subjects (at most
eight) are left out in three parts, treated as new subjects with as many calibration trials, and tested on the rest.

.. [1] Barachant and Congedo, arXiv:1409.0107, 2014.
.. [2] Zanini, Congedo, Jutten, Said and Berthoumieu, IEEE Trans. Biomed. Eng. 65, 2018.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from _recordings import Recording, draw
from pyriemann.estimation import XdawnCovariances
from pyriemann.geometry.base import invsqrtm
from pyriemann.geometry.mean import mean_riemann
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

#: What the rehearsal chooses from. On development draws of NER (seed 100), 2 filters and weights below 10 were worse.
N_FILTERS, STRENGTHS, WEIGHTS = (4,), (0.01, 0.1, 1.0), (10.0, 30.0)
#: Parts in which the known subjects are left out, and how many of them are treated as new subjects at most.
PARTS, REHEARSED = 3, 8


@dataclass(frozen=True, eq=False)
class Trials:
    """Epochs (n, channels, times), labels (n,), and subjects (n,)."""

    X: np.ndarray
    y: np.ndarray
    subject: np.ndarray

    @classmethod
    def of(cls, train: tuple, n_channels: int) -> "Trials":
        """Read (X, y, subjects) with features (n, d), channel-major."""
        X, y, subject = train
        return cls(X.reshape(len(X), n_channels, -1), y, subject)

    def take(self, subjects: list) -> "Trials":
        """Return the trials of some subjects."""
        kept = np.isin(self.subject, subjects)
        return Trials(self.X[kept], self.y[kept], self.subject[kept])

    @property
    def subjects(self) -> list:
        """All subjects in order of their first trial."""
        return list(dict.fromkeys(self.subject.tolist()))


class Space:
    """Xdawn filters and tangent space of known subjects, and of labelled trials of a new one where there are any."""

    def __init__(self, known: Trials, n_filters: int, own: tuple[np.ndarray, np.ndarray] | None = None):
        self.varies = known.X.std(axis=(0, 2)) > 0  # channels that are constant in every subject have no covariance
        # Xdawn's own covariances are not shrunk: that of a mean response of 12 samples at 56 channels, shrunk as by
        # Ledoit and Wolf, is nearly the identity, and the filters find noise (NER: an AUC of 49 instead of 70).
        self.filters = XdawnCovariances(nfilter=n_filters, estimator="lwf", xdawn_estimator="scm")
        X, y = (known.X, known.y) if own is None else map(np.concatenate, zip((known.X, known.y), own))
        self.filters.fit(X[:, self.varies], y)
        parts = [known.take([subject]) for subject in known.subjects]
        recentred = np.concatenate([self._recentred(part.X, part.X) for part in parts])
        self.tangent = TangentSpace().fit(recentred)
        self.known, self.labels = self.tangent.transform(recentred), np.concatenate([part.y for part in parts])

    def _recentred(self, X: np.ndarray, by: np.ndarray) -> np.ndarray:
        covariances = self.filters.transform(X[:, self.varies])
        others = covariances if by is X else self.filters.transform(by[:, self.varies])
        root = invsqrtm(mean_riemann(others))
        return root @ covariances @ root

    def features(self, X: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Return tangent vectors of epochs, re-centred by the mean of other epochs of the same subject."""
        return self.tangent.transform(self._recentred(X, by))

    def scores(
        self, new: np.ndarray, y_new: np.ndarray, test: np.ndarray, strength: float, weight: float
    ) -> np.ndarray:
        """Return scores of tangent vectors by a regression on the known and on weighted new ones."""
        weights = np.concatenate([np.ones(len(self.labels)), np.full(len(y_new), weight)])
        model = LogisticRegression(C=strength, class_weight="balanced", max_iter=500)
        model.fit(np.concatenate([self.known, new]), np.concatenate([self.labels, y_new]), sample_weight=weights)
        return model.decision_function(test)


class RiemannTransfer:
    """The known subjects with what their rehearsal chose for every number of calibration trials."""

    def __init__(self, train: tuple, n_channels: int, sizes: list[int], seed: int):
        self.known = Trials.of(train, n_channels)
        self.chosen = rehearse(self.known, sorted({0, *sizes}), seed)
        self.spaces = {}

    def scores(self, X_new: np.ndarray, y_new: np.ndarray, X_test: np.ndarray, labels: bool) -> np.ndarray:
        """Return the scores of test trials (n, d) of a new subject; without any new trials they are the reference."""
        X_new, X_test = (X.reshape(len(X), *self.known.X.shape[1:]) for X in (X_new, X_test))
        labels = labels and len(y_new) > 0
        n_filters, strength, weight = self.chosen[len_asked(self.chosen, len(y_new)) if labels else 0]
        space = Space(self.known, n_filters, (X_new, y_new)) if labels else self._space(n_filters)
        by = X_new if len(X_new) else X_test
        new = (space.features(X_new, by), y_new) if labels else (space.known[:0], y_new[:0])
        return space.scores(*new, space.features(X_test, by), strength, weight)

    def _space(self, n_filters: int) -> Space:
        """Return the space of the known subjects alone."""
        if n_filters not in self.spaces:
            self.spaces[n_filters] = Space(self.known, n_filters)
        return self.spaces[n_filters]


def len_asked(chosen: dict, n: int) -> int:
    """Return the number of calibration trials that was asked for: a draw can have some more, 3 of each class."""
    return min((size for size in chosen if size), key=lambda size: abs(size - n))


def rehearse(known: Trials, sizes: list[int], seed: int) -> dict[int, tuple]:
    """Return {number of calibration trials: (filters, strength, weight)}, the best by mean AUC over known subjects."""
    aucs: dict[tuple, list[float]] = {}
    for left_out, n_filters in product((known.subjects[part::PARTS] for part in range(PARTS)), N_FILTERS):
        space = Space(known.take([s for s in known.subjects if s not in left_out]), n_filters)
        for subject, size in product((s for s in left_out if s in known.subjects[:REHEARSED]), sizes):
            own = known.take([subject])
            train, test = _calibration(own, size, seed)
            by = own.X[train] if size else own.X
            new = space.features(by, by) if size else space.known[:0]
            held_out = space.features(own.X[test] if size else by, by)
            for strength, weight in product(STRENGTHS, WEIGHTS if size else WEIGHTS[:1]):
                scores = space.scores(new, own.y[train], held_out, strength, weight)
                key = size, (n_filters, strength, weight)
                aucs.setdefault(key, []).append(roc_auc_score(own.y[test], scores))
    means = {key: np.mean(values) for key, values in aucs.items()}
    return {size: max((key for key in means if key[0] == size), key=means.get)[1] for size in sizes}


def _calibration(own: Trials, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return calibration trials of a known subject, at most two thirds of them, and the others."""
    if not size:
        return np.arange(0), np.arange(len(own.y))
    return draw(Recording(own.X, own.y), min(size, 2 * len(own.y) // 3), np.random.default_rng(seed))
