"""What an estimator minimises, from its parameters to a stack of problems; grids of alpha; warnings about fits."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mixnorm.core.certificate import alpha_max
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L1, L2, GroupNorm, Penalty
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.weights import check_group_weights

#: The smallest alpha of an automatic grid, as a share of alpha_max.
ALPHA_RATIO = 1e-3


@dataclass(frozen=True, eq=False)
class Objective:
    """What an estimator minimises: the parameters that define it and that every estimator here has in common."""

    penalty: str
    q: float
    groups: Sequence | None
    group_weights: Sequence[float] | dict | None
    fit_intercept: bool

    @classmethod
    def of(cls, estimator, q: float) -> "Objective":
        """Return the objective that an estimator's parameters describe, at one q."""
        if getattr(estimator, "adaptive", False) and estimator.penalty != "group":
            raise ValueError(f"adaptive=True is for penalty='group', but got penalty={estimator.penalty!r}.")
        names = ("groups", "group_weights", "fit_intercept")
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
            f"The solver stopped at a relative duality gap of {worst:.2e}, above tol={tol:.2e}: increase max_iter if "
            "the number of iterations has reached it; otherwise increase alpha or tol, or decrease similarity.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
