r"""Newton's method on the active groups, one problem at a time: the solver that reaches the certificate on EEG.

Where w_g ≠ 0 the penalty is smooth, and f is piecewise quadratic: its Hessian H changes only by the trials that cross
the margin. With r_i = |w_i|/‖w_g‖_q, k_i = sign(w_i) r_i^{q/2} (a unit vector in each group), R = diag(r_i^{1−q/2}),

    ∇² alpha β_g ‖w_g‖_q = c_g R⁻¹ (I − k k') R⁻¹,        c_g = alpha β_g (q − 1) / ‖w_g‖_q,

so that in the variables R⁻¹w every q in (1, 2] has the shape of q = 2: the Newton system is R H R + c (I − k k').
ℓ1 is the case of groups of one coefficient, where the curvature vanishes.

The step is taken in the variable before the prox (Robinson's normal map): u = w + γ ∂Ω(w), w = prox_γΩ(u),
δu = (I + γ ∇²Ω) δw. A group whose u falls inside the dual ball leaves, exactly zero; a group whose gradient has left
its dual ball enters by a proximal step. The next alpha of a path starts from the solution before it, so that the first
step is the predictor along the path.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._arrays import to_numpy
from ..certificate import Certificate, certify
from ..intercept import solve_intercept
from ..losses import SquaredHinge
from ..stack import Solution, Stack
from ._hessian import WorkingHessian
from ._newton_system import (
    Curvature,
    DenseBlock,
    TrialBlock,
    pairs_within,
    solve_single,
    solve_subjects,
    solve_together,
    solve_trials,
)
from ._sequence import cells

#: How often a problem is taken up again whose certificate is still open.
_MAX_ATTEMPTS = 4
_MAX_INNER = 30
#: Looks at the whole problem without progress before it is given up.
_PATIENCE = 5
_MAX_HALVINGS = 40
#: γ of the normal map in units of one over the group's share of the trace of the Hessian; measured, flat around this.
_GAMMA = 25.0
#: The coarse path by which a far alpha is approached: its ratio, and the gap that is enough on it.
_COARSE_STEP, _COARSE_TOL = 0.4, 1e-2
#: Coordinates per trial inside the margin from which the system is solved through the trials.
_THROUGH_TRIALS = 2.5
#: Levenberg-Marquardt damping, in units of the Hessian's diagonal: where to begin, and how far it goes down and up.
_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-6, 1e-10, 1e3


@dataclass(frozen=True)
class Newton:
    """Second-order solver for ℓ2, ℓ1 and ℓ1-ℓq, 1 < q ≤ 2. Requires of the loss a piecewise constant curvature."""

    def path(
        self, stack: Stack, alphas: np.ndarray, tol: float, max_iter: int, similarities: np.ndarray | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        B, _, _, _, K = stack.shape
        problems = {(i, k): _Problem(stack, i, k) for i in range(B) for k in range(K)}
        points = {key: _Point.zero(problem) for key, problem in problems.items()}
        stacks = cells(stack, alphas, similarities)
        return [self._solve_at(cell, problems, points, tol, max_iter) for cell in stacks]

    def _solve_at(self, stack: Stack, problems: dict, points: dict, tol: float, max_iter: int) -> Solution:
        """Solve all problems from the points given, which are moved to the solutions, and certify them together."""
        n_iter = np.zeros(stack.alpha.shape, dtype=np.int64)
        todo = problems.keys()
        for key, problem in problems.items():
            points[key], n_iter[key] = problem.approach(float(stack.alpha[key]), points[key], max_iter)
        for goal in tol * 0.1 ** np.arange(_MAX_ATTEMPTS):
            for i, k in todo:
                budget = max_iter - int(n_iter[i, k])
                problems[i, k].similarity = float(stack.similarity[i, k]) if stack.has_similarity else 0.0
                points[i, k], steps = problems[i, k].solve(float(stack.alpha[i, k]), points[i, k], goal, budget)
                n_iter[i, k] += steps
            found = self._certify(stack, points)
            # The solver's own estimate of the gap is not the certificate: where that is still open, aim lower.
            todo = [key for key in todo if found.gap[key] > tol and n_iter[key] < max_iter]
            if not todo:
                break
        return Solution(found.W, found.b, found.primal, found.gap, n_iter)

    @staticmethod
    def _certify(stack: Stack, points: dict) -> Certificate:
        W, b = stack.start()
        for (i, k), point in points.items():
            W[i, :, :, k], b[i, :, k] = point.W, point.b
        return certify(stack, W, b)


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of one problem and its scores without intercept, signed by the labels: Z w, (T, n)."""

    W: np.ndarray
    b: np.ndarray
    Zw: np.ndarray

    @classmethod
    def zero(cls, problem: "_Problem") -> "_Point":
        T, n, d = problem.Z.shape
        return cls(np.zeros((T, d)), np.zeros(T), np.zeros((T, n)))


