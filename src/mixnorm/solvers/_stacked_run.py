"""Newton's method on all problems of a stack at once, each at its own place of its own path.

A problem that is solved at one alpha goes on to its next without waiting for the others, so that the batch stays full:
the number of steps is that of the longest path, not the sum over alphas of the slowest problem's.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .._arrays import Array, like, to_numpy
from ._memory import systems_at_once
from ._stacked_problems import Look, Point, StackedProblems
from ._stacked_step import (
    Active,
    Terms,
    advance,
    descent,
    enter,
    penalty_curvature,
    solve_system,
    stiffness,
)

#: γ of the normal map in units of one over the group's share of the trace of the Hessian, as in `_newton_problem`.
_GAMMA = 25.0
_DAMPING = 1e-6
#: Steps without progress before a problem is given up.
_PATIENCE = 20
#: A far alpha is approached by a coarse path: its ratio, and the gap that is enough on it.
_COARSE_STEP, _COARSE_TOL = 0.4, 1e-2
#: New atoms enter once the last step was this small a share of the gap.
_SETTLED = 0.3
#: A batch of systems is cut where the number of active groups falls below this share of its largest ...
_ALIKE = 0.6
#: ... and enough are left that a batch of their own is worth it.
_FEW = 16


@dataclass(eq=False)
class Found:
    """Points kept on the way: for each which problem and place of the path, n_iter, and rows of W and b."""

    keys: list = field(default_factory=list)
    n_iter: list = field(default_factory=list)
    W: list = field(default_factory=list)
    b: list = field(default_factory=list)


class StackedRun:
    """All problems along alphas and similarities (A, P), from a point.

    Parameters
    ----------
    problems : StackedProblems
    alphas, similarities : arrays of shape (A, P)
    goal : float
        Relative gap, as the solver estimates it, at which a problem goes on.
    max_iter : int
        Steps for one alpha.
    """

    def __init__(self, problems: StackedProblems, alphas: Array, similarities: Array, goal: float, max_iter: int):
        self.problems, self.xp = problems, problems.xp
        self.alphas, self.similarities = alphas, similarities
        self.goal, self.max_iter = goal, max_iter
        self.A = alphas.shape[0]
        self.found = Found()

    def run(self, point: Point, only: np.ndarray | None = None) -> Found:
        """Follow every path from a point to its end (those of ``only``, a mask (P,), if given)."""
        xp, problems = self.xp, self.problems
        P = problems.P
        self.place = np.zeros(P, dtype=np.int64)
        self.running = np.ones(P, dtype=bool) if only is None else only.copy()
        self.steps = np.zeros(P, dtype=np.int64)
        look = problems.look(point)
        self.damping = xp.full((P,), _DAMPING, dtype=point.W.dtype, device=point.W.device)
        self.alpha_now = self._top(look)
        self.best = xp.full_like(self.damping, float("inf"))
        self.lowest, self.decrease = xp.full_like(self.best, float("inf")), xp.full_like(self.best, float("inf"))
        self.waited = xp.zeros_like(self.best)
        self._aim(np.zeros(P, dtype=bool), np.zeros(P, dtype=bool), first=True)
        self.n_steps = 0
        while self.running.any():
            look, point = self._iterate(look, point)
            self.n_steps += 1
        return self.found

    def _top(self, look: Look) -> Array:
        """The alpha at which a zero model stands, (P,): the largest that the gradient asks for."""
        xp, problems = self.xp, self.problems
        if not problems.penalty.is_norm:
            return xp.full((problems.P,), float("inf"), dtype=look.loss.dtype, device=look.loss.device)
        dual = self._dual_norms(descent(look, self.similarities[0, :]))
        limited = (problems.beta > 0) & xp.isfinite(problems.beta)
        ratio = xp.where(limited, dual / xp.where(limited, problems.beta, 1.0), 0.0)
        top = xp.max(ratio, axis=1)
        return xp.where(xp.any(look.norms > 0, axis=1), self.alphas[0, :], top)

    # Where a problem goes next.

    def _aim(self, arrived: np.ndarray, moved_on: np.ndarray, first: bool = False) -> None:
        """Set alpha and similarity of all problems; those that arrived at a waypoint go down, others to the next."""
        xp, problems = self.xp, self.problems
        place = like(self.best, np.minimum(self.place, self.A - 1), dtype=xp.int64)
        index = place * problems.P + xp.arange(problems.P, device=place.device)
        target = xp.take(xp.reshape(self.alphas, (-1,)), index)
        similarity = xp.take(xp.reshape(self.similarities, (-1,)), index)
        changed = like(self.best, arrived | moved_on | first, dtype=xp.bool)
        if problems.penalty.is_norm:
            self.alpha_now = xp.where(changed, xp.maximum(target, _COARSE_STEP * self.alpha_now), self.alpha_now)
        else:
            self.alpha_now = target
        self.similarity, self.on_target = similarity, self.alpha_now <= target
        self.tau = self.alpha_now[:, None] * problems.beta
        self.gamma = _GAMMA / (stiffness(problems, similarity) * problems.trace)
        self.best = xp.where(changed, float("inf"), self.best)
        self.lowest = xp.where(changed, float("inf"), self.lowest)
        self.waited = xp.where(changed, 0.0, self.waited)
        self.fresh = changed

    def _terms(self) -> Terms:
        return Terms(self.alpha_now, self.similarity, self.damping, self.tau, self.gamma)

    # One iteration.

    def _iterate(self, look: Look, point: Point) -> tuple[Look, Point]:
        xp, problems = self.xp, self.problems
        arrived, counts, entering = self._fetch(self._judge(look, point))
        self.waited = self.waited + 1
        while arrived is not None:
            self._record(arrived, point)
            if not self.running.any():
                return look, point
            arrived, counts, entering = self._fetch(self._judge(look, point))
        if entering:
            point = enter(problems, point, look, self._terms(), self.entering)
            look = problems.look(point)
        moved = self._newton(look, point, counts)
        self.damping, self.decrease = moved.damping, moved.decrease
        self.steps[self.running] += 1
        self.fresh = xp.zeros_like(self.fresh)
        return problems.look(moved.point), moved.point

    def _judge(self, look: Look, point: Point) -> Array:
        """Gap, progress and violators of every problem, as small numbers (P, 4) to be fetched at once."""
        xp, problems = self.xp, self.problems
        pull = descent(look, self.similarity)
        dual = self._dual_norms(pull)
        self.value = look.loss + self.similarity * look.spread + self.alpha_now * look.penalty
        gap = self._gap(look, point, pull, dual)
        progress = (gap < 0.9 * self.best) | (self.value < (1 - 1e-13) * self.lowest)
        self.waited = xp.where(progress, 0.0, self.waited)
        self.lowest, self.best = xp.minimum(self.value, self.lowest), xp.minimum(gap, self.best)
        self.present = (look.norms > 0) | (problems.beta == 0)
        if not problems.penalty.is_norm:
            self.present = xp.isfinite(problems.beta)
        self.entering = self._entering(dual, gap)
        asks = xp.any(self.entering, axis=1)
        goal = xp.where(self.on_target, self.goal, xp.full_like(gap, max(self.goal, _COARSE_TOL)))
        # A zero model is only taken where nothing asks to enter, however little it would bring.
        done = (gap <= goal) & ~(self.fresh & asks)
        stuck = (self.waited > _PATIENCE) & ~asks
        groups = problems.groups_with(self.present | self.entering)
        count = xp.sum(xp.astype(groups, xp.int64), axis=1)
        return xp.stack([xp.astype(f, xp.int64) for f in (done, stuck, asks, self.on_target)] + [count])

    def _fetch(self, flags: Array):
        """Bring the flags to the host; return who arrived or gave up (None: nobody), sizes, and whether any enter."""
        done, stuck, asks, on_target, count = to_numpy(flags)
        stop = self.running & ((done > 0) | (stuck > 0) | (self.steps >= self.max_iter))
        if stop.any():
            return (stop, on_target > 0), count, False
        return None, count, bool((asks[self.running] > 0).any())

    def _record(self, arrived, point: Point) -> None:
        """Keep the points of those who reached a target, and send them on."""
        stop, on_target = arrived
        xp, problems = self.xp, self.problems
        keep = np.flatnonzero(stop & (on_target | (self.steps >= self.max_iter)))
        if len(keep):
            rows = like(self.best, keep, dtype=xp.int64)
            self.found.keys += [(int(self.place[p]), int(p)) for p in keep]
            self.found.n_iter += self.steps[keep].tolist()
            self.found.W.append(xp.take(xp.reshape(point.W, (problems.P, -1)), rows, axis=0))
            self.found.b.append(xp.take(point.b, rows, axis=0))
        moved_on = np.zeros_like(stop)
        moved_on[keep] = True
        self.place[keep] += 1
        self.steps[keep] = 0
        self.running &= self.place < self.A
        self._aim(stop & ~moved_on, moved_on)

    def _dual_norms(self, pull: Array) -> Array:
        problems = self.problems
        return problems.penalty.dual_norm(problems.blocks(pull)[..., None])[..., 0]

    def _gap(self, look: Look, point: Point, pull: Array, dual: Array) -> Array:
        """The certificate's gap, from what the solver has at hand; the certificate itself has the last word."""
        xp, problems = self.xp, self.problems
        S1, S2 = xp.sum(look.a, axis=(1, 2)), look.loss + self.similarity * look.spread
        if problems.center is not None:
            S1 = S1 - 2 * self.similarity * xp.sum(look.deviation * problems.center, axis=(1, 2, 3))
        limited = (problems.beta > 0) & xp.isfinite(problems.beta)
        tau = xp.where(limited, self.tau, 1.0)
        dual = xp.where(limited, dual, 0.0)
        if problems.penalty.is_norm:
            largest = xp.max(dual / tau, axis=1)
            most = 1 / xp.where(largest > 0, largest, 1e-300)
        else:
            S2 = S2 + xp.sum(dual**2 / (2 * tau), axis=1)
            most = xp.full_like(S1, float("inf"))
        kappa = xp.clip(xp.minimum(S1 / xp.where(S2 > 0, 2 * S2, 1.0), most), 0)
        lack = self._lack(look, point, pull)
        difference = xp.abs(self.value - (kappa * S1 - kappa**2 * S2)) + lack
        return xp.where(self.value > 0, difference / xp.where(self.value > 0, self.value, 1.0), 0.0)

    def _lack(self, look: Look, point: Point, pull: Array) -> Array:
        """What unpenalised coefficients and intercepts still lack of their equalities makes the dual too high."""
        xp, problems = self.xp, self.problems
        weight = 2 * xp.sum(problems.p, axis=2)
        lack = xp.sum(xp.abs(look.pull_b * point.b) + look.pull_b**2 / xp.where(weight > 0, weight, 1.0), axis=1)
        if problems.has_free:
            free = problems.of_atoms(problems.beta == 0)
            own = xp.abs(pull * point.W) + pull**2 / problems.bend
            lack = lack + xp.sum(xp.where(free, own, 0.0), axis=(1, 2, 3))
        return lack

    def _entering(self, dual: Array, gap: Array) -> Array:
        """The absent atoms whose gradient asks most for them, (P, atoms): few at a time, and none until settled."""
        xp, problems = self.xp, self.problems
        if not problems.penalty.is_norm:
            return xp.zeros_like(self.present)
        outside = ~self.present & (dual > self.tau * (1 + 1e-10))
        settled = self.fresh | (self.decrease <= _SETTLED * gap * self.value)
        ratio = xp.where(outside & settled[:, None], dual / xp.where(self.tau > 0, self.tau, 1.0), 0.0)
        most = 1
        if not problems.single_atoms:
            # Groups may come in twos, or a fifth of those present; with ℓ1, where nothing ties them, one at a time
            # needs a third of the steps.
            count = xp.sum(xp.astype(self.present, xp.int64), axis=1, keepdims=True)
            most = xp.where(count > 10, count // 5, 2)
        rank = xp.argsort(xp.argsort(ratio, axis=1, descending=True), axis=1)
        return (ratio > 0) & (rank < most)

    def _newton(self, look: Look, point: Point, counts: np.ndarray):
        """One step of all running problems."""
        xp, problems, terms = self.xp, self.problems, self._terms()
        present = (look.norms > 0) | (problems.beta == 0) if problems.penalty.is_norm else self.present
        curvature = penalty_curvature(problems, point.W, look, terms, present)
        residual = curvature.slope - descent(look, terms.similarity)
        inside = problems.margins(point.Zw, point.b) < 1
        groups = problems.groups_with(present)
        order = xp.argsort(xp.astype(groups, xp.int8), axis=1, descending=True, stable=True)
        dw, bent, db = self._systems(order, groups, counts, (inside, curvature, residual, look.pull_b))
        value = look.loss + terms.similarity * look.spread + terms.alpha * look.penalty
        decrease = -xp.sum(residual * dw, axis=(1, 2, 3)) + xp.sum(look.pull_b * db, axis=1)
        predicted = bent + residual + terms.damping[:, None, None, None] * problems.bend * dw
        if problems.similar:
            predicted = predicted + 2 * terms.similarity[:, None, None, None] * problems.spread(dw)
        gamma = xp.where(curvature.mask, problems.of_atoms(curvature.gamma), 0.0)
        u = point.W + gamma * curvature.slope
        threshold = xp.where(curvature.gamma > 0, curvature.gamma * xp.where(curvature.gamma > 0, terms.tau, 0.0), 0.0)
        move = (u, dw - gamma * xp.where(curvature.mask, predicted, 0.0), db)
        return advance(problems, point, terms, move, value, decrease, threshold)

    def _systems(self, order: Array, groups: Array, counts: np.ndarray, rest: tuple):
        """Solve the systems of all running problems, and spread the solutions over (P, G, T, r)."""
        xp, problems = self.xp, self.problems
        P, G, T, r = problems.P, problems.G, problems.T, problems.r
        pieces, shifts, start = [], np.zeros(P, dtype=np.int64), 0
        offset, firsts = 0, np.full(P, -1, dtype=np.int64)
        for part in self._slices(counts):
            a = max(int(counts[part].max()), 1)
            chosen = like(self.best, part, dtype=xp.int64)
            active = Active(chosen, xp.take(order, chosen, axis=0)[:, :a], None)
            real = xp.take_along_axis(xp.take(groups, chosen, axis=0), active.groups, axis=1)
            both, db = solve_system(problems, replace(active, real=real), *rest)
            pieces.append((xp.reshape(both[:, 0, ...], (-1, T * r)), xp.reshape(both[:, 1, ...], (-1, T * r)), db))
            firsts[part] = offset + a * np.arange(len(part))
            shifts[part] = start + np.arange(len(part))
            offset, start = offset + a * len(part), start + len(part)
        rank = xp.argsort(order, axis=1)
        first = like(self.best, np.where(firsts < 0, offset, firsts), dtype=xp.int64)[:, None]
        rows = xp.where(groups & (first < offset), first + rank, offset)
        spread = []
        for which in (0, 1):
            flat = xp.concat([*(piece[which] for piece in pieces), xp.zeros_like(pieces[0][0][:1, :])], axis=0)
            spread.append(xp.reshape(xp.take(flat, xp.reshape(rows, (-1,)), axis=0), (P, G, T, r)))
        flat = xp.concat([*(piece[2] for piece in pieces), xp.zeros_like(pieces[0][2][:1, :])], axis=0)
        place = like(self.best, np.where(firsts < 0, start, shifts), dtype=xp.int64)
        return *spread, xp.take(flat, place, axis=0)

    def _slices(self, counts: np.ndarray) -> list[np.ndarray]:
        """Cut the running problems into batches whose systems are of like size and fit in memory."""
        problems = self.problems
        ids = np.flatnonzero(self.running)
        ids = ids[np.argsort(-counts[ids], kind="stable")]
        parts = []
        while len(ids):
            largest = max(int(counts[ids[0]]), 1)
            length = min(len(ids), systems_at_once(self.best, problems.T, largest * problems.r, problems.n))
            alike = int(np.sum(counts[ids] >= _ALIKE * largest))
            if alike < length and len(ids) - alike >= _FEW:
                length = alike
            parts.append(ids[:length])
            ids = ids[length:]
        return parts
