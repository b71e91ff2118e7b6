"""The objective of an estimator: its parameters, checked, become a stack of problems, weights of groups and alphas."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mixnorm.core.arrays import is_array, to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import alpha_max, alpha_maxima
from mixnorm.core.penalties import L1, L2, GroupNorm, Penalty, vector_norm
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.quadratic import Noise, Quadratic, check_noise
from mixnorm.estimators.windows import read_windows, with_windows
from mixnorm.execution import Job, SolverOptions, solve, solve_all, together_on_device

#: The smallest alpha of an automatic grid, as a share of alpha_max; scikit-learn's paths use the same.
ALPHA_RATIO = 1e-3
#: The largest alpha of an automatic grid for ℓ2 with noise, in units of alpha_max; `check_alphas` says why.
NOISE_ALPHA_RATIO = 100.0


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective of an estimator: the parameters that define it and that all estimators have in common."""

    penalty: str
    q: float
    groups: Sequence | None
    group_weights: Sequence[float] | dict | None
    fit_intercept: bool
    noise: str | np.ndarray | None = None
    ridge: float = 0.0
    windows: int | Sequence | None = None
    window_share: float = 0.0

    @classmethod
    def of(cls, estimator, q: float, ridge: float = 0.0, window_share: float = 0.0) -> "Objective":
        """Return the objective that an estimator's parameters describe, at one q, one ridge and one window share."""
        noise, windows = as_noise(getattr(estimator, "noise", None)), getattr(estimator, "windows", None)
        share = check_window_share(window_share, windows, estimator.penalty, q, getattr(estimator, "adaptive", False))
        # Estimators without these parameters (baselines of several subjects) have the objective of the paper.
        own = cls.without_noise(estimator, q)
        return replace(own, noise=noise, ridge=ridge, windows=windows, window_share=share)

    @classmethod
    def without_noise(cls, estimator, q: float) -> "Objective":
        """Return the objective without its quadratic part, which for many subjects is another one for each of them."""
        if getattr(estimator, "adaptive", False) and estimator.penalty != "group":
            raise ValueError(f"adaptive=True is for penalty='group', but got penalty={estimator.penalty!r}.")
        return cls(estimator.penalty, q, estimator.groups, estimator.group_weights, estimator.fit_intercept)

    def stack(self, trials: Trials, signs: np.ndarray, weights: np.ndarray) -> Stack:
        """Return K problems on the trials of one subject, weights being (n, K)."""
        return self.penalised(self.plain_stack(trials, signs, weights), self.window_groups(trials))

    def window_groups(self, trials: Trials) -> Groups | None:
        """Return the windows of the trials; None: there are none."""
        return None if self.windows is None else read_windows(self.windows, trials, trials.groups(self.groups))

    def penalised(self, stack: Stack, windows: Groups | None) -> Stack:
        """Return the problems of a stack with the penalty of this objective, of a plain stack with another q."""
        stack = replace(stack, penalty=make_penalty(self.penalty, self.q))
        return stack if windows is None or not self.window_share else with_windows(stack, windows, self.window_share)

    def plain_stack(self, trials: Trials, signs: np.ndarray, weights: np.ndarray) -> Stack:
        """Return the K problems without windows."""
        # The same stack serves every q, ridge and window share of a grid: only the penalty is replaced (`penalised`).
        groups = trials.groups(self.groups)
        beta = check_group_weights(self.group_weights, groups, self.penalty)
        if self.fit_intercept:
            # A constant sensor adds nothing to an intercept, but rounding errors could give it a coefficient.
            used = weights.any(axis=1)
            beta[(beta > 0) & ~varying(trials.matrix if used.all() else trials.matrix[used], groups)] = np.inf
        return Stack.single(
            trials.matrix,
            signs,
            sample_weight=weights,
            group_weights=np.repeat(beta[:, None], weights.shape[1], axis=1),
            groups=groups,
            penalty=make_penalty(self.penalty, self.q),
            fit_intercept=bool(self.fit_intercept),
        )

    def quadratic(self, stack: Stack, sample_weight: np.ndarray) -> Quadratic | None:
        """Return the quadratic part of the K problems of a stack, for sample weights (n, K); None: there is none."""
        ridge = check_ridge(self.ridge, self.penalty)
        if self.noise is None:
            return Quadratic(None, ridge) if ridge > 0 else None
        check_noise(self.noise, stack.groups.n_features)
        if self.penalty != "l2" and ridge == 0:
            raise ValueError(
                f"noise has no effect with penalty={self.penalty!r} and ridge=0: set ridge > 0, or use penalty='l2'."
            )
        # Sensors that are forbidden or constant leave the covariance, which they could make singular. The weights of
        # windows stand behind those of the sensors and are not meant.
        covered = np.isfinite(stack.group_weights[0, : stack.groups.n_groups, -1])
        # no sensor can be chosen, so that there is nothing to whiten
        if not covered.any():
            return None
        noise = Noise(self.noise, stack.X[0, 0], stack.y[0, 0], sample_weight, stack.groups, covered)
        return Quadratic(noise, ridge)

    @property
    def norm_order(self) -> float:
        """The q of ``group_norms_``: that of the penalty, 2 with ℓ1 and ℓ2."""
        return float(self.q) if self.penalty == "group" else 2.0