@dataclass(frozen=True, eq=False)
class _Active:
    """The coordinates of the active atoms: m features of every subject.

    Attributes
    ----------
    atoms : ndarray of shape (a,)
    features : ndarray of shape (m,)
    columns : ndarray of shape (m,)
        Places in the working Hessian.
    group : ndarray of shape (T, m)
        Position in ``atoms``.
    mask : ndarray of shape (T, m)
        False where a feature is active for another subject only (ℓ1).
    slots : ndarray of shape (a, r)
        Flat positions in (T, m) of the coordinates of each atom, T m where there is none.
    rows : ndarray of shape (T, free + m, n)
    """

    atoms: np.ndarray
    features: np.ndarray
    columns: np.ndarray
    group: np.ndarray
    mask: np.ndarray
    slots: np.ndarray
    rows: np.ndarray

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of the first subject's coordinates that share an atom."""
        return pairs_within(self.group[0])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum coordinates (T, m) over each atom, (a,)."""
        return np.bincount(self.group.ravel(), weights=values.ravel(), minlength=len(self.atoms))

    def prox(self, penalty, values: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """Prox of coordinates (T, m) with one threshold per atom."""
        blocks = np.append(values.ravel(), 0.0)[self.slots]
        shrunk = penalty.prox(blocks[..., None], threshold[:, None])[..., 0]
        out = np.zeros(values.size + 1)
        out[self.slots] = shrunk
        return out[:-1].reshape(values.shape)


class _Problem:
    """One problem of a stack, with what is kept along its path.

    An *atom* is what is zero or not as a whole: a group over all subjects, or with ℓ1 a single coefficient.
    """

    def __init__(self, stack: Stack, i: int, k: int):
        p = to_numpy(stack.trial_weight)[i, :, :, k]
        used = p.any(axis=0)
        self.p = np.ascontiguousarray(p[:, used])
        self.y = to_numpy(stack.y)[i][:, used]
        self.Z = to_numpy(stack.X)[i][:, used] * self.y[:, :, None]
        self.loss: SquaredHinge = stack.loss
        self.penalty = stack.penalty
        self.fit_intercept = stack.fit_intercept
        T, _, d = self.Z.shape
        self.q = stack.penalty.q if stack.penalty.is_norm else 2.0
        if stack.penalty.is_norm and T * stack.groups.sizes.max() == 1:
            self.q = 1.0  # groups of one coefficient: every q is ℓ1
        self.similarity = 0.0  # set for every cell of a path
        self.center = None if stack.center is None else to_numpy(stack.center)[i, :, :, k]
        beta = to_numpy(stack.group_weights)[i, :, k]
        if self.q == 1:
            self.atom_of = np.arange(T * d).reshape(T, d)
            self.beta = np.tile(beta[stack.groups.index], T)
        else:
            self.atom_of = np.tile(stack.groups.index, (T, 1))
            self.beta = beta
        self.blocks = _padded_members(self.atom_of.ravel(), len(self.beta))
        self.hessian = WorkingHessian(self.Z, self.y, self.p, self.fit_intercept)
        #: diagonal of the Hessian with all trials inside the margin, (T, d), and its sum over each atom
        self.bend = np.maximum(2 * _times(self.p, self.Z**2), 1e-300)
        self.trace = np.bincount(self.atom_of.ravel(), weights=self.bend.ravel(), minlength=len(self.beta))
        self._active: _Active | None = None
        self.damping = _DAMPING

    def approach(self, alpha: float, point: _Point, max_iter: int) -> tuple[_Point, int]:
        """From the zero model go down a coarse path to near alpha, since a far jump wakes too many groups at once."""
        steps = 0
        if not self.penalty.is_norm or point.W.any():
            return point, steps
        point = self._exact_intercept(point)
        norms, limited = self._dual_norms(self._descent(point, self._dual(point))), self.beta > 0
        current = _COARSE_STEP * np.max(norms[limited] / self.beta[limited], initial=0.0)
        while current > alpha and steps < max_iter:
            point, taken = self.solve(current, point, _COARSE_TOL, max_iter - steps)
            steps += taken
            current *= _COARSE_STEP
        return point, steps

    def solve(self, alpha: float, point: _Point, tol: float, max_iter: int) -> tuple[_Point, int]:
        """Descend from a point until the relative gap is at most tol; return the point and the number of steps."""
        tau = alpha * self.beta
        gamma = _GAMMA / np.maximum(self.trace, 1e-300)
        steps, best, lowest, waited = 0, (np.inf, point), np.inf, 0
        look = 0
        while True:
            point = self._exact_intercept(point)
            value = self._value(point, tau)
            a = self._dual(point)
            descent = self._descent(point, a)
            norms = self._dual_norms(descent)
            gap = self._gap(point, a, descent, tau, value)
            waited = 0 if gap < 0.9 * best[0] or value < (1 - 1e-13) * lowest else waited + 1
            lowest = min(lowest, value)
            best = min(best, (gap, point), key=lambda pair: pair[0])
            present = self._present(point)
            entering = self._violators(present, norms, tau)
            # A zero model is only taken where nothing asks to enter, however little it would bring.
            done = gap <= tol and (look > 0 or not len(entering))
            if done or steps >= max_iter or (waited > _PATIENCE and not len(entering)):
                return best[1], steps
            if len(entering):
                point = self._enter(point, entering, descent, tau, gamma)
                present[entering] = True
            taken, point = self._inner(point, present, tau, gamma, max(0.1 * tol, 0.05 * gap), max_iter - steps)
            steps += max(taken, 1)
            look += 1

    # One look at the whole problem.

    def _exact_intercept(self, point: _Point) -> _Point:
        if not self.fit_intercept:
            return point
        args = (self.y * point.Zw)[..., None], self.y[..., None], self.p[..., None], point.b[:, None]
        return _Point(point.W, solve_intercept(self.loss, *args)[:, 0], point.Zw)

    def _dual(self, point: _Point) -> np.ndarray:
        return self.loss.dual_variable(point.Zw + self.y * point.b[:, None], self.p)

    def _descent(self, point: _Point, a: np.ndarray) -> np.ndarray:
        descent = _times(a, self.Z)
        if self.similarity:
            descent -= 2 * self.similarity * self.deviation(point.W)
        return descent

    def deviation(self, W: np.ndarray, features=slice(None)) -> np.ndarray:
        """W less what it is drawn to: the centre, or the mean over subjects."""
        return W - (W.mean(axis=0) if self.center is None else self.center[:, features])

    def spread(self, direction: np.ndarray) -> np.ndarray:
        """The change of the deviation along a direction."""
        return direction - direction.mean(axis=0) if self.center is None else direction

    def _dual_norms(self, descent: np.ndarray) -> np.ndarray:
        blocks = np.append(descent.ravel(), 0.0)[self.blocks]
        return self.penalty.dual_norm(blocks[..., None])[:, 0]

    def _value(self, point: _Point, tau: np.ndarray) -> float:
        norms = np.append(point.W.ravel(), 0.0)[self.blocks]
        penalty = self.penalty.value(norms[..., None], tau[:, None])[0]
        return self._smooth(point.Zw, point.W, point.b) + penalty

    def _smooth(self, Zw: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
        value = np.vdot(self.p, self.loss.value(Zw + self.y * b[:, None]))
        if self.similarity:
            value += self.similarity * np.sum(self.deviation(W) ** 2)
        return float(value)

    def _present(self, point: _Point) -> np.ndarray:
        """Atoms that are not zero, or never are."""
        present = np.zeros(len(self.beta), dtype=bool)
        present[self.atom_of[point.W != 0]] = True
        present |= self.beta == 0
        if not self.penalty.is_norm:
            present |= np.isfinite(self.beta)
        return present

    def _violators(self, present: np.ndarray, norms: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """The absent atoms whose gradient asks most for them: few at a time.

        Many that enter together must mostly leave again. With ℓ1, where nothing ties them, one at a time needed an
        eighth of the steps that sixteen did; groups may come in twos, or a fifth of those present.
        """
        if not self.penalty.is_norm:
            return np.empty(0, dtype=int)
        outside = np.flatnonzero(~present & (norms > tau * (1 + 1e-10)))
        most = max(2, int(present.sum()) // 5) if self.q > 1 else 1
        return outside[np.argsort(-norms[outside] / tau[outside], kind="stable")[:most]]

    def _gap(self, point: _Point, a: np.ndarray, descent: np.ndarray, tau: np.ndarray, value: float) -> float:
        """The certificate's gap, from what the solver has at hand; the certificate itself has the last word."""
        norms = self._dual_norms(descent)
        safe = np.where(self.p > 0, self.p, 1.0)
        S1, S2 = a.sum(), (a * a / (4 * safe)).sum()
        if self.similarity:
            deviation = self.deviation(point.W)
            S2 += self.similarity * np.sum(deviation**2)
            if self.center is not None:
                S1 -= 2 * self.similarity * np.vdot(deviation, self.center)
        limited = (self.beta > 0) & np.isfinite(self.beta)
        kappa = np.inf
        if not self.penalty.is_norm:
            S2 += np.sum(norms[limited] ** 2 / (2 * tau[limited]))
        elif limited.any():
            kappa = 1 / max(np.max(norms[limited] / tau[limited]), 1e-300)
        kappa = max(min(kappa, S1 / (2 * S2) if S2 > 0 else 1.0), 0.0)
        dual = kappa * S1 - kappa**2 * S2
        # What unpenalised coefficients still lack of their equalities makes the dual value too high.
        free = (self.beta == 0)[self.atom_of]
        lack = np.sum(np.abs(descent * point.W)[free] + descent[free] ** 2 / self.bend[free])
        return (abs(value - dual) + lack) / value if value > 0 else 0.0

    # Steps.

    def _enter(self, point: _Point, entering, descent, tau, gamma) -> _Point:
        """Proximal step of the entering atoms, its common length chosen by exact line search."""
        slots = self.blocks[entering]
        forward = np.append(descent.ravel(), 0.0)[slots] * gamma[entering, None]
        step = self.penalty.prox(forward[..., None], (gamma * tau)[entering, None])[..., 0]
        price = float(self.penalty.value(step[..., None], tau[entering, None])[0])
        direction = np.zeros(point.W.size + 1)
        direction[slots] = step
        direction = direction[:-1].reshape(point.W.shape)
        features = np.flatnonzero(direction.any(axis=0))
        change = np.matmul(self.Z[:, :, features], direction[:, features, None])[..., 0]
        length = self._line_minimum(point, direction, change, price)
        return _Point(point.W + length * direction, point.b, point.Zw + length * change)

    def _line_minimum(self, point: _Point, direction, change, price: float) -> float:
        """Argmin over t > 0 of the objective along a direction that costs ``price`` per unit, nearly."""
        margins = point.Zw + self.y * point.b[:, None]
        bend = 0.0
        if self.similarity:
            spread = self.spread(direction)
            bend = 2 * self.similarity * np.sum(spread**2)
            price = price + 2 * self.similarity * np.sum(spread * self.deviation(point.W))
        length, low, high = 1.0, 0.0, np.inf
        for _ in range(50):
            at = margins + length * change
            slope = price + bend * length - np.vdot(self.loss.dual_variable(at, self.p), change)
            curvature = bend + np.vdot(self.p * self.loss.curvature(at), change**2)
            low, high = (low, length) if slope > 0 else (length, high)
            following = length - slope / curvature if curvature > 0 else np.inf
            if not low < following < high:
                following = (low + high) / 2 if np.isfinite(high) else 2 * length
            if abs(following - length) <= 1e-3 * length:
                break
            length = following
        return length

    def _inner(self, point: _Point, present, tau, gamma, tol: float, max_iter: int) -> tuple[int, _Point]:
        """Newton steps on the present atoms until the step's predicted decrease is below tol of the value."""
        value = self._value(point, tau)
        for step in range(min(_MAX_INNER, max_iter)):
            active = self._activate(present)
            moved = _newton_step(self, point, active, tau, gamma, value)
            if moved is None:
                return step, point
            point, value, decrease = moved
            if decrease <= tol * value:
                return step + 1, point
            present = self._present(point)
        return min(_MAX_INNER, max_iter), point

    def _activate(self, present: np.ndarray) -> _Active:
        atoms = np.flatnonzero(present)
        if self._active is None or not np.array_equal(atoms, self._active.atoms):
            mask = present[self.atom_of]
            features = np.flatnonzero(mask.any(axis=0))
            columns = self.hessian.columns(features)
            order = np.argsort(columns)
            features, columns = features[order], columns[order]
            position = np.zeros(len(present), dtype=int)
            position[atoms] = np.arange(len(atoms))
            group, mask = position[self.atom_of[:, features]], mask[:, features]
            slots = _padded_members(np.where(mask, group, -1).ravel(), len(atoms))
            self._active = _Active(atoms, features, columns, group, mask, slots, self.hessian.rows(columns))
        return self._active


