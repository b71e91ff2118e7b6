r"""Accelerated forward-backward splitting with restarts, on a whole stack of problems.

From the extrapolated point V = W + (θ₋ − 1)/θ (W − W₋) the step of `ForwardBackward` is taken, with one step size
per problem found by backtracking; θ₊ = (1 + √(1 + 4θ²))/2. The momentum is dropped, problem by problem, whenever
it points uphill: ⟨V − W⁺, W⁺ − W⟩ > 0. Problems that reached their certificate leave the stack.
Written on the array API standard: the same code runs on NumPy, PyTorch and CuPy arrays. The cost of an iteration is
two products with X, O(B T n d K).
"""

from dataclasses import dataclass, fields

import numpy as np

from mixnorm.core.arrays import Array, device, like, namespace, to_numpy
from mixnorm.core.certificate import Certificate, certify
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.first_order.lipschitz import intercept_scale, power_estimate
from mixnorm.solvers.sequence import cells, solve_in_sequence


@dataclass(frozen=True, eq=False)
class _Iterate:
    """The state of all running problems: two points, their scores, momentum and inverse step size."""

    W: Array
    b: Array
    scores: Array
    W_before: Array
    b_before: Array
    scores_before: Array
    momentum: Array
    lipschitz: Array

    def take(self, rows: Array, columns: Array) -> "_Iterate":
        xp = namespace(self.W)
        fields = vars(self).items()
        return _Iterate(**{k: xp.take(xp.take(v, rows, axis=0), columns, axis=v.ndim - 1) for k, v in fields})