def as_noise(noise) -> str | np.ndarray | None:
    """Return the ``noise`` parameter as it is, but a matrix as a float array on the host."""
    if noise is None or isinstance(noise, str):
        return noise
    try:
        return np.asarray(to_numpy(noise) if is_array(noise) else noise, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"noise must be None, a name or a numeric matrix, but got {noise!r}.") from error


def check_ridge(ridge, penalty: str) -> float:
    """Return ridge as a float; refuse values that are not finite or below 0, and ℓ2, whose strength is alpha."""
    if not (isinstance(ridge, float | int | np.number) and np.isfinite(ridge) and ridge >= 0):
        raise ValueError(
            f"Invalid value for the 'ridge' parameter. Allowed are finite values from 0, but got {ridge!r} instead."
        )
    if ridge > 0 and penalty == "l2":
        raise ValueError(
            f"ridge={ridge!r} cannot be used with penalty='l2', which is a ridge penalty itself: set its strength by "
            "alpha, and ridge=0."
        )
    return float(ridge)


def check_window_share(share, windows, penalty: str, q, adaptive: bool) -> float:
    """Return τ; refuse values outside [0, 1], and what does not go with windows."""
    if not (isinstance(share, float | int | np.number) and not isinstance(share, bool) and 0 <= share <= 1):
        raise ValueError(
            f"Invalid value for the 'window_share' parameter. Allowed are values from 0 to 1, but got {share!r} "
            "instead."
        )
    if share == 0:
        return 0.0
    if windows is None:
        raise ValueError(
            f"window_share={share!r} needs windows: give their number, or one label per sample, as windows=…"
        )
    # The decomposition by cells (`crossed_groups`) holds for ℓ1-ℓ2 norms alone.
    if penalty != "group" or q != 2:
        raise ValueError(
            f"window_share={share!r} is for penalty='group' with q=2, but got penalty={penalty!r} and q={q!r}."
        )
    if adaptive:
        raise ValueError(
            f"window_share={share!r} cannot be combined with adaptive=True: the adaptive norm has weights for sensors "
            "only. Set window_share=0 or adaptive=False."
        )
    return float(share)


def check_group_weights(given, groups: Groups, penalty: str) -> np.ndarray:
    """Return β (G,) from an array in the order of ``groups.labels`` or a dict by label; None: all 1."""
    if given is None:
        return np.ones(groups.n_groups)
    if isinstance(given, dict):
        weights = np.ones(groups.n_groups)
        place = {label: i for i, label in enumerate(groups.labels.tolist())}
        for label, weight in given.items():
            if label not in place:
                raise ValueError(
                    f"group_weights contains the unknown group {label!r}; available: {_listing(groups.labels)}."
                )
            # A dict need not name all groups; those that it does not name have weight 1.
            weights[place[label]] = _number(weight)
    else:
        weights = np.array([_number(weight) for weight in given]) if np.ndim(given) == 1 else np.asarray(given)
        if weights.shape != (groups.n_groups,):
            raise ValueError(
                f"group_weights must hold one weight for each of the {groups.n_groups} groups, "
                f"but its shape is {weights.shape}."
            )
    bad = np.flatnonzero(np.isnan(weights) | (weights < 0))
    if len(bad):
        raise ValueError(
            "group_weights must not be negative or NaN, "
            f"but that of {groups.labels.tolist()[bad[0]]!r} is {weights[bad[0]]}."
        )
    if penalty != "group" and not np.all(np.isin(weights, (0, 1, np.inf))):
        odd = np.flatnonzero(~np.isin(weights, (0, 1, np.inf)))[0]
        raise ValueError(
            f"With penalty={penalty!r} group_weights must be 0 (always select), 1 or infinity (never select), but "
            f"that of {groups.labels.tolist()[odd]!r} is {weights[odd]}; use penalty='group' for other weights."
        )
    # Subnormal numbers count as 0: products with them lose their digits, and the solver would not come to an end.
    return np.where(weights < np.finfo(float).tiny, 0.0, weights)


