"""What was tried for the order of the package, beside what it is now: criteria of montages, and means of several."""

from functools import partial
from unittest import mock

import numpy as np
from _electrode_orders import MOST, by_us, least_squares
from _former_elimination import HeldOut, search_models
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.model_selection import StratifiedKFold

from mixnorm.core.groups import Groups
from mixnorm.estimators import elimination
from mixnorm.estimators.elimination import Distance, n_own_noise
from mixnorm.estimators.entry_order import entry_order
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.kronecker_distance import KroneckerDistance
from mixnorm.estimators.objective import Objective
from mixnorm.estimators.trained import Trained
from mixnorm.estimators.unbiased_distance import UnbiasedDistance
from mixnorm.execution import SolverOptions
from mixnorm.montage.separation import precision, separation
from mixnorm.montage.trials import Training, inner_folds
from mixnorm.noise import SensorMoments, kronecker, residuals


class HeldOutDistance(HeldOut):
    """The classifier N⁻¹d of one inner fold, judged by d' on the held-out trials alone."""

    @classmethod
    def of(cls, X, signs, fold):
        n, G, r = X.shape
        flat, train = X.reshape(n, -1), fold.train > 0
        trained = Trained(flat[train], signs[train], np.ones(train.sum()))
        own = Distance.of(trained, Groups.from_channels(range(G), r), np.ones(G, dtype=bool), "structured")
        model = cls(own.P, own.w[:, 0], flat[fold.test] @ own.P, signs[fold.test], r)
        model.scores = flat[fold.test] @ own.w[:, 0]
        return model

    def separation_without_each(self):
        return separation(self.signs, self.without_each())


def by_held_out_distance(training):
    """Elimination by the separation of held-out trials, with the structured noise of every inner fold."""
    models = [HeldOutDistance.of(training.X, training.signs, fold) for fold in training.folds]
    weights = precision([model.signs for model in models])
    left, removed = np.arange(training.X.shape[1]), []
    while len(left):
        place = int(np.argmax(weights @ [model.separation_without_each() for model in models]))
        removed.append(left[place])
        left = np.delete(left, place)
        for model in models:
            model.remove(place)
    return np.array(removed[::-1])


def by_entry(training, noise="structured", ridge=1.0):
    """Order of entry on the ℓ1-ℓ2 path, with a ridge in the metric of the noise."""
    X, ones = training.X, np.ones((len(training.X), 1))
    objective = Objective("group", 2.0, None, None, True, noise, ridge)
    stack = objective.stack(Trials(X.reshape(len(X), -1), None, X.shape[1:], X.dtype), training.signs, ones)
    options = SolverOptions("auto", 1e-3)
    ranks = entry_order(stack, min(MOST, X.shape[1]), options, objective.quadratic(stack, ones))
    return np.argsort(ranks[:, 0], kind="stable")


