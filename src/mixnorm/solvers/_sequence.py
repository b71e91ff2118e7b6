"""A path for solvers that only know how to solve one stack from a given start."""

from collections.abc import Callable

from .._arrays import Array
from ..stack import Solution, Stack


def cells(stack: Stack, alphas: Array, similarities: Array | None) -> list[Stack]:
    """Return the stack at every alpha, and similarity if given, of (A, B, K) arrays."""
    steps = range(alphas.shape[0])
    if similarities is None:
        return [stack.with_alpha(alphas[j, ...]) for j in steps]
    return [stack.with_alpha(alphas[j, ...], similarities[j, ...]) for j in steps]


def solve_in_sequence(solve: Callable, stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
    """Solve the stacks in order, each from the solution before."""
    solutions, start = [], None
    for stack in stacks:
        found = solve(stack, tol, max_iter, start)
        start = (found.W, found.b)
        solutions.append(found)
    return solutions