def _number(weight) -> float:
    if not isinstance(weight, float | int | np.number) or isinstance(weight, np.complexfloating):
        raise ValueError(f"group_weights must be numbers, but got {weight!r}.")
    return float(weight)


def _listing(labels: np.ndarray, most: int = 12) -> str:
    shown = ", ".join(repr(label) for label in labels.tolist()[:most])
    return shown + (", …" if len(labels) > most else "")


def adaptive_weights(W: np.ndarray, groups: Groups, q: float, beta: np.ndarray) -> np.ndarray:
    r"""Return 1/‖w*_g‖_q, divided by its geometric mean and times the given β (G, K), for first-stage W (T, d, K).

    Groups that the first stage did not select get weight ∞; groups of weight 0 keep it. The geometric mean is over the
    selected penalised groups. Dividing by it removes the scale of w*, which differs between folds and refit.
    """
    norms = vector_norm(groups.to_blocks(W), q)
    selected = (norms > 0) & (beta > 0) & np.isfinite(beta)
    # In logarithms, because a product of many 1/‖w_g‖ can overflow.
    logs = np.where(selected, -np.log(np.where(selected, norms, 1.0)), 0.0)
    centre = logs.sum(axis=0) / np.maximum(selected.sum(axis=0), 1)
    return np.where(selected, np.exp(logs - centre) * np.where(selected, beta, 1.0), np.where(beta == 0, 0.0, np.inf))


def varying(X: np.ndarray, groups: Groups) -> np.ndarray:
    """Groups whose features are not all constant, (G,)."""
    varies = X[0] != X[-1]
    same = np.flatnonzero(~varies)  # hardly any but the constant ones, so that one pass over all trials is saved
    varies[same] = (X[:, same] != X[0, same]).any(axis=0)
    return np.bincount(groups.index, weights=varies, minlength=groups.n_groups) > 0


def make_penalty(penalty: str, q: float) -> Penalty:
    """Return the penalty object of a name and a q."""
    if not (isinstance(q, float | int | np.number) and 1 <= q <= 2):
        raise ValueError(
            f"Invalid value for the 'q' parameter. Allowed are values from 1 to 2, but got {q!r} instead."
        )
    if penalty == "group":
        # With q = 1 the norm of a group is the sum of the sizes of its coefficients: ℓ1, with the weights of the
        # groups.
        return L1() if q == 1 else GroupNorm(float(q))
    if penalty in ("l1", "l2"):
        return L1() if penalty == "l1" else L2()
    raise ValueError(
        "Invalid value for the 'penalty' parameter. "
        f"Allowed values are 'group', 'l1' and 'l2', but got {penalty!r} instead."
    )


def check_alpha(alpha) -> float:
    """Return alpha as a float; raise an error if it is not finite and positive."""
    if not (isinstance(alpha, float | int | np.number) and np.isfinite(alpha) and alpha > 0):
        raise ValueError(
            f"Invalid value for the 'alpha' parameter. Allowed are finite values > 0, but got {alpha!r} instead."
        )
    return float(alpha)


