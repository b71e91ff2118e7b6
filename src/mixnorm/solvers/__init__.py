"""Solvers of stacks of problems. All give the same answers; they differ in what they require and how fast they are.

Each one has ``path(stack, alphas, tol, max_iter)``: solve every problem of a stack at a sequence of alphas (A, B, K),
each from the solution before, and return one `Solution` per step of the sequence.
"""

from mixnorm.solvers.first_order.fista import Fista
from mixnorm.solvers.first_order.forward_backward import ForwardBackward
from mixnorm.solvers.newton.batched.solver import StackedNewton
from mixnorm.solvers.newton.host.solver import Newton
from mixnorm.solvers.newton.windows.solver import WindowsNewton

__all__ = ["SOLVERS", "Fista", "ForwardBackward", "Newton", "StackedNewton", "WindowsNewton"]

#: The names that estimators take for ``solver``.
SOLVERS = {"newton": Newton, "fista": Fista, "forward-backward": ForwardBackward}