@dataclass(frozen=True)
class Fista:
    """Restarted FISTA. Requires of the loss a Lipschitz gradient, of the penalty a prox: every penalty here has one.

    Attributes
    ----------
    certify_every : int
        Iterations between two looks at the certificate, which costs about as much as one iteration.
    """

    certify_every: int = 20

    def path(self, stack: Stack, alphas: Array, tol: float, max_iter: int, similarities=None) -> list[Solution]:
        """Solve the stack at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        return solve_in_sequence(self.solve, cells(stack, alphas, similarities), tol, max_iter)

    def solve(self, stack: Stack, tol: float, max_iter: int, start: tuple[Array, Array] | None = None) -> Solution:
        """Solve every problem of the stack to a relative gap of tol, or for max_iter iterations."""
        xp = namespace(stack.X)
        W, b = stack.start() if start is None else start
        certificate = certify(stack, W, b)
        result = _Result(stack, certificate)
        running = stack
        state = _first_iterate(stack, certificate.W, certificate.b)
        n_iter = 0
        while True:
            # At first only a point that is optimal to rounding is taken as it is: just below alpha_max the zero model
            # is within any tol, and yet a sensor is to be found.
            rows, columns = result.unfinished(tol if n_iter else min(tol, 1e-12))
            if not rows.shape[0] or n_iter >= max_iter:
                return result.solution()
            if (rows.shape[0], columns.shape[0]) != (running.shape[0], running.shape[4]):
                local = [
                    _positions(found, before) for found, before in zip((rows, columns), result.within, strict=True)
                ]
                running, state = running.take(*local), state.take(*local)
            result.within = (rows, columns)
            c2 = intercept_scale(running)
            for _ in range(min(self.certify_every, max_iter - n_iter)):
                state = _iterate(running, state, c2)
                n_iter += 1
            result.record(certify(running, state.W, state.b), n_iter, xp)


def _first_iterate(stack: Stack, W: Array, b: Array) -> _Iterate:
    xp = namespace(W)
    scores = stack.scores(W, b)
    return _Iterate(W, b, scores, W, b, scores, xp.ones_like(stack.alpha), power_estimate(stack))


def _iterate(stack: Stack, state: _Iterate, c2: Array) -> _Iterate:
    """One accelerated step of all problems, the step size halved for those whose model was too optimistic."""
    xp = namespace(state.W)
    momentum = (1 + xp.sqrt(1 + 4 * state.momentum**2)) / 2
    pull = (state.momentum - 1) / momentum

    def extrapolate(now, before):
        weight = xp.reshape(pull, (pull.shape[0], *(1,) * (now.ndim - 2), pull.shape[1]))
        return now + weight * (now - before)

    V, bv = extrapolate(state.W, state.W_before), extrapolate(state.b, state.b_before)
    scores_v = extrapolate(state.scores, state.scores_before)
    a = stack.dual_variable(scores_v)
    descent, descent_b = stack.descent(V, a), xp.sum(a * stack.y[..., None], axis=2)
    value = stack.smooth(V, scores_v)
    # Where nearly every trial is beyond the margin the loss is a sum of tiny squares (1 − m)², and the rounding of m
    # weighs more than that of the sum.
    rounding = 1e-13 * value + 1e-14 * xp.sqrt(value) + 1e-30
    lipschitz = state.lipschitz / 1.02  # steps may grow again: fewer trials inside the margin bend the loss less
    while True:
        step = 1 / lipschitz
        blocks = stack.groups.to_blocks(V + step[:, None, None, :] * descent)
        W = stack.groups.from_blocks(stack.penalty.prox(blocks, step[:, None, :] * stack.threshold), V.shape[1])
        b = bv + (step * c2)[:, None, :] * descent_b
        scores = stack.scores(W, b)
        dW, db = W - V, b - bv
        linear = xp.sum(descent * dW, axis=(1, 2)) + xp.sum(descent_b * db, axis=1)
        square = xp.sum(dW**2, axis=(1, 2)) + xp.sum(db**2, axis=1) / xp.where(c2 > 0, c2, 1.0)
        too_long = stack.smooth(W, scores) > value - linear + lipschitz / 2 * square + rounding
        if not bool(xp.any(too_long)):
            break
        lipschitz = xp.where(too_long, 1.3 * lipschitz, lipschitz)
    uphill = xp.sum(dW * (W - state.W), axis=(1, 2)) + xp.sum(db * (b - state.b), axis=1) / xp.where(c2 > 0, c2, 1.0)
    momentum = xp.where(uphill < 0, 1.0, momentum)
    return _Iterate(W, b, scores, state.W, state.b, state.scores, momentum, lipschitz)


class _Result:
    """The best point of every problem of the whole stack, filled in as problems are certified."""

    def __init__(self, stack: Stack, certificate: Certificate):
        xp = namespace(stack.X)
        # Copies, because they are written to: the point certified may be the solution at the alpha before.
        self.best = Certificate(
            *(xp.asarray(getattr(certificate, part.name), copy=True) for part in fields(certificate))
        )
        self.n_iter = xp.zeros_like(certificate.gap, dtype=xp.int64)
        self.within = tuple(xp.arange(n, device=device(stack.X)) for n in certificate.gap.shape)

    def unfinished(self, tol: float) -> tuple[Array, Array]:
        """Return the rows and columns of the smallest rectangle that holds every problem above tol."""
        open_ = to_numpy(self.best.gap) > tol
        int64 = namespace(self.best.gap).int64
        return tuple(like(self.best.gap, np.flatnonzero(open_.any(axis=axis)), dtype=int64) for axis in (1, 0))

    def record(self, found: Certificate, n_iter: int, xp) -> None:
        """Keep what was found wherever its value is the lowest yet."""
        rows, columns = self.within
        names = ("W", "b", "primal", "dual", "gap", "descent")
        before = Certificate(*(_taken(getattr(self.best, name), rows, columns) for name in names))
        best = before.better(found)
        for name in names:
            _put(getattr(self.best, name), getattr(best, name), xp.ones_like(best.gap), rows, columns)
        counts = xp.full_like(found.gap, n_iter, dtype=xp.int64)
        _put(self.n_iter, counts, xp.ones_like(counts), rows, columns)

    def solution(self) -> Solution:
        """What was found."""
        return Solution(self.best.W, self.best.b, self.best.primal, self.best.gap, self.n_iter)


def _taken(values: Array, rows: Array, columns: Array) -> Array:
    """Some rows and columns of an array (B, ..., K)."""
    xp = namespace(values)
    return xp.take(xp.take(values, rows, axis=0), columns, axis=values.ndim - 1)


def _put(target: Array, values: Array, where: Array, rows: Array, columns: Array) -> None:
    """Write values into some rows and columns of target, where told; plain loops: the array API has no scatter."""
    where = to_numpy(where)
    for i, row in enumerate(to_numpy(rows).tolist()):
        for k, column in enumerate(to_numpy(columns).tolist()):
            if where[i, k]:
                target[row, ..., column] = values[i, ..., k]


def _positions(found: Array, before: Array) -> Array:
    """Return where the found indices stand among those that were there before."""
    place = {value: i for i, value in enumerate(to_numpy(before).tolist())}
    return like(found, [place[value] for value in to_numpy(found).tolist()], dtype=found.dtype)
