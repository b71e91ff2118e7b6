r"""The linear system of a Newton step: K on the present coordinates, and the curvature of their norms.

    M = K + diag(c) − Σ_g c_g s_g s_g' + damping,        c_g = alpha β_g / ‖w_g‖,   s_g = w_g / ‖w_g‖.

M is factorised, or solved by conjugate gradients that the factor of a former step preconditions. Near the solution M
changes from step to step only by the few trials that cross the margin and a little by c and s, so that few iterations
are enough.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsv

from mixnorm.solvers.newton.gram.coordinates import Coordinates
from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.host.system import cholesky, diagonal_of
from mixnorm.solvers.newton.tuning import GRAM


class NormCurvature(NamedTuple):
    """Curvature of the norms of present groups: c (a,), c of every coefficient (m,), and s (m,)."""

    weight: np.ndarray
    spread: np.ndarray
    unit: np.ndarray

    def times(self, own: Coordinates, w: np.ndarray) -> np.ndarray:
        """Return the curvature times a change of the coefficients, (m,)."""
        return self.spread * (w - own.sums(self.unit * w)[own.label] * self.unit)


class Factor:
    """The Cholesky factor of the M of some coordinates.

    Attributes
    ----------
    own : Coordinates
    crossed : int
        How many trials have crossed the margin since.
    """

    def __init__(self, problem: GramProblem, own: Coordinates, curvature: NormCurvature):
        self.own, self.crossed = own, 0

        def matrix() -> np.ndarray:
            M = own.triangle(problem.gram)
            own.pairs.subtract(M, np.sqrt(curvature.spread) * curvature.unit)
            diagonal_of(M)[:] += problem.damping * own.of(problem.diagonal)
            diagonal_of(M)[problem.free :] += curvature.spread
            return M

        self._lower = cholesky(matrix(), matrix)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return M⁻¹ right, (free + m,)."""
        return dtrsv(self._lower, dtrsv(self._lower, right, lower=1), lower=1, trans=1)

    def is_near(self, own: Coordinates, decrease: float) -> bool:
        """Whether iterations are likely to be faster than another factor.

        ``decrease``: predicted by the step before, as a share of the value; it says how much c and s have changed.
        """
        is_worth = self.own is own and len(own.places) >= GRAM.least_size
        return is_worth and self.crossed <= GRAM.most_crossed and decrease <= GRAM.near

    def iterate(self, problem: GramProblem, curvature: NormCurvature, right: np.ndarray) -> np.ndarray | None:
        """Solve with the M of another point by conjugate gradients; None where they take too many iterations."""
        own, free, damping = self.own, problem.free, problem.damping * self.own.of(problem.diagonal)
        x, rest = np.zeros_like(right), right.copy()
        direction = solved = self.solve(rest)
        size = first = float(rest @ solved)
        for _ in range(GRAM.iterations):
            image = own.of(problem.times(own.to(direction, problem.gram[0], 0.0)))
            image += damping * direction
            image[free:] += curvature.times(own, direction[free:])
            length = size / float(direction @ image)
            x += length * direction
            rest -= length * image
            solved = self.solve(rest)
            size, before = float(rest @ solved), size
            if size <= GRAM.exactness * first:
                return x
            direction = solved + (size / before) * direction
        return None