def check_alphas(
    alphas,
    stack: Stack,
    quadratic: Quadratic | None = None,
    has_noise: bool | None = None,
    largest: float | None = None,
) -> np.ndarray:
    """Return the alphas (A,) of the last problem of the stack: as given, or a log grid down from its alpha_max.

    For ℓ2 with noise the grid starts at 100 alpha_max: as alpha grows, w tends to the direction of N⁻¹ times the
    difference of the class means, which is a useful classifier. ``has_noise`` says whether there is noise where it is
    not in ``quadratic``. ``largest``: alpha_max, where it is known already.
    """
    # True is an int in Python, but alphas=True is a mistake
    if isinstance(alphas, int | np.integer) and not isinstance(alphas, bool):
        if alphas < 1:
            raise ValueError(
                f"Invalid value for the 'alphas' parameter. Allowed are numbers from 1, but got {alphas}."
            )
        largest = largest_alpha(stack, quadratic) if largest is None else largest
        has_noise = quadratic is not None if has_noise is None else has_noise
        top = NOISE_ALPHA_RATIO * largest if has_noise and not stack.penalty.is_norm else largest
        # One alpha is the largest; a geometric grid of one point would give the smallest.
        return np.geomspace(top, ALPHA_RATIO * largest, alphas) if alphas > 1 else np.array([top])
    values = np.asarray(alphas, dtype=float)
    if values.ndim != 1 or not len(values):
        raise ValueError("alphas must be a number or a non-empty sequence of numbers.")
    for value in values:
        check_alpha(value)
    return values


def largest_alpha(stack: Stack, quadratic: Quadratic | None = None) -> float:
    """Return alpha_max of the last problem of the stack; 1 if alpha_max is 0 (constant data), where any alpha will do.

    With ℓ2 no alpha removes all sensors; alpha_max of the ℓ1-ℓ2 problem is returned instead.
    """
    last = stack.last()
    if not stack.penalty.is_norm:
        last = replace(last, penalty=GroupNorm(2.0))
    elif quadratic is not None and stack.has_unpenalised:
        # otherwise w = 0 at alpha_max, where the quadratic part has gradient 0
        last = quadratic.last().prepared(last).stack
    top = float(alpha_max(last)[0, -1])
    return top if top > 0 else 1.0


def largest_alphas(stacks: Sequence[Stack]) -> list[float | None]:
    """Return `largest_alpha` of stacks that differ in their norm only; None where it needs each stack by itself."""
    first = stacks[0]
    is_simple = all(stack.penalty.is_norm and stack.penalty.is_separable for stack in stacks)
    if not is_simple or first.has_unpenalised:
        return [None] * len(stacks)
    tops = (float(top[0, -1]) for top in alpha_maxima(first.last(), [stack.penalty for stack in stacks]))
    return [top if top > 0 else 1.0 for top in tops]


def solve_with(
    quadratic: Quadratic | None, stack: Stack, alphas: np.ndarray, options: SolverOptions, n_jobs: int | None = None
) -> list[Solution]:
    """Solve a stack, B = 1, at alphas (A, 1, K), with a quadratic part or without."""
    if quadratic is None:
        return solve(stack, alphas, options, n_jobs=n_jobs)
    return quadratic.solve(stack, alphas, options, n_jobs)


def solve_all_with(
    quadratics: Sequence[Quadratic | None], jobs: Sequence[Job], options: SolverOptions, n_jobs: int | None = None
) -> list[list[Solution]]:
    """`solve_with` for several stacks: on a device all at once, on the host one after the other."""
    if all(quadratic is None for quadratic in quadratics):
        return solve_all(jobs, options, n_jobs)
    return together_on_device(
        [
            partial(solve_with, quadratic, job.stack, job.alphas, options, n_jobs)
            for quadratic, job in zip(quadratics, jobs, strict=True)
        ]
    )


def warn_unconverged(solutions: Iterable[Solution], tol: float, stacklevel: int = 3) -> None:
    """Warn once if any solution did not reach ``tol``; ``stacklevel`` makes the warning point to the user's line."""
    # One warning for a whole grid: a warning per alpha and fold would hide all others.
    worst = max(float(s.gap.max()) for s in solutions)
    # not `worst > tol`, which a gap of NaN would pass
    if not worst <= tol:
        warnings.warn(
            f"The solver stopped at a relative duality gap of {worst:.2e}, above tol={tol:.2e}: increase max_iter if "
            "the number of iterations has reached it; otherwise increase alpha or tol, or decrease similarity.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