def _newton_step(problem: _Problem, point: _Point, active: _Active, tau, gamma, value):
    """Take one step on the active atoms; return the new point, its value and the predicted decrease, or None."""
    free = problem.hessian.n_free
    tau, gamma = tau[active.atoms], gamma[active.atoms]
    margins = point.Zw + problem.y * point.b[:, None]
    a = problem.loss.dual_variable(margins, problem.p)
    gradient = -_times(a, active.rows.transpose(0, 2, 1))
    w = point.W[:, active.features]
    inside = (margins < 1) & (problem.p > 0)
    if problem.similarity:
        gradient[:, free:] += 2 * problem.similarity * problem.deviation(w, active.features)
    curvature, slope, gamma = _penalty_curvature(problem, active, w, tau, gamma)
    residual = gradient.copy()
    residual[:, free:] += slope
    scale = np.concatenate([np.ones((len(w), free)), curvature.scale], axis=1)
    step = scale * _solve(problem, active, inside, curvature, -scale * residual)
    decrease = -float(np.vdot(residual, step))
    bent = 2 * problem.p * inside * _times(step, active.rows)
    predicted = _times(bent, active.rows.transpose(0, 2, 1))[:, free:] + residual[:, free:]
    dw, db = step[:, free:], step[:, 0] if free else np.zeros(len(w))
    if problem.similarity:
        predicted += 2 * problem.similarity * problem.spread(dw)
    predicted += problem.damping * problem.bend[:, active.features] * dw
    gamma_of = gamma[active.group] * active.mask
    u = w + gamma_of * slope
    du = dw - gamma_of * predicted
    return _line_search(problem, point, active, (u, du, db), gamma * tau, tau, value, decrease)