class OwnNoise:
    """Criteria of a montage by the noise of its own sensors, estimated for each montage by itself."""

    def __init__(self, training):
        X, signs = training.X, training.signs
        n, _, self.r = X.shape
        parts = [X[signs > 0], X[signs < 0]]
        self.moments = SensorMoments(X, signs, np.ones(n))
        self.difference = parts[0].mean(axis=0) - parts[1].mean(axis=0)
        residuals = np.concatenate([part - part.mean(axis=0) for part in parts]).reshape(n, -1)
        self.residuals, self.covariance = residuals, residuals.T @ residuals / (n - 2)
        self.precision, self.n = len(parts[0]) * len(parts[1]) / n, n
        self.share = 1.0  # of the structured noise, with "Ledoit-Wolf": see `choose_share`
        self.folds = [
            (OwnNoise(Training(X[fold.train > 0], signs[fold.train > 0], [])), X[fold.test], signs[fold.test])
            for fold in training.folds
        ]

    def noise(self, sensors, C, kind):
        found = self.moments.structured(sensors)
        if kind == "kronecker":
            return np.kron(found.sensors, found.samples)
        # shrunk: the sample covariance, the more the more trials there are for each feature
        share = {"shrunk": min(1.0, len(C) / self.n), "Ledoit-Wolf": self.share}.get(kind, 1.0)
        return share * found.dense() + (1 - share) * C

    def choose_share(self, sensors):
        """Share of the structured noise for montages of these sensors, by Ledoit and Wolf where it is the identity."""
        rest = self.residuals[:, (sensors[:, None] * self.r + np.arange(self.r)).ravel()]
        root = np.linalg.cholesky(self.moments.structured(sensors).dense())
        self.share = ledoit_wolf_shrinkage(np.linalg.solve(root, rest.T).T, assume_centered=True)

    def parts(self, sensors, kind):
        """P = N⁻¹, d and C of the montage, in units of the noise."""
        features = (sensors[:, None] * self.r + np.arange(self.r)).ravel()
        C = self.covariance[np.ix_(features, features)]
        scale = np.mean(np.diag(C))
        P = np.linalg.inv(self.noise(sensors, C / scale, kind))
        return P, self.difference[sensors].ravel() / np.sqrt(scale), C / scale

    def distance(self, sensors, kind):
        """d'N⁻¹d."""
        P, d, _ = self.parts(sensors, kind)
        return d @ P @ d

    def unbiased(self, sensors, kind):
        """d'N⁻¹d without what is expected by chance, tr(N⁻¹C)/m."""
        P, d, C = self.parts(sensors, kind)
        return d @ P @ d - np.sum(P * C) / self.precision

    def expected(self, sensors, kind):
        """Separation expected on new trials: (d'w − tr(N⁻¹C)/m) / √(w'Cw), w = N⁻¹d, m = n₊n₋/(n₊ + n₋)."""
        P, d, C = self.parts(sensors, kind)
        w = P @ d
        return (d @ w - np.sum(P * C) / self.precision) / np.sqrt(w @ C @ w)

    def held_out(self, sensors, kind):
        """Separation on the held-out trials of the inner folds."""
        found = []
        for own, X, signs in self.folds:
            P, d, _ = own.parts(sensors, kind)
            found.append(separation(signs, X[:, sensors].reshape(len(X), -1) @ (P @ d)[:, None])[0])
        return precision([signs for *_, signs in self.folds]) @ found


class OneNoise:
    """Criteria of a montage in the Kronecker noise of all electrodes, whose matrices are over electrodes alone."""

    def __init__(self, training):
        X, signs = training.X, training.signs
        n, _, _ = X.shape
        found = residuals(X.reshape(n, -1), signs, np.ones(n))
        rest = found.trials.reshape(X.shape) / np.sqrt(np.mean(found.trials**2))
        factors = kronecker(rest, found.weights)
        # the noise is white over samples in these coordinates
        root = np.linalg.cholesky(np.linalg.inv(factors.samples))
        flat = (rest @ root).transpose(1, 0, 2).reshape(X.shape[1], -1)
        self.R, self.M, self.precision = factors.sensors, flat @ flat.T / n, found.n_difference
        self.D = found.difference.reshape(X.shape[1:]) @ root / np.sqrt(np.mean(found.trials**2))

    def shrunk(self, rank):
        """The response with its largest singular values, or reduced to few patterns and courses (None)."""
        level = np.vdot(np.linalg.inv(self.R), self.M) / self.D.size / self.precision
        root = np.sqrt(level) * np.linalg.cholesky(self.R)
        D = np.linalg.solve(root, self.D)  # white noise of variance 1
        if rank is not None:
            U, values, V = np.linalg.svd(D, full_matrices=False)
            return root @ (U[:, :rank] * values[:rank]) @ V[:rank]
        (a, U), (b, V) = np.linalg.eigh(D @ D.T / D.shape[1]), np.linalg.eigh(D.T @ D / D.shape[0])
        variances = np.maximum(a - 1, 0.02)[:, None] + np.maximum(b - 1, 0.02)
        variances *= max(np.mean(D**2) - 1, 0.02) / variances.mean()
        return root @ U @ (variances / (1 + variances) * (U.T @ D @ V)) @ V.T

    def criterion(self, sensors, D, expected):
        """D² of a response; or the separation expected on new trials, where C is taken to be N."""
        P, part = np.linalg.inv(self.R[np.ix_(sensors, sensors)]), np.ix_(sensors, sensors)
        squared = np.vdot(P, D[sensors] @ D[sensors].T)
        return (squared - np.vdot(P, self.M[part]) / self.precision) / np.sqrt(squared) if expected else squared


