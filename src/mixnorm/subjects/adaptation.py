r"""The fit of one subject that is regularised towards the mean classifier of other subjects.

This is the fit of a new subject, and of a subject listed in ``asymmetric``. The mean classifier w̄ of the other
subjects is fixed, and

    Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ_i s_i + strength (w − w̄)'M(w − w̄) + alpha Σ_g β_g ‖w_g‖_q

is minimised over w and b on the trials of this subject. M is the identity for a subject in ``asymmetric``, for whom
the ridge term ridge · ½ w'M w of the joint problem is added; for a new subject it is computed from the trials of the
known subjects, or from its own noise (`mixnorm.subjects.prior`).

With strength = ∞ the solution is w = w̄ with an intercept fitted to this subject; with strength = 0 the other subjects
have no influence.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mixnorm.core.intercept import solve_intercept
from mixnorm.core.metric import Metric
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.cross_validation import EQUAL, Fold, auc
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective, warn_unconverged
from mixnorm.execution import SolverOptions, on_device, solve
from mixnorm.subjects.joint import with_ridge

#: Strengths that `adapt` considers, in decreasing order, in units of the mean square of the new subject's features.
STRENGTHS = np.concatenate([[np.inf], np.geomspace(1e2, 1e-3, 11), [0.0]])
#: Strengths below this constant divided by the number of trials are tried only while one of the last two strengths is
#: the best so far. In benchmarks/many_subjects_0.1.md the best strength was 100 to 200 divided by the number of
#: trials, so that smaller strengths are seldom needed, and the solver takes more steps for them.
_WORTH_TRYING = 10
#: Relative gap, or number of Newton steps for each strength, at which a fit is accurate enough to compare AUCs.
_ROUGH_TOL, _ROUGH_STEPS = 1e-3, 12
#: Number of random divisions into folds. With few trials the AUC of a single division is too variable.
_REPEATS = 5
#: Assumed standard deviation (in AUC) of a new subject's gain about the mean gain of the known subjects.
SPREAD = 0.005


@dataclass(frozen=True, eq=False)
class AdaptationProblem:
    """The problem of one subject that is regularised towards a fixed classifier.

    Attributes
    ----------
    objective : Objective
    options : SolverOptions
    trials : Trials
    signs : ndarray of shape (n,)
        −1 and +1.
    center : ndarray of shape (d,)
        w̄.
    alpha : float
    group_weights : ndarray of shape (G,)
        β; ∞ for sensors that may not be used.
    metric : Metric or None
        M on the m features of the usable sensors; None: the identity.
    rough : bool
        Whether the fits serve only to compare AUCs, for which no certificate is needed.
    ridge : float
        Strength of ½ w'M w.
    alphas_in_unit : float
        How many times alpha is added to the unit of the strengths.
    """

    objective: Objective
    options: SolverOptions
    trials: Trials
    signs: np.ndarray
    center: np.ndarray
    alpha: float
    group_weights: np.ndarray
    metric: Metric | None = None
    rough: bool = False
    ridge: float = 0.0
    alphas_in_unit: float = 0.0

    @property
    def unit(self) -> float:
        """Mean square of the usable features. Strengths in this unit do not depend on the unit of the features.

        With ``alphas_in_unit``, a multiple of alpha is added: with ℓ2 and a large alpha, the centre is as small as the
        classifiers that it is the mean of, and only strengths that are large beside alpha keep a subject near it.
        """
        usable = self.usable
        square = float(np.mean(self.trials.matrix[:, usable] ** 2)) if usable.any() else 0.0
        return (square if square > 0 else 1.0) + self.alphas_in_unit * self.alpha

    @property
    def usable(self) -> np.ndarray:
        """Mask of the features of the usable sensors, (d,)."""
        return np.isfinite(self.group_weights)[self.trials.groups(self.objective.groups).index]

    def solve(self, weights: np.ndarray, strengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return W (A, d, K) and b (A, K) for weights of trials (n, K) and strengths (A,), which may be 0 or ∞."""
        stack, features = self._stack(weights)
        finite = np.isfinite(strengths)
        shape = (len(strengths), len(self.center), weights.shape[1])
        W, b = np.zeros(shape), np.empty((shape[0], shape[2]))
        solutions = self._finite(stack, strengths[finite])
        for j, solution in zip(np.flatnonzero(finite), solutions, strict=True):
            W[j, features], b[j] = solution.W[0, 0], solution.b[0, 0]
        # At strength ∞ only the intercept is left to be fitted, which needs no solver.
        W[~finite], b[~finite] = self.center[:, None], self._intercept(stack, features)
        return W, b

    def _stack(self, weights: np.ndarray) -> tuple[Stack, np.ndarray]:
        """Return the problems restricted to the usable sensors, and the indices of their features."""
        stack = self.objective.stack(self.trials, self.signs, weights)
        kept, features = np.isfinite(self.group_weights), np.flatnonzero(self.usable)
        if not len(features):  # no sensor was selected: w̄ is zero, and β = ∞ keeps w at zero
            kept, features = np.ones_like(kept), np.arange(len(self.center))
        beta, center = self.group_weights[kept, None], self.center[features, None].astype(float)
        problems = np.ones(weights.shape[1])
        if self.metric is not None:
            center = self.metric.apply(center[None, None])[0, 0]
        stack = replace(
            stack,
            X=stack.X[..., features],
            groups=stack.groups.only(kept),
            group_weights=(beta * problems)[None],
            center=(center * problems)[None, None],
            metric=self.metric,
        )
        return with_ridge(stack, self.ridge), features

    def _finite(self, stack: Stack, strengths: np.ndarray) -> list[Solution]:
        if not len(strengths):
            return []
        shape = (len(strengths), 1, stack.shape[-1])
        # A strength is the similarity to a fixed centre, so that all strengths are one path of the solver.
        similarities = np.broadcast_to(strengths[:, None, None], shape)
        options = self.options
        if self.rough:
            options = replace(options, tol=max(options.tol, _ROUGH_TOL), max_iter=self._rough_steps)
        solutions = solve(stack, np.full(shape, self.alpha), options, similarities)
        if not self.rough:
            warn_unconverged(solutions, options.tol)
        return solutions

    @property
    def _rough_steps(self) -> int:
        """Number of iterations of a rough fit.

        Newton's method on the host starts at w̄ and is close to the optimum after a dozen steps, except with ℓ1. In
        all other cases the limit is ``max_iter``.
        """
        norm, most = self.objective, self.options.max_iter
        newton = self.options.solver in ("auto", "newton") and not on_device()
        return min(most, _ROUGH_STEPS) if newton and norm.penalty != "l1" and norm.q > 1 else most

    def _intercept(self, stack: Stack, features: np.ndarray) -> np.ndarray:
        if not stack.fit_intercept:
            return np.zeros(stack.shape[-1])
        scores = np.repeat(np.matmul(stack.X, self.center[features, None]), stack.shape[-1], axis=-1)
        start = np.zeros((1, 1, stack.shape[-1]))
        return solve_intercept(stack.loss, scores, stack.y[..., None], stack.trial_weight, start)[0, 0]