def _penalty_curvature(problem: _Problem, active: _Active, w, tau, gamma):
    """Curvature and gradient of the penalty at w, and the γ of the normal map (0: the penalty is smooth there)."""
    q, group = problem.q, active.group
    coupling = problem.similarity if problem.center is None else 0.0
    if not problem.penalty.is_norm:
        zero = np.zeros_like(w)
        diagonal = tau[group] + 2 * problem.similarity
        curvature = Curvature(np.ones_like(w), diagonal, zero, group, np.zeros(len(tau)), coupling)
        return curvature, tau[group] * w, np.zeros(len(tau))
    size = np.abs(w)
    norm = active.sums(size * active.mask) if q == 1 else active.sums(size**q) ** (1 / q)
    smooth = (tau == 0) | (norm == 0)
    norm = np.where(smooth, 1.0, norm)
    ratio = np.where(smooth[group], 1.0, size / norm[group])
    sign = np.sign(w)
    penalised = ~smooth[group]
    weight = np.where(smooth, 0.0, np.minimum((q - 1) * tau / norm, 1e8 * problem.trace[active.atoms]))
    scale = np.where(active.mask, ratio ** (1 - q / 2) if 1 < q < 2 else 1.0, 0.0)
    direction = np.where(penalised & active.mask, sign * ratio ** (q / 2), 0.0)
    own = (problem.damping * problem.bend[:, active.features] + 2 * problem.similarity) * scale**2
    diagonal = np.where(active.mask, weight[group] + own, 1.0)
    slope = np.where(penalised & active.mask, tau[group] * sign * ratio ** (q - 1), 0.0)
    if 1 < q < 2:
        # For small coefficients the step must be long in u, where the prox is smooth, not in w, where it is not.
        gamma = np.maximum(gamma, norm / np.where(tau > 0, tau, np.inf))
    curvature = Curvature(scale, diagonal, direction, group, weight, coupling)
    return curvature, slope, np.where(smooth, 0.0, gamma)


