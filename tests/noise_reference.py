"""The noise estimates by their definitions: loops over trials, sensors and samples, nothing else."""

import numpy as np

WHITE_IN_FACTORS = 0.01
WHITE_IN_TOEPLITZ = 0.03


def residuals(X, signs, weights):
    out = np.empty_like(X)
    for i, sign in enumerate(signs):
        own = [j for j in range(len(X)) if signs[j] == sign]
        out[i] = X[i] - sum(weights[j] * X[j] for j in own) / sum(weights[j] for j in own)
    return out


def white(C, share):
    return (1 - share) * C + share * np.trace(C) / len(C) * np.eye(len(C))


def unit(N):
    return N / np.mean(np.diag(N))


def inverse_root(C):
    values, vectors = np.linalg.eigh(C)
    return vectors @ np.diag(values**-0.5) @ vectors.T


def kronecker_parts(E, weights, share=WHITE_IN_FACTORS):
    """R (C, C) and S (r, r) of residual trials E (n, C, r)."""
    _, C, r = E.shape
    R = np.zeros((C, C))
    for e, weight in zip(E, weights, strict=True):
        for s in range(r):
            R += weight * np.outer(e[:, s], e[:, s]) / (r * sum(weights))
    R = white(R, share)
    S, root = np.zeros((r, r)), inverse_root(R)
    for e, weight in zip(E, weights, strict=True):
        whitened = root @ e
        for c in range(C):
            S += weight * np.outer(whitened[c], whitened[c]) / (C * sum(weights))
    return R, white(S, share)


def kronecker(E, weights, share=WHITE_IN_FACTORS):
    """N (C r, C r), sensor by sensor."""
    R, S = kronecker_parts(E, weights, share)
    _, C, r = E.shape
    N = np.empty((C * r, C * r))
    for c in range(C):
        for other in range(C):
            for s in range(r):
                for later in range(r):
                    N[c * r + s, other * r + later] = R[c, other] * S[s, later]
    return unit(N)


def toeplitz(E, weights, share=WHITE_IN_TOEPLITZ):
    """N (C r, C r), sensor by sensor: every entry from all pairs of samples at its lag, in all trials."""
    _, C, r = E.shape
    N = np.zeros((C * r, C * r))
    for c in range(C):
        for other in range(C):
            for s in range(r):
                for later in range(r):
                    lag, total = later - s, 0.0
                    for e, weight in zip(E, weights, strict=True):
                        for t in range(r):
                            if 0 <= t + lag < r:
                                total += weight * e[c, t] * e[other, t + lag]
                    N[c * r + s, other * r + later] = total / (r * sum(weights))
    return unit(white(N, share))


def structured(E, weights):
    return (kronecker(E, weights) + toeplitz(E, weights)) / 2


def positive_definite(N):
    """Whether the smallest eigenvalue of a symmetric matrix stands clear of rounding."""
    values = np.linalg.eigvalsh(N)
    return values[0] > 100 * len(N) * np.finfo(float).eps * values[-1]


def evoked(X, signs, weights):
    """M (C r, C r): the definition, with inverses and Kronecker products of whole matrices."""
    N, Q = noise_and_response(X, signs, weights)
    return unit(N @ np.linalg.inv(Q) @ N)


def noise_and_response(X, signs, weights):
    """N and the covariance Q of the expected response, each (C r, C r)."""
    _, C, r = X.shape
    E = residuals(X, signs, weights)
    N = structured(E, weights)
    n, (plus, minus) = sum(weights), (sum(weights[signs == sign]) for sign in (1, -1))
    difference = sum(
        sign * weight * x / (plus if sign > 0 else minus) for x, sign, weight in zip(X, signs, weights, strict=True)
    )
    variance = sum(weight * (e**2).sum() for e, weight in zip(E, weights, strict=True)) / (n - 2) / (C * r)
    D = (inverse_root(N) @ difference.reshape(-1)).reshape(C, r) / np.sqrt(variance * (1 / plus + 1 / minus))
    A, B = raised(D @ D.T / r), raised(D.T @ D / C)
    response = (np.kron(A, np.eye(r)) + np.kron(np.eye(C), B)) / 2
    root = np.linalg.inv(inverse_root(N))
    return N, root @ response @ root


def raised(C):
    """Eigenvalues below 1 become 1; then their mean is 1."""
    values, vectors = np.linalg.eigh(C)
    larger = [max(value, 1.0) for value in values]
    return vectors @ np.diag(larger) @ vectors.T / np.mean(larger)