def by_one_noise(training, rank=None, expected=False):
    """Elimination by a criterion of `OneNoise`: of the response shrunk to a rank or, with ``expected``, as it is."""
    noise = OneNoise(training)
    D = noise.D if expected else noise.shrunk(rank)
    left, removed = list(range(training.X.shape[1])), []
    while len(left) > 1:
        without = [noise.criterion(np.array([h for h in left if h != one]), D, expected) for one in left]
        removed.append(left.pop(int(np.argmax(without))))
    return np.array([*left, *removed[::-1]])


def by_own_noise(training, criterion="expected", kind="structured", most=16, first=None):
    """The order ``first`` (by the distance in Kronecker noise) down to ``most``, then by a criterion of `OwnNoise`."""
    order, own = first(training) if first else by_us(training, "kronecker"), OwnNoise(training)
    left, removed = list(order[:most]), list(order[most:][::-1])
    while len(left) > 1:
        own.choose_share(np.sort(left))
        value = getattr(own, criterion)
        without = [value(np.sort([other for other in left if other != one]), kind) for one in left]
        removed.append(left.pop(int(np.argmax(without))))
    return np.array([*left, *removed[::-1]])


class DistanceLosses:
    """Losses of d' in the unbiased distance alone; the electrodes that are left stay in their order.

    ``rows``: the trials to use. ``few``: the distance that takes the place of `KroneckerDistance` for few electrodes.
    """

    def __init__(self, training, rows=slice(None), few=UnbiasedDistance):
        n, G, r = training.X.shape
        self.groups, self.few = Groups.from_channels(range(G), r), few
        # as many as from all trials
        self.n_few = n_own_noise([Trained(training.X.reshape(n, -1), training.signs, np.ones(n))], r)
        X, signs = training.X[rows], training.signs[rows]
        self.trials = Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))
        self.left = np.arange(G)
        self.model = self.begin(KroneckerDistance if self.n_few < G else few)

    def begin(self, kind):
        self.sensors = self.left.copy()  # those of the model, whose order changes
        return kind(self.trials, self.groups, self.left.copy())

    def losses(self):
        return self.model.losses()[np.argsort(self.sensors)]

    def remove(self, place):
        own = int(np.flatnonzero(self.sensors == self.left[place])[0])
        self.model.remove(own)
        self.sensors[own] = self.sensors[-1]
        self.sensors = self.sensors[:-1]
        self.left = np.delete(self.left, place)
        if len(self.left) == self.n_few:
            self.model = self.begin(self.few)


class StructuredDistance(UnbiasedDistance):
    """The unbiased distance in the structured noise of the montage."""

    def _shrinkage(self):
        return 1.0


class FoldLosses:
    """Mean loss of d' of the models of several folds."""

    def __init__(self, models):
        self.models, self.weights = models, precision([model.signs for model in models])

    def losses(self):
        # what all electrodes have is the same for each of them
        return -self.weights @ [model.separation_without_each() for model in self.models]

    def remove(self, place):
        for model in self.models:
            model.remove(place)


class LeastSquaresWeights:
    """‖w_g‖ of regularised least squares, alpha by stratified folds."""

    def __init__(self, training):
        signs = training.signs
        self.model = least_squares(training, inner_folds(StratifiedKFold(5), signs, None))

    def losses(self):
        return np.linalg.norm(self.model.w.reshape(-1, self.model.size), axis=1)

    def remove(self, place):
        self.model.remove(place)


