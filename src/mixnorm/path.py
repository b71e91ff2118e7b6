"""The regularisation path: every method of the paper at a sequence of alphas, warm-started."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from ._inputs import Trials, encode_labels, read_fit
from ._together import solve
from ._weights import check_both_classes, check_group_weights, check_sample_weight
from .certificate import alpha_max
from .groups import Groups
from .penalties import L1, L2, GroupNorm, Penalty
from .stack import Solution, Stack

#: The smallest alpha of an automatic grid, as a share of alpha_max.
ALPHA_RATIO = 1e-3


@dataclass(frozen=True, eq=False)
class Path:
    """What `group_svc_path` returns.

    Attributes
    ----------
    alphas : ndarray of shape (A,)
    coefs : ndarray of shape (A, d)
    intercepts : ndarray of shape (A,)
    dual_gaps : ndarray of shape (A,)
        Relative duality gaps (P − D)/P.
    objectives : ndarray of shape (A,)
    n_iters : ndarray of shape (A,)
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    dual_gaps: np.ndarray
    objectives: np.ndarray
    n_iters: np.ndarray


def group_svc_path(
    X,
    y,
    *,
    groups: Sequence | None = None,
    alphas: int | Sequence[float] = 20,
    penalty: str = "group",
    q: float = 2.0,
    group_weights=None,
    sample_weight=None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    solver: str = "auto",
) -> Path:
    """Compute a path of squared-hinge classifiers with the regularisers of the paper.

    Solved on a device inside `mixnorm.use_device`.

    Parameters
    ----------
    X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
    y : array of shape (n,)
        Any two labels.
    groups : one label per column of a 2-D X; None: every column its own group
    alphas : int or sequence
        A number: that many from alpha_max down to 1e-3 of it, log-spaced. A sequence: as given, in any order.
    penalty : {"group", "l1", "l2"}
    q : float
        1 ≤ q ≤ 2; for penalty="group".
    group_weights : array in the order of the sorted labels (channels in order for epochs), or dict by label
        0: unpenalised, infinity: out.
    sample_weight : array of shape (n,)
    fit_intercept : bool
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Most iterations for one alpha.
    solver : {"auto", "newton", "fista", "forward-backward"}

    Returns
    -------
    Path

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.standard_normal((100, 4, 3))
    >>> X[y == 1, 2] += 1  # only channel 2 carries the effect
    >>> path = group_svc_path(X, y)
    >>> np.flatnonzero(path.coefs[1].reshape(4, 3).any(axis=1))  # the first to enter
    array([2])
    >>> bool(path.dual_gaps.max() < 1e-6)
    True
    """
    trials, y = read_fit(BaseEstimator(), X, y)
    classes, signs = encode_labels(y)
    weights = check_sample_weight(sample_weight, len(signs))
    check_both_classes(weights, signs, classes)
    method = Method(penalty, q, groups, group_weights, fit_intercept, tol, max_iter, solver)
    stack = method.stack(trials, signs, weights[:, None])
    alphas = check_alphas(alphas, stack)
    solutions = method.solve(stack, alphas[:, None, None])
    warn_unconverged(solutions, tol)
    return Path(
        alphas,
        np.stack([s.W[0, 0, :, 0] for s in solutions]).astype(trials.dtype),
        np.stack([s.b[0, 0, 0] for s in solutions]).astype(trials.dtype),
        np.stack([s.gap[0, 0] for s in solutions]),
        np.stack([s.objective[0, 0] for s in solutions]),
        np.stack([s.n_iter[0, 0] for s in solutions]),
    )


