"""The squared hinge, the loss of the paper's equation 2."""

from mixnorm.core.arrays import Array, namespace, positive_part


class SquaredHinge:
    r"""ℓ(m) = max(0, 1 − m)², m = y (x·w + b) being the margin of a trial.

    A trial of relative weight p (Σ p = 1) brings to the dual problem, for a ≥ 0,

        −(p ℓ)*(−a) = a − a² / (4 p),        attained at a = 2 p max(0, 1 − m).
    """

    def value(self, margins: Array) -> Array:
        """Loss of every trial."""
        return self._shortfall(margins) ** 2

    def dual_variable(self, margins: Array, weight: Array) -> Array:
        """The a of every trial at which the primal and the dual term meet: −p ℓ'(m)."""
        return 2 * weight * self._shortfall(margins)

    def curvature(self, margins: Array) -> Array:
        """Second derivative of the loss of every trial (an element of its generalised derivative at m = 1)."""
        xp = namespace(margins)
        return 2 * xp.astype(margins < 1, margins.dtype)

    #: ℓ' is Lipschitz with this constant
    lipschitz = 2.0

    def dual_terms(self, dual_variable: Array, weight: Array) -> tuple[Array, Array]:
        """Return the linear part a and the quadratic part a²/(4p) of the dual value; trials of weight 0 have none."""
        xp = namespace(dual_variable)
        safe = xp.where(weight > 0, weight, xp.ones_like(weight))
        return dual_variable, dual_variable**2 / (4 * safe)

    @staticmethod
    def _shortfall(margins: Array) -> Array:
        return positive_part(1 - margins)