def adapt_to(
    problem: AdaptationProblem, weights: Callable[[np.ndarray], np.ndarray], expected: np.ndarray | None = None
) -> tuple[np.ndarray, float, float]:
    """Choose the strength by cross-validated AUC and return w (d,), b and the strength.

    ``weights`` returns the weights (n,) of the trials in a mask. ``expected`` is the mean gain in AUC over strength ∞
    that each of `STRENGTHS` had for the known subjects, or None (see `best_strength`). With fewer than two trials of a
    class no cross-validation is possible, and the strength is ∞.
    """
    everything = weights(np.ones(len(problem.signs), dtype=bool))
    strengths = problem.unit * STRENGTHS
    folds = _folds(problem.signs, everything)
    best = 0
    if folds:
        scores = _scores(replace(problem, rough=True), folds, weights, strengths)
        best = best_strength(scores, None if expected is None else expected[: scores.shape[1]])
    W, b = problem.solve(everything[:, None], strengths[best : best + 1])
    return W[0, :, 0], float(b[0, 0]), float(strengths[best])


def n_worth_trying(n_trials: float) -> int:
    """Return how many of `STRENGTHS`, counted from ∞ down, are always tried with ``n_trials`` trials."""
    return 1 + int(np.sum(STRENGTHS[1:] >= _WORTH_TRYING / n_trials))


