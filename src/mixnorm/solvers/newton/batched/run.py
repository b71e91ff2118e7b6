"""Newton's method on all problems of a stack at once, each at its own step of its own path.

A problem that is solved at one alpha goes on to its next without waiting for the others, so that the batch stays full:
the number of steps is that of the longest path, not the sum over alphas of the slowest problem's.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from mixnorm.core.arrays import Array, to_numpy
from mixnorm.solvers.newton.batched.assess import assess
from mixnorm.solvers.newton.batched.memory import free_bytes
from mixnorm.solvers.newton.batched.problems import Point, StackedProblems
from mixnorm.solvers.newton.batched.recorded import Recorded
from mixnorm.solvers.newton.batched.state import (
    Aim,
    Assessed,
    Found,
    Kept,
    Paths,
    Prepared,
    Progress,
    Tangent,
    slopes_of,
)
from mixnorm.solvers.newton.batched.step import Advanced, advance_and_assess, enter_and_prepare, only_prepare
from mixnorm.solvers.newton.batched.system import Load, Systems
from mixnorm.solvers.newton.batched.transfers import Reader, is_on_gpu
from mixnorm.solvers.newton.tuning import DAMPING


@dataclass(frozen=True, eq=False)
class Again:
    """Which problems are taken up again, a mask (P,), and how many steps they have taken already, (P,)."""

    only: np.ndarray
    steps: Array


class StackedRun:
    """Runs of all problems of a chunk along paths, with at most ``max_iter`` steps for one alpha.

    The pieces of a step are recorded once, and serve all runs.
    """

    def __init__(self, problems: StackedProblems, max_iter: int):
        self.problems = problems
        self._systems = Systems(problems, free_bytes(problems.p) // 2)
        self._reader = Reader()
        self._assess = partial(assess, problems, max_iter)  # once in every run
        self._enter_and_prepare = Recorded(partial(enter_and_prepare, problems))
        self._prepare = Recorded(partial(only_prepare, problems))
        self._max_iter = max_iter
        #: where solutions are kept, and the recorded piece of a step that does so, by the number of steps of the paths
        self._keeping: dict[int, tuple[Kept, Recorded]] = {}
        self._pool: list = []  # runs follow one another, and share the memory of this piece

    def follow(
        self, alphas: Array, similarities: Array, start: Point, goal: float, again: Again | None = None
    ) -> Found:
        """Follow alphas and similarities (A, P) from a point.

        ``goal``: the relative gap, as the solver estimates it, at which a problem goes on.
        """
        xp, problems = self.problems.xp, self.problems
        if again is None:
            again = Again(np.ones(problems.P, dtype=bool), xp.zeros_like(problems.range_P))
        paths = Paths(alphas, similarities, xp.full_like(problems.p[:, 0, 0], goal))
        places = _Places(problems, to_numpy(similarities), again.only)
        kept, advance = self._kept(alphas.shape[0])
        point = start
        assessed = self._assess(
            paths,
            point,
            _first_aim(problems, paths, start, again.steps),
            _first_progress(problems),
            Tangent(xp.zeros_like(start.W), xp.zeros_like(start.b)),
        )
        kept.keep(problems, point, xp.zeros_like(problems.range_P), assessed)
        while True:
            flags = self._reader.start(assessed.flags)
            # A GPU prepares the next step while the host reads the flags of this one and decides.
            ahead = self._prepared(problems.penalty.is_norm, assessed) if is_on_gpu(problems.p) else None
            asked = places.note(flags())
            if not places.running.any():
                return kept.found(problems, places.n_iter)
            solve = self._systems.plan(places.load())
            point, prepared = ahead or self._prepared(asked, assessed)
            before = Advanced(point, assessed.aim, assessed.progress)
            assessed = advance(paths, before, prepared, solve(prepared))

    def _kept(self, A: int) -> tuple[Kept, Recorded]:
        """Return where solutions of A steps are kept, and the last piece of a step, which keeps them there."""
        if A not in self._keeping:
            kept = Kept.of(self.problems, A)
            # the arrays are written in place, which is why they belong to the function and not to its arguments
            recorded = Recorded(partial(advance_and_assess, self.problems, self._max_iter, kept), self._pool)
            self._keeping[A] = kept, recorded
        return self._keeping[A]

    def _prepared(self, asked: bool, assessed: Assessed) -> tuple[Point, Prepared]:
        """Let atoms enter where any ask for it, and prepare the next step."""
        point, look, aim, damping = assessed.point, assessed.look, assessed.aim, assessed.progress.damping
        if asked:
            return self._enter_and_prepare(point, look, aim, assessed.entering, damping)
        return self._prepare(point, look, aim, damping)


def _first_progress(problems: StackedProblems) -> Progress:
    """Return the progress before the first step."""
    like_alpha = problems.p[:, 0, 0]
    endless = problems.xp.full_like(like_alpha, float("inf"))
    damping = problems.xp.full_like(like_alpha, DAMPING)
    return Progress(damping, endless, endless, problems.xp.zeros_like(endless), endless)


def _first_aim(problems: StackedProblems, paths: Paths, start: Point, steps: Array) -> Aim:
    """Return the first aim: the first alpha of a path, or for a zero model the smallest alpha at which it is optimal.

    From there `assess` moves on at once, since the goal is an infinite gap.
    """
    xp = problems.xp
    alpha = paths.alphas[0, :]
    if problems.penalty.is_norm:
        look = problems.look(start)
        dual = slopes_of(problems, look, paths.similarities[0, :]).dual_norms
        top = xp.max(xp.where(problems.penalised, dual / problems.safe_beta, 0.0), axis=1)
        alpha = xp.where(xp.any(look.norms > 0, axis=1) | (top <= 0), alpha, top)
    nothing = xp.zeros_like(problems.range_P)
    no, endless = nothing > 0, xp.full_like(alpha, float("inf"))
    still = xp.zeros_like(alpha)
    return Aim(nothing, alpha, paths.similarities[0, :], endless, no, no, steps, still, still)


class _Places:
    """Which step of its path every problem has reached, and how many steps it took to each; kept on the host."""

    def __init__(self, problems: StackedProblems, similarities: np.ndarray, only: np.ndarray):
        self.problems, self.similarities = problems, similarities
        self.running = only.copy()
        self.place = np.zeros(problems.P, dtype=np.int64)
        self.n_iter = np.zeros(similarities.shape, dtype=np.int64)

    def note(self, flags: np.ndarray) -> bool:
        """Note which problems arrived; return whether any atoms are to enter."""
        arrived, steps, asks, self.counts = flags
        there = np.flatnonzero(self.running & (arrived > 0))
        if len(there):
            self.n_iter[self.place[there], there] = steps[there]
            self.place[there] += 1
            self.running &= self.place < len(self.similarities)
        return bool(asks[self.running].any())

    def load(self) -> Load:
        """Return which systems are to be solved now."""
        place = np.minimum(self.place, len(self.similarities) - 1)
        similar = self.problems.similar and self.problems.center is None
        coupled = similar & (self.similarities[place, np.arange(self.problems.P)] > 0)
        return Load(self.running, np.maximum(self.counts, 1), coupled)
