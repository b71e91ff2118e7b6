"""A path for solvers that only know how to solve one stack from a given start."""

from collections.abc import Callable

from .._arrays import Array
from ..stack import Solution, Stack


def solve_in_sequence(solve: Callable, stack: Stack, alphas: Array, tol: float, max_iter: int) -> list[Solution]:
    """Solve the stack at alphas (A, B, K) in order, each from the solution before."""
    solutions, start = [], None
    for j in range(alphas.shape[0]):
        found = solve(stack.with_alpha(alphas[j, ...]), tol, max_iter, start)
        start = (found.W, found.b)
        solutions.append(found)
    return solutions
