"""Newton's method on all problems of a stack at once, each at its own place of its own path.

A problem that is solved at one alpha goes on to its next without waiting for the others, so that the batch stays full:
the number of steps is that of the longest path, not the sum over alphas of the slowest problem's.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from .._arrays import Array, like, to_numpy
from ._memory import free_bytes
from ._recorded import Recorded
from ._stacked_problems import Point, StackedProblems
from ._stacked_step import Aim, Judged, Progress, advance, descent, dual_norms, enter, judge, prepare
from ._stacked_system import Load, solve_systems

#: Levenberg-Marquardt damping to begin with, in units of the Hessian's diagonal.
_DAMPING = 1e-6
#: Steps without progress before a problem is given up.
_PATIENCE = 20
#: A far alpha is approached by a coarse path: its ratio, and the gap that is enough on it.
_COARSE_STEP, _COARSE_TOL = 0.4, 1e-2


@dataclass(eq=False)
class Found:
    """Points kept on the way: for each which place of the path and problem, n_iter, and rows of W and b."""

    keys: list = field(default_factory=list)
    n_iter: list = field(default_factory=list)
    W: list = field(default_factory=list)
    b: list = field(default_factory=list)


class StackedRun:
    """Runs of all problems of a chunk along paths.

    The pieces of a step are recorded once, and serve all runs.
    """

    def __init__(self, problems: StackedProblems):
        self.problems = problems
        self._room = free_bytes(problems.p) // 2
        self._judge, self._enter, self._prepare, self._advance = (
            Recorded(partial(piece, problems)) for piece in (judge, enter, prepare, advance)
        )

    def follow(self, paths: tuple[Array, Array], start: Point, goal: float, max_iter: int, only=None) -> Found:
        """Follow alphas and similarities (A, P) from a point (those problems of ``only``, a mask (P,), if given).

        Parameters
        ----------
        goal : float
            Relative gap, as the solver estimates it, at which a problem goes on.
        max_iter : int
            Steps for one alpha.
        """
        travel = _Travel(self.problems, paths, goal, max_iter, only)
        point, aim, progress = start, travel.first_aim(start), travel.first_progress()
        while travel.running.any():
            judged = self._judge(point, aim, progress)
            counts, asked = travel.note(judged)
            while travel.stop.any():
                travel.keep(point)
                if not travel.running.any():
                    return travel.found
                aim, progress = travel.next_aim(aim), travel.anew(judged.progress)
                judged = self._judge(point, aim, progress)
                counts, asked = travel.note(judged)
            look, progress = judged.look, judged.progress
            if asked:
                point, look = self._enter(point, look, aim, judged.entering)
            prepared = self._prepare(point, look, aim, progress.damping)
            load = Load(travel.running, counts, travel.coupled, self._room)
            step = solve_systems(self.problems, prepared, look.pull_b, aim.similarity, load)
            point, aim, progress = self._advance(point, aim, progress, prepared, step, look.pull_b)
            travel.steps += 1
        return travel.found


class _Travel:
    """Where on its path every problem is, kept on the host."""

    def __init__(self, problems: StackedProblems, paths: tuple[Array, Array], goal: float, max_iter: int, only):
        self.problems, self.xp = problems, problems.xp
        self.goal, self.max_iter = goal, max_iter
        self.alphas, self.similarities = (to_numpy(path) for path in paths)
        P = problems.P
        self.running = np.ones(P, dtype=bool) if only is None else only.copy()
        self.place, self.steps = np.zeros((2, P), dtype=np.int64)
        self.stop = np.zeros(P, dtype=bool)
        self.found = Found()

    def first_progress(self) -> Progress:
        """Nothing tried yet."""
        xp, p = self.xp, self.problems.p
        damping, endless = (xp.full((self.problems.P,), v, dtype=p.dtype, device=p.device) for v in (_DAMPING, np.inf))
        return Progress(damping, endless, endless, xp.zeros_like(damping), endless)

    def anew(self, progress: Progress) -> Progress:
        """Forget how those got on who have a new aim."""
        xp = self.xp
        changed = like(progress.best, self.stop, dtype=xp.bool)
        best, lowest = (xp.where(changed, float("inf"), v) for v in (progress.best, progress.lowest))
        waited = xp.where(changed, 0.0, progress.waited)
        return Progress(progress.damping, best, lowest, waited, progress.decrease)

    def first_aim(self, start: Point) -> Aim:
        """From the zero model not too far at once, since a far jump wakes too many groups at once."""
        problems = self.problems
        self.alpha = np.full(problems.P, np.inf)
        if problems.penalty.is_norm:
            look = problems.look(start)
            dual = dual_norms(problems, descent(look, like(problems.p, self.similarities[0])))
            ratio = to_numpy(self.xp.where(problems.penalised, dual / problems.safe_beta, 0.0)).max(axis=1)
            self.alpha = np.where(to_numpy(look.norms > 0).any(axis=1), self.alphas[0], ratio)
        self.stop = np.ones(problems.P, dtype=bool)
        return self.next_aim(None)

    def next_aim(self, before: Aim | None) -> Aim:
        """Send those who stopped on: down a coarse path, or to where they are to go."""
        place = np.minimum(self.place, len(self.alphas) - 1), np.arange(self.problems.P)
        target = self.alphas[place]
        if self.problems.penalty.is_norm:
            self.alpha = np.where(self.stop, np.maximum(target, _COARSE_STEP * self.alpha), self.alpha)
        else:
            self.alpha = target
        self.on_target = self.alpha <= target
        goal = np.where(self.on_target, self.goal, max(self.goal, _COARSE_TOL))
        similarity = self.similarities[place]
        self.coupled = (similarity > 0) & (self.problems.similar and self.problems.center is None)
        numbers = like(self.problems.p, np.stack([self.alpha, similarity, goal]))
        fresh = like(self.problems.p, self.stop, dtype=self.xp.bool)
        fresh = fresh if before is None else fresh | before.fresh
        return Aim(numbers[0, :], numbers[1, :], numbers[2, :], fresh)

    def note(self, judged: Judged) -> tuple[np.ndarray, bool]:
        """Fetch what was judged and note who stops; return bounds of the active groups, and whether any enter."""
        done, asks, waited, count = to_numpy(judged.flags)
        stuck = (waited > _PATIENCE) & (asks == 0)
        self.stop = self.running & ((done > 0) | stuck | (self.steps >= self.max_iter))
        return count, bool(asks[self.running].any())

    def keep(self, point: Point) -> None:
        """Keep the points of those who stopped where they were to go, or for good."""
        kept = np.flatnonzero(self.stop & (self.on_target | (self.steps >= self.max_iter)))
        if len(kept):
            rows = like(self.problems.p, kept, dtype=self.xp.int64)
            self.found.keys += [(int(self.place[p]), int(p)) for p in kept]
            self.found.n_iter += self.steps[kept].tolist()
            self.found.W.append(self.xp.take(self.xp.reshape(point.W, (self.problems.P, -1)), rows, axis=0))
            self.found.b.append(self.xp.take(point.b, rows, axis=0))
            self.place[kept] += 1
            self.steps[kept] = 0
        self.running &= self.place < len(self.alphas)