def distance_alone(training):
    return [DistanceLosses(training)]


def with_held_out(training):
    models = [HeldOutDistance.of(training.X, training.signs, fold) for fold in training.folds]
    return [DistanceLosses(training), FoldLosses(models)]


def with_former(training):
    return [DistanceLosses(training), FoldLosses(search_models(training))]


def with_least_squares(training):
    return [DistanceLosses(training), LeastSquaresWeights(training)]


def two_noises(training):
    return [DistanceLosses(training), DistanceLosses(training, few=StructuredDistance)]


def half_samples(training, pairs=10):
    """The distance on random halves of the trials of each class."""
    rng, found = np.random.default_rng(0), []
    for _ in range(pairs):
        drawn = [rng.permutation(np.flatnonzero(training.signs == sign)) for sign in (-1, 1)]
        found += [DistanceLosses(training, np.sort(np.concatenate([own[k::2] for own in drawn]))) for k in (0, 1)]
    return found


def by_mean_loss(training, criteria, scaled=True, per_feature=0):
    """Elimination by the mean of the losses by several criteria; ``scaled``: each over its spread over electrodes.

    The first criterion decides alone while there are fewer than ``per_feature`` trials per feature.
    """
    n, G, r = training.X.shape
    models, left, removed = criteria(training), np.arange(G), []
    while len(left) > 1:
        counted = models if n >= per_feature * r * len(left) else models[:1]
        losses = [model.losses() for model in counted]
        mean = np.sum([own / (np.std(own) or 1.0) if scaled else own for own in losses], axis=0)
        place = int(np.lexsort((-left, mean))[0])
        removed.append(left[place])
        left = np.delete(left, place)
        for model in models:
            model.remove(place)
    return np.array([*left, *removed[::-1]])


def by_elimination_alone(training):
    """The order of the package without the comparison of all montages of the last six electrodes."""
    with mock.patch.object(elimination, "improve_last", lambda order, *_: order):
        return by_us(training)


#: What was tried for the order of the package.
CANDIDATES = {
    "distance, Kronecker noise": partial(by_us, noise="kronecker"),
    "distance, structured noise": partial(by_us, noise="structured"),
    "held-out separation": by_held_out_distance,
    "entry on the path, with ridge": by_entry,
    **{
        f"first {most} by {criterion}, own {kind} noise": partial(
            by_own_noise, criterion=criterion, kind=kind, most=most
        )
        for most, criterion, kind in (
            (8, "unbiased", "structured"),
            *((16, one, kind) for one in ("distance", "unbiased", "expected") for kind in ("structured", "shrunk")),
            (16, "held_out", "structured"),
            (8, "unbiased", "Ledoit-Wolf"),
            (16, "unbiased", "Ledoit-Wolf"),
        )
    },
    **{
        f"{name}; first 8 by unbiased, own {kind} noise": partial(
            by_own_noise, criterion="unbiased", kind=kind, most=8, first=partial(by_one_noise, **how)
        )
        for name, kind, how in (
            ("shrunk response", "structured", {}),
            ("response of rank 2", "structured", {"rank": 2}),
            ("expected separation", "Ledoit-Wolf", {"expected": True}),
        )
    },
    "elimination alone": by_elimination_alone,
    "distance alone": partial(by_mean_loss, criteria=distance_alone, scaled=False),
    "distance + held-out separation": partial(by_mean_loss, criteria=with_held_out),
    "distance + former": partial(by_mean_loss, criteria=with_former),
    "distance + least squares": partial(by_mean_loss, criteria=with_least_squares),
    "distance + least squares from 8 trials": partial(by_mean_loss, criteria=with_least_squares, per_feature=8),
    "distance in two noises": partial(by_mean_loss, criteria=two_noises, scaled=False),
    "distance on half-samples": partial(by_mean_loss, criteria=half_samples, scaled=False),
}
