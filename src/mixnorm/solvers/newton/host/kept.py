r"""A factorised Newton matrix, used again for steps near the point where it was made.

Between two steps near the optimum the matrix changes by the few trials that crossed the margin and, a little, by the
curvature of the norms. The first is made up for exactly: with rows U of the trials that crossed and D = ±2p,

    (M + U D U')⁻¹ r = M⁻¹r − M⁻¹U (D⁻¹ + U'M⁻¹U)⁻¹ U'M⁻¹r.

The second is left out, which makes convergence linear, at a rate that is the relative change of the curvature. So a
step of this kind counts only while each decreases much more than it leaves to the next.
"""

from dataclasses import dataclass, replace

import numpy as np

from mixnorm.solvers.newton.host.atoms import are_equal
from mixnorm.solvers.newton.host.single_system import SingleBlock, SingleTrialBlock
from mixnorm.solvers.newton.host.state import Active
from mixnorm.solvers.newton.tuning import KEPT_DECREASE, KEPT_TRIALS


@dataclass(frozen=True, eq=False)
class Kept:
    """The matrix of one subject's Newton step, factorised, and the step that it belongs to.

    Attributes
    ----------
    block : SingleBlock or SingleTrialBlock
    active : Active
    inside : boolean ndarray of shape (1, n)
        Trials inside the margin.
    tau : ndarray over the active atoms
        Their thresholds alpha β.
    decrease : float
        What the last step with this matrix was predicted to gain.
    is_near : bool
        Whether it may serve for other steps; one that may not still says how present groups adapt to those that enter.
    """

    block: SingleBlock | SingleTrialBlock
    active: Active
    inside: np.ndarray
    tau: np.ndarray
    decrease: float
    is_near: bool

    def is_of(self, present: np.ndarray) -> bool:
        """Whether the matrix is that of the present atoms, a mask over all atoms."""
        return are_equal(self.active.which, present.nonzero()[0])

    def serves(self, active: Active, tau: np.ndarray, inside: np.ndarray) -> bool:
        """Whether the coordinates and thresholds are the same, and few trials have crossed the margin."""
        if not self.is_near or self.active is not active or not are_equal(self.tau, tau):
            return False
        return int(np.count_nonzero(inside != self.inside)) <= KEPT_TRIALS * len(active.features)

    def again(self, inside: np.ndarray, p: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, "Kept"] | None:
        """Return the step (1, free + m) at another point, and what is kept; None where it gains too little."""
        step = self._solve(inside, p, -residual)
        decrease = -float(np.vdot(residual, step)) if step is not None else np.inf
        if step is None or not 0 <= decrease <= KEPT_DECREASE * self.decrease:
            return None
        return step, replace(self, decrease=decrease)

    def _solve(self, inside: np.ndarray, p: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        crossed = inside != self.inside
        if not crossed.any():
            return self.block.solve(right.T).T
        U = self.active.trials(0, crossed[0])
        solved = self.block.solve(np.column_stack([right[0], U]))
        inner = U.T @ solved
        np.einsum("ii->i", inner[:, 1:])[:] += np.where(inside[crossed], 0.5, -0.5) / p[crossed]
        try:
            price = np.linalg.solve(inner[:, 1:], inner[:, 0])
        except np.linalg.LinAlgError:
            return None
        return (solved[:, 0] - solved[:, 1:] @ price)[None]