@dataclass(frozen=True, eq=False)
class Method:
    """One of the paper's methods and how it is solved: the parameters that every estimator here has in common."""

    penalty: str
    q: float
    groups: Sequence | None
    group_weights: Sequence[float] | dict | None
    fit_intercept: bool
    tol: float
    max_iter: int
    solver: str

    @classmethod
    def of(cls, estimator, q: float) -> "Method":
        """Return the method that an estimator's parameters describe, at one q."""
        if getattr(estimator, "adaptive", False) and estimator.penalty != "group":
            raise ValueError(f"adaptive=True is for penalty='group', but got penalty={estimator.penalty!r}.")
        names = ("groups", "group_weights", "fit_intercept", "tol", "max_iter", "solver")
        return cls(estimator.penalty, q, *(getattr(estimator, name) for name in names))

    def stack(self, trials: Trials, signs: np.ndarray, weights: np.ndarray) -> Stack:
        """Return K problems on the trials of one subject, weights being (n, K)."""
        groups = trials.groups(self.groups)
        beta = check_group_weights(self.group_weights, groups, self.penalty)
        if self.fit_intercept:
            # Beside an intercept a constant sensor says nothing; rounding must not give it a coefficient.
            beta[(beta > 0) & ~varying(trials.matrix, groups)] = np.inf
        return Stack.single(
            trials.matrix,
            signs,
            sample_weight=weights,
            group_weights=np.repeat(beta[:, None], weights.shape[1], axis=1),
            groups=groups,
            penalty=make_penalty(self.penalty, self.q),
            fit_intercept=bool(self.fit_intercept),
        )

    def solve(self, stack: Stack, alphas: np.ndarray, similarities: np.ndarray | None = None) -> list[Solution]:
        """Solve the stack at alphas (A, B, K), and at similarities (A, B, K) if given."""
        if not (isinstance(self.tol, float | int | np.number) and self.tol > 0):
            raise ValueError(
                f"Invalid value for the 'tol' parameter. Allowed are values > 0, but got {self.tol!r} instead."
            )
        if not (isinstance(self.max_iter, int | np.integer) and self.max_iter >= 1):
            raise ValueError(
                "Invalid value for the 'max_iter' parameter. "
                f"Allowed are whole numbers from 1, but got {self.max_iter!r} instead."
            )
        options = {"solver": self.solver, "tol": self.tol, "max_iter": self.max_iter}
        return solve(stack, alphas, similarities, options)

    @property
    def norm_order(self) -> float:
        """The q of ``group_norms_``: that of the penalty, 2 with ℓ1 and ℓ2."""
        return float(self.q) if self.penalty == "group" else 2.0


def varying(X: np.ndarray, groups: Groups) -> np.ndarray:
    """Groups whose features are not all constant, (G,)."""
    varies = np.ptp(X, axis=0) > 0
    return np.bincount(groups.index, weights=varies, minlength=groups.n_groups) > 0


def make_penalty(penalty: str, q: float) -> Penalty:
    """Return the penalty object of a name and a q."""
    if not (isinstance(q, float | int | np.number) and 1 <= q <= 2):
        raise ValueError(
            f"Invalid value for the 'q' parameter. Allowed are values from 1 to 2, but got {q!r} instead."
        )
    if penalty == "group":
        return L1() if q == 1 else GroupNorm(float(q))
    if penalty in ("l1", "l2"):
        return L1() if penalty == "l1" else L2()
    raise ValueError(
        "Invalid value for the 'penalty' parameter. "
        f"Allowed values are 'group', 'l1' and 'l2', but got {penalty!r} instead."
    )


def check_alpha(alpha) -> float:
    """Return alpha as a float, or refuse it."""
    if not (isinstance(alpha, float | int | np.number) and np.isfinite(alpha) and alpha > 0):
        raise ValueError(
            f"Invalid value for the 'alpha' parameter. Allowed are finite values > 0, but got {alpha!r} instead."
        )
    return float(alpha)


def check_alphas(alphas, stack: Stack) -> np.ndarray:
    """Return the alphas (A,) of the last problem of the stack: as given, or a log grid down from its alpha_max."""
    if isinstance(alphas, int | np.integer) and not isinstance(alphas, bool):
        if alphas < 1:
            raise ValueError(
                f"Invalid value for the 'alphas' parameter. Allowed are numbers from 1, but got {alphas}."
            )
        top = largest_alpha(stack)
        return np.geomspace(top, ALPHA_RATIO * top, alphas) if alphas > 1 else np.array([top])
    values = np.asarray(alphas, dtype=float)
    if values.ndim != 1 or not len(values):
        raise ValueError("alphas must be a number or a non-empty sequence of numbers.")
    for value in values:
        check_alpha(value)
    return values


def largest_alpha(stack: Stack) -> float:
    """alpha_max of the last problem of the stack (ℓ2: that of ℓ1-ℓ2); 1 where no data vary and any alpha would do."""
    if not stack.penalty.is_norm:
        stack = replace(stack, penalty=GroupNorm(2.0))
    top = float(alpha_max(stack.last())[0, -1])
    return top if top > 0 else 1.0


def warn_unconverged(solutions: Iterable[Solution], tol: float, stacklevel: int = 3) -> None:
    """Warn, once, if any of the solutions missed its tolerance; ``stacklevel`` leads to the user's own line."""
    worst = max(float(s.gap.max()) for s in solutions)
    if not worst <= tol:
        warnings.warn(
            f"The solver stopped at a relative duality gap of {worst:.2e}, above tol={tol:.2e}: increase max_iter or "
            "tol, or scale the features.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