def best_strength(scores: np.ndarray, expected: np.ndarray | None = None) -> int:
    """Return the index of the strength to use, given the AUCs (folds, S) at strengths in decreasing order from ∞.

    The lead ℓ of a strength is its mean AUC minus the mean AUC of strength ∞; σ is its standard error over folds. With
    few trials (20, of which 3 are targets) the largest lead is mostly due to chance: strengths chosen by it alone gave
    new subjects a lower AUC than no calibration trials at all. Therefore

    - with the gains e of the known subjects (``expected``), the strength with the largest precision-weighted mean
      (ℓ/σ̄² + e/τ²) / (1/σ̄² + 1/τ²) is used, where σ̄² is the mean of σ² over strengths and τ = `SPREAD`. With few
      trials the known subjects decide; with many trials the new subject's own trials do;
    - without them, the strength with the largest lead is used if its lead exceeds σ, otherwise ∞.

    Among equal values the larger strength is used.
    """
    leads = scores - scores[:, :1]
    lead = leads.mean(axis=0)
    # The repeated divisions use the same trials, so that they do not reduce the standard error.
    error = leads.std(axis=0, ddof=1) / np.sqrt(len(scores) / _REPEATS)
    if expected is not None:
        # One weight for all strengths: with weights of their own, strengths with clear leads could change their order
        # because of the differences between their standard errors.
        own_share = SPREAD**2 / (SPREAD**2 + np.mean(error[1:] ** 2))
        lead = own_share * lead + (1 - own_share) * expected
    # The strengths are in decreasing order, so that the first of equal ones is the largest.
    best = int(np.argmax(lead >= lead.max() - EQUAL))
    return best if expected is not None or lead[best] > error[best] else 0


def _scores(problem: AdaptationProblem, folds: list[Fold], weights: Callable, strengths: np.ndarray) -> np.ndarray:
    """AUC (folds, S) of the strengths always tried, then of smaller ones while one of the last two is the best."""
    columns = np.stack([weights(fold.train) for fold in folds], axis=1)
    tried = n_worth_trying(len(problem.signs))
    scores = _aucs(problem, folds, *problem.solve(columns, strengths[:tried]))
    while tried < len(strengths) and np.argmax(scores.mean(axis=0)) >= tried - 2:
        more = _aucs(problem, folds, *problem.solve(columns, strengths[tried : tried + 1]))
        scores, tried = np.concatenate([scores, more], axis=1), tried + 1
    return scores


def _aucs(problem: AdaptationProblem, folds: list[Fold], W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """AUC of every strength on the test trials of every fold, (folds, S)."""
    return np.stack(
        [
            auc(problem.signs[fold.test], problem.trials.matrix[fold.test] @ W[:, :, k].T + b[:, k])
            for k, fold in enumerate(folds)
        ]
    )


def _folds(signs: np.ndarray, weights: np.ndarray) -> list[Fold]:
    """Several random divisions, with fixed seeds, into three stratified folds (two if a class has only two trials)."""
    used = np.flatnonzero(weights > 0)
    n_folds = min(3, *(int((signs[used] == sign).sum()) for sign in (-1, 1)))
    if n_folds < 2:
        return []
    folds = []
    # Fixed seeds: the same trials must give the same classifier.
    for seed in range(_REPEATS):
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for parts in splitter.split(used, signs[used]):
            train, test = (np.isin(np.arange(len(signs)), used[part]) for part in parts)
            folds.append(Fold(train, test))
    return folds