def _solve(problem: _Problem, active: _Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by whichever route is cheapest."""
    if len(rhs) > 1:
        return _solve_coupled(problem, active, inside, curvature, rhs)
    if rhs.shape[1] > _THROUGH_TRIALS * inside.sum() and problem.q > 1:
        trials = inside[0]
        return solve_trials(active.rows[0][:, trials], problem.p[0, trials], curvature, rhs[0])[None]
    return solve_single(problem.hessian.at(inside, active.columns)[0], curvature, rhs[0], active.pairs)[None]


def _solve_coupled(problem: _Problem, active: _Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects by whichever route is cheapest."""
    own = list(zip(curvature.scale, curvature.diagonal))
    m = rhs.shape[1]
    N, n = inside.sum(), inside.sum(axis=1).max()
    by_features = m > 1.2 * n and problem.q > 1
    if not by_features:
        blocks = [DenseBlock(H, *mine) for H, mine in zip(problem.hessian.at(inside, active.columns), own)]
        return solve_subjects(blocks, curvature, rhs)
    rows = [rows[:, used] for rows, used in zip(active.rows, inside)]
    weights = [p[used] for p, used in zip(problem.p, inside)]
    # Through all trials at once N² m + N³/3; subject by subject 4 N m² and m³/3 for what couples them.
    if curvature.similarity > 0 and N * N * (m + N / 3) < m * m * (4 * N + m / 3):
        return solve_together(rows, weights, curvature, rhs)
    blocks = [TrialBlock(*trials, *mine) for trials, mine in zip(zip(rows, weights), own)]
    return solve_subjects(blocks, curvature, rhs)


def _line_search(problem, point, active, move, threshold, tau, value, decrease):
    """Halve the step through the prox until the objective falls enough."""
    u, du, db = move
    rows = active.rows[:, problem.hessian.n_free :]
    length = 1.0
    for halving in range(_MAX_HALVINGS):
        w = u + length * du
        if problem.penalty.is_norm:
            w = active.prox(problem.penalty, w, threshold)
        b = point.b + length * db
        Zw = _times(w, rows)
        W = np.zeros_like(point.W)
        W[:, active.features] = w
        blocks = np.append(w.ravel(), 0.0)[active.slots]
        reached = problem._smooth(Zw, W, b) + float(problem.penalty.value(blocks[..., None], tau[:, None])[0])
        # Near the optimum the decrease drowns in rounding: then a full step is taken unless it visibly climbs.
        drowned = decrease <= 1e-9 * value and reached <= value * (1 + 1e-14)
        if reached <= value - 1e-4 * length * decrease or drowned:
            factor = 1 / 16 if halving == 0 else 4.0 ** max(halving - 4, 0)
            problem.damping = min(max(problem.damping * factor, _MIN_DAMPING), _MAX_DAMPING)
            return _Point(W, b, Zw), reached, decrease
        length /= 2
    problem.damping = min(1e3 * problem.damping, _MAX_DAMPING)
    return None


def _times(vectors: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Row vector times matrix, subject by subject: (T, a), (T, a, b) → (T, b); plain BLAS, unlike a batched matmul."""
    return np.stack([vector @ matrix for vector, matrix in zip(vectors, matrices)])


def _padded_members(label: np.ndarray, n_labels: int) -> np.ndarray:
    """Positions of every label 0 … n_labels − 1 as rows, padded with len(label); label −1 is left out."""
    order = np.argsort(label, kind="stable")
    order = order[np.searchsorted(label[order], 0) :]
    sizes = np.bincount(label[order], minlength=n_labels)
    members = np.full((n_labels, max(int(sizes.max(initial=0)), 1)), len(label))
    within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members[label[order], within] = order
    return members
