"""A path for solvers that only know how to solve one stack from a given start."""

from collections.abc import Callable
from dataclasses import replace

from mixnorm.core.arrays import Array, namespace
from mixnorm.core.problem import Solution, Stack


def cells(stack: Stack, alphas: Array, similarities: Array | None) -> list[Stack]:
    """Return the stack at every alpha, and similarity if given, of (A, B, K) arrays."""
    steps = range(alphas.shape[0])
    if similarities is None:
        return [stack.with_alpha(alphas[j, ...]) for j in steps]
    return [stack.with_alpha(alphas[j, ...], similarities[j, ...]) for j in steps]


def side_by_side(stacks: list[Stack]) -> Stack:
    """Return one stack with the columns of several that differ in alpha, similarity and group weights alone."""
    first, xp = stacks[0], namespace(stacks[0].X)
    if len(stacks) == 1:
        return first

    def repeated(array):
        if array.shape[-1] == 1:  # one column for all, without a copy of it for each
            return xp.broadcast_to(array, (*array.shape[:-1], len(stacks)))
        return xp.concat([array] * len(stacks), axis=-1)

    found = replace(
        first,
        sample_weight=repeated(first.sample_weight),
        group_weights=xp.concat([stack.group_weights for stack in stacks], axis=-1),
        center=None if first.center is None else repeated(first.center),
        ridge=None if first.ridge is None else repeated(first.ridge),
        alpha=xp.concat([stack.alpha for stack in stacks], axis=-1),
        similarity=xp.concat([stack.similarity for stack in stacks], axis=-1),
        penalty=first.penalty.repeat(len(stacks)),
    )
    # of cached properties: the same, and not computed again
    vars(found)["trial_weight"] = repeated(first.trial_weight)
    if found.shares.shape[-1] == 1 and "second_moment" in vars(first):
        vars(found)["second_moment"] = first.second_moment
    return found


def solve_in_sequence(solve: Callable, stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
    """Solve the stacks in order, each from the solution before."""
    solutions, start = [], None
    for stack in stacks:
        found = solve(stack, tol, max_iter, start)
        start = (found.W, found.b)
        solutions.append(found)
    return solutions
