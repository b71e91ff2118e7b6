r"""One subject drawn to classifiers that do not move: a newcomer, or a weak subject that leans on the others.

With the mean classifier w̄ of the others fixed, the subject minimises its own

    Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ_i s_i + strength (w − w̄)'M(w − w̄) + alpha Σ_g β_g ‖w_g‖_q,

M being the identity, or for a newcomer the `metric` that the known subjects' trials give; where subjects are aligned
(`alignment`), w̄ and M are what the subject's own trials make of the others' mean.

strength = ∞ is w̄ itself with an intercept of the subject's own; strength = 0 its own fit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedKFold

from mixnorm.core.intercept import solve_intercept
from mixnorm.core.metric import Metric
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.choice import EQUAL
from mixnorm.estimators.folds import Fold, auc
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective, warn_unconverged
from mixnorm.execution import SolverOptions, on_device, solve

#: Strengths that `adapt` considers, falling, in units of the mean square of the newcomer's features.
STRENGTHS = np.concatenate([[np.inf], np.geomspace(1e2, 1e-3, 11), [0.0]])
#: Strengths below this over the number of trials are tried only while one of the last two is the best so far: the
#: best one was 100 to 200 over it (benchmarks/many_subjects.md), and the weaker the pull the more steps it takes.
_WORTH_TRYING = 10
#: What is enough to compare AUCs by: a relative gap, or so many steps of Newton's method for each strength.
_ROUGH_TOL, _ROUGH_STEPS = 1e-3, 12
#: The folds are drawn this often: a handful of trials says little by one division.
_REPEATS = 5
#: By how much (AUC, one standard deviation) a newcomer's gain is taken to differ from the known subjects' mean gain.
SPREAD = 0.005


@dataclass(frozen=True, eq=False)
class Leaning:
    """The problem of one subject beside fixed others.

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
        β, ∞ for sensors that are out.
    metric : Metric or None
        M on the m features of the sensors that are in; None: the identity.
    rough : bool
        Whether AUCs are to be compared only, for which no certificate is needed.
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

    @property
    def unit(self) -> float:
        """Mean square of the features that may be used: what makes a strength mean the same in every unit."""
        usable = self._usable
        square = float(np.mean(self.trials.matrix[:, usable] ** 2)) if usable.any() else 0.0
        return square if square > 0 else 1.0

    @property
    def _usable(self) -> np.ndarray:
        """Features of the sensors that are in, (d,)."""
        return np.isfinite(self.group_weights)[self.trials.groups(self.objective.groups).index]

    def solve(self, weights: np.ndarray, strengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return W (A, d, K) and b (A, K) for weights of trials (n, K) and strengths (A,), which may be 0 and ∞."""
        stack, features = self._stack(weights)
        finite = np.isfinite(strengths)
        shape = (len(strengths), len(self.center), weights.shape[1])
        W, b = np.zeros(shape), np.empty((shape[0], shape[2]))
        for j, solution in zip(np.flatnonzero(finite), self._finite(stack, strengths[finite])):
            W[j, features], b[j] = solution.W[0, 0], solution.b[0, 0]
        W[~finite], b[~finite] = self.center[:, None], self._intercept(stack, features)
        return W, b

    def _stack(self, weights: np.ndarray) -> tuple[Stack, np.ndarray]:
        """Return the problems on the sensors that are in, and their features: what is out has no part in them."""
        stack = self.objective.stack(self.trials, self.signs, weights)
        kept, features = np.isfinite(self.group_weights), np.flatnonzero(self._usable)
        if not len(features):  # the zero model, and nobody to be drawn to
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
        return stack, features

    def _finite(self, stack: Stack, strengths: np.ndarray) -> list[Solution]:
        if not len(strengths):
            return []
        shape = (len(strengths), 1, stack.shape[-1])
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
        """Few where a dozen come near: Newton's method on the host, which starts at the centre, but for ℓ1."""
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
    problem: Leaning, weights: Callable[[np.ndarray], np.ndarray], expected: np.ndarray | None = None
) -> tuple[np.ndarray, float, float]:
    """Choose the strength by cross-validated AUC and return w (d,), b and the strength.

    ``weights`` returns the weights (n,) of the trials in a mask, ``expected`` is what each of `STRENGTHS` gains over ∞
    by the experience of known subjects, or None: see `best_strength`. With fewer than two trials of a class nothing
    can be cross-validated, and the strength is ∞.
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
    """How many of `STRENGTHS` are worth trying with so many trials, from ∞ down."""
    return 1 + int(np.sum(STRENGTHS[1:] >= _WORTH_TRYING / n_trials))


def best_strength(scores: np.ndarray, expected: np.ndarray | None = None) -> int:
    """Return the place of the strength to take, given the AUCs (folds, S) at strengths that fall from ∞.

    The lead ℓ of a strength is its mean AUC above that of ∞, σ its standard error over folds. With 20 trials, 3 of
    them targets, the best lead is mostly an accident: 20 trials made newcomers worse than none. So

    - with the gains e that known subjects had (``expected``), the best of what both say together, each by its
      precision, (ℓ/σ̄² + e/τ²) / (1/σ̄² + 1/τ²), σ̄² the mean of σ² over strengths, τ = `SPREAD`: few trials leave the
      word to the known subjects, many take it from them;
    - without, the best lead if it exceeds σ, else ∞.

    Among equals the larger strength.
    """
    leads = scores - scores[:, :1]
    lead = leads.mean(axis=0)
    # Repeats of the folds use the same trials, and so make the standard error no smaller.
    error = leads.std(axis=0, ddof=1) / np.sqrt(len(scores) / _REPEATS)
    if expected is not None:
        # One trust for all strengths: the order of leads that are beyond doubt must not depend on their errors.
        trust = SPREAD**2 / (SPREAD**2 + np.mean(error[1:] ** 2))
        lead = trust * lead + (1 - trust) * expected
    # Strengths fall from ∞, so that the first of equal ones is the largest.
    best = int(np.argmax(lead >= lead.max() - EQUAL))
    return best if expected is not None or lead[best] > error[best] else 0


def _scores(problem: Leaning, folds: list[Fold], weights: Callable, strengths: np.ndarray) -> np.ndarray:
    """AUC (folds, S) of the strengths worth trying, and of weaker ones while one of the last two is the best."""
    columns = np.stack([weights(fold.train) for fold in folds], axis=1)
    tried = n_worth_trying(len(problem.signs))
    scores = _aucs(problem, folds, *problem.solve(columns, strengths[:tried]))
    while tried < len(strengths) and np.argmax(scores.mean(axis=0)) >= tried - 2:
        more = _aucs(problem, folds, *problem.solve(columns, strengths[tried : tried + 1]))
        scores, tried = np.concatenate([scores, more], axis=1), tried + 1
    return scores


def _aucs(problem: Leaning, folds: list[Fold], W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """AUC of every strength on the test trials of every fold, (folds, S)."""
    return np.stack(
        [
            auc(problem.signs[fold.test], problem.trials.matrix[fold.test] @ W[:, :, k].T + b[:, k])
            for k, fold in enumerate(folds)
        ]
    )


def _folds(signs: np.ndarray, weights: np.ndarray) -> list[Fold]:
    """Three stratified folds (two where a class has two trials only), drawn several times, the same every time."""
    used = np.flatnonzero(weights > 0)
    n_folds = min(3, *(int((signs[used] == sign).sum()) for sign in (-1, 1)))
    if n_folds < 2:
        return []
    folds = []
    for seed in range(_REPEATS):
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        for parts in splitter.split(used, signs[used]):
            train, test = (np.isin(np.arange(len(signs)), used[part]) for part in parts)
            folds.append(Fold(train, test))
    return folds
