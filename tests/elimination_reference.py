"""Losses by which sensors are eliminated, from their formulas, every montage by itself."""

from itertools import permutations

import numpy as np
from sklearn.covariance import ledoit_wolf_shrinkage

from mixnorm.noise import covariance


def parts_of(X, signs, sensors):
    """Difference of the means, covariance within the classes and structured noise of some sensors, in one unit."""
    flat = X[:, sorted(sensors)].reshape(len(X), -1)
    upper, lower = flat[signs > 0], flat[signs < 0]
    rest = np.concatenate([upper - upper.mean(axis=0), lower - lower.mean(axis=0)])
    layout = np.arange(flat.shape[1]).reshape(-1, X.shape[2])
    N = covariance("structured", flat, signs, np.ones(len(X)), layout) * np.mean(rest**2)
    return upper.mean(axis=0) - lower.mean(axis=0), rest, N


def share_of(X, signs, sensors):
    """Shrinkage of Ledoit and Wolf where the structured noise of the sensors is white, by scikit-learn."""
    _, rest, N = parts_of(X, signs, sensors)
    return ledoit_wolf_shrinkage(np.linalg.solve(np.linalg.cholesky(N), rest.T).T, assume_centered=True)


def noise_of(X, signs, sensors, share):
    _, rest, N = parts_of(X, signs, sensors)
    return share * N + (1 - share) * rest.T @ rest / len(rest)


def unbiased(X, signs, sensors, share):
    """The signed root of d'N⁻¹d − tr(N⁻¹C)/m, with N and C estimated from the trials of these sensors alone."""
    if not len(sensors):
        return 0.0
    d, rest, _ = parts_of(X, signs, sensors)
    P = np.linalg.inv(noise_of(X, signs, sensors, share))
    C = rest.T @ rest / (len(X) - 2)
    squared = d @ P @ d - np.trace(P @ C) * (1 / (signs > 0).sum() + 1 / (signs < 0).sum())
    return np.sign(squared) * np.sqrt(np.abs(squared))


def weights(X, signs, sensors, n_begin):
    """Mean of ‖w_g‖, w = (C + a v I)⁻¹ d of length 1, over three a; by pseudo-inverse, component by component.

    ``n_begin``: the sensors from which the components over time are computed.
    """
    spread = np.sqrt(np.mean([X[signs == sign].var(axis=0) * np.mean(signs == sign) for sign in (-1, 1)], axis=0) * 2)
    X = X / np.sqrt(np.mean(spread**2, axis=1))[:, None]
    rest = np.concatenate([X[signs == sign] - X[signs == sign].mean(axis=0) for sign in (-1, 1)])
    _, values, courses = np.linalg.svd(rest[:, n_begin].reshape(-1, X.shape[2]), full_matrices=False)
    explained = np.cumsum(values**2) / np.sum(values**2)
    Z = X[:, sensors] @ courses[: int(np.argmax(explained >= 0.98)) + 1].T
    d = (Z[signs > 0].mean(axis=0) - Z[signs < 0].mean(axis=0)).ravel()
    residual = np.concatenate([Z[signs == sign] - Z[signs == sign].mean(axis=0) for sign in (-1, 1)]).reshape(
        len(X), -1
    )
    C = np.cov(residual.T, bias=True)
    per_trial = max(len(d) / len(X), 0.02)
    found = []
    for strength in (0.01 / 0.75, 0.1 / 0.75, 1 / 0.75):
        w = np.linalg.pinv(C + strength * per_trial * np.trace(C) / len(C) * np.eye(len(C))) @ d
        found.append(np.linalg.norm(w.reshape(len(sensors), -1), axis=1) / np.linalg.norm(w))
    return np.mean(found, axis=0)


def losses(X, signs, left, n_begin):
    """Loss of the separation without each sensor or, from eight trials per feature on, its mean with the weights."""
    share = share_of(X, signs, left)
    lost = np.array([-unbiased(X, signs, [h for h in left if h != g], share) for g in left])
    lost += unbiased(X, signs, left, share)
    if len(X) < 8 * len(left) * X.shape[2] or len(left) <= 2:
        return lost
    own = weights(X, signs, left, n_begin)
    return (lost + own * lost.std() / own.std()) / 2


def greedy(parts, sensors):
    """Remove the sensor with the smallest weighted mean of the losses of all subjects; the last one comes first."""
    left, removed = list(sensors), []
    while left:
        mean = sum(share * losses(X, signs, left, list(sensors)) for share, X, signs in parts)
        removed.append(left.pop(int(np.argmin(mean))))
    return removed[::-1]


def nested(parts, order):
    """The order of the first six, of all 720, with the largest sum of d' over the first 2 … 6 of them.

    The given one, unless d' of some size is larger by more than a standard error.
    """
    first, found = sorted(order[:6]), {}
    shares = [share_of(X, signs, first) for _, X, signs in parts]

    def separation(montage):
        montage = tuple(sorted(montage))
        if montage not in found:
            own = [unbiased(X, signs, montage, share) for share, (_, X, signs) in zip(shares, parts, strict=True)]
            found[montage] = float(np.dot([weight for weight, *_ in parts], own))
        return found[montage]

    def total(one):
        # the single sensor decides only between orders of the same pairs, threes, …
        return round(sum(separation(one[:k]) for k in range(2, len(one) + 1)), 8), separation(one[:1])

    best = max(permutations(first), key=total)
    m = sum((y > 0).sum() * (y < 0).sum() / len(y) * (1 - 2 / len(y)) for *_, y in parts)
    gain = max(separation(best[:k]) - separation(order[:k]) for k in range(2, len(first)))
    return [*best, *order[6:]] if gain > m**-0.5 else list(order)


def order_of(parts, sensors):
    """The order of the package, where the noise of every montage is its own from the beginning."""
    return nested(parts, greedy(parts, sensors))
