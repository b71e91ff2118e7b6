"""The linear systems of a Newton step of all problems, reduced to their active groups and solved in batches.

The active groups of a problem come first, so that all systems of a batch have the size of its largest; what is left
over is a group of zeros with the identity on the diagonal. `mixnorm.solvers.newton.host.system` has the matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from mixnorm.core.arrays import Array, namespace
from mixnorm.core.penalties import is_between
from mixnorm.solvers.newton.batched.blocks import BlocksThroughTrials, FactorisedBlocks, solve_coupled
from mixnorm.solvers.newton.batched.linalg import add_to_diagonal, less_square, solve_posdef
from mixnorm.solvers.newton.batched.memory import systems_at_once
from mixnorm.solvers.newton.batched.problems import StackedProblems
from mixnorm.solvers.newton.batched.recorded import Recorded
from mixnorm.solvers.newton.batched.state import Prepared, Step, Tangent
from mixnorm.solvers.newton.batched.transfers import is_on_gpu, send
from mixnorm.solvers.newton.tuning import THROUGH_TRIALS_OF_SUBJECTS

#: A batch is cut in two where that saves so many numbers of padding; fewer cost a GPU less than another batch.
_WORTH = 30_000_000
#: Numbers of groups, and of problems, for which solutions of all systems are recorded, and the largest of them.
_SIZES, _BATCHES, _LARGEST_RECORDED = 8, 4, 512


@dataclass(frozen=True, eq=False)
class Load:
    """What the host knows of the systems, (P,).

    Which problems run, bounds of their active groups, and whether a similarity to their mean couples their subjects.
    """

    running: np.ndarray
    counts: np.ndarray
    coupled: np.ndarray


class Systems:
    """Solves the systems of all problems within a limit of memory, in bytes."""

    def __init__(self, problems: StackedProblems, room: int):
        self._problems, self._room = problems, room
        self._recorded: dict[tuple[_Size, bool], Recorded] = {}
        self._pool: list = []

    def plan(self, load: Load) -> Callable[[Prepared], Step]:
        """Return a function that solves the systems of the running problems; the steps of the others are zero."""
        problems = self._problems
        batches = [_Batch.of(ids, load) for ids in _batches(problems, load, self._room)]
        if not is_on_gpu(problems.p):
            return partial(_solve_batches, problems, [(batch, _solver(problems, batch.size)) for batch in batches])
        batches = [self._rounded(batch) for batch in batches]
        if len(batches) == 1 and self._is_recorded(batches[0].size):
            ids, places = batches[0].places(problems)
            return lambda prepared: self._replay(batches[0].size, True)(prepared, ids, places)
        return partial(_solve_batches, problems, [(batch, self._piece(batch)) for batch in batches])

    def _rounded(self, batch: "_Batch") -> "_Batch":
        """A batch of one of a few sizes, so that few sizes are recorded; as it is where it cannot be recorded."""
        problems, (M, a, coupled) = self._problems, batch.size
        M = next(size for size in _roundings(problems.P, _BATCHES) if size >= M)
        a = next(size for size in _roundings(problems.G, _SIZES) if size >= a)
        rounded = replace(batch, size=_Size(M, a, coupled))
        return rounded if self._is_recorded(rounded.size) else batch

    def _is_recorded(self, size: "_Size") -> bool:
        """Whether systems of a size can be solved at once, and are recorded."""
        problems = self._problems
        m = size.a * problems.r
        room = systems_at_once(self._room, problems.T, m, problems.n + problems.n_common)
        return m <= _LARGEST_RECORDED and room >= size.M

    def _piece(self, batch: "_Batch") -> Callable:
        """Return the function that solves one of several batches."""
        if not self._is_recorded(batch.size):
            return _solver(self._problems, batch.size)
        replay = self._replay(batch.size, False)
        # What is recorded is overwritten by the next batch.
        return lambda prepared, ids: tuple(
            self._problems.xp.asarray(part, copy=True) for part in replay(prepared, ids)
        )

    def _replay(self, size: "_Size", alone: bool) -> Recorded:
        """The recorded solution of systems of a size; ``alone``: spread over all groups at once."""
        key = size, alone
        if key not in self._recorded:
            function = partial(solve_padded, self._problems, size) if alone else _solver(self._problems, size)
            self._recorded[key] = Recorded(function, self._pool)
        return self._recorded[key]


class _Size(NamedTuple):
    """Of a batch of systems: number of problems, active groups of each, whether a mean couples their subjects."""

    M: int
    a: int
    coupled: bool


@dataclass(frozen=True, eq=False)
class _Batch:
    """Problems whose systems are solved together."""

    ids: np.ndarray
    size: _Size

    @classmethod
    def of(cls, ids: np.ndarray, load: Load) -> "_Batch":
        """Of the size of its largest system."""
        return cls(ids, _Size(len(ids), int(load.counts[ids].max()), bool(load.coupled[ids].any())))

    def places(self, problems: StackedProblems) -> tuple[Array, Array]:
        """`padded_places` on the device."""
        ids, places = padded_places(self.ids, problems.P, self.size.M)
        numbers = send(problems.p, np.concatenate([ids, places]))
        return numbers[: self.size.M], numbers[self.size.M :]


def _solver(problems: StackedProblems, size: _Size) -> partial:
    """Return the function that solves the systems of a batch, from `Prepared` and the problems' numbers."""
    return partial(_solve_batch, problems, size.a, size.coupled)


def _roundings(largest: int, number: int) -> list[int]:
    """Return so many sizes up to the largest, evenly spread."""
    return sorted({-(-largest * i // number) for i in range(1, number + 1)})


def padded_places(ids: np.ndarray, P: int, M: int) -> tuple[np.ndarray, np.ndarray]:
    """Return M problems, those in ``ids`` first, and the place of each of P problems among them; M: it has none."""
    places = np.full(P, M)
    places[ids] = np.arange(len(ids))
    return np.concatenate([ids, np.full(M - len(ids), ids[0])]), places


def solve_padded(problems: StackedProblems, size: _Size, prepared: Prepared, ids: Array, places: Array) -> Step:
    """Solve the systems of some problems, of `padded_places`, and spread the solutions over all groups."""
    xp, (M, a, coupled) = problems.xp, size
    rows, db = _solve_batch(problems, a, coupled, prepared, ids)
    spread, places_ = prepared.spread, places[:, None]
    where = xp.where((spread >= 0) & (places_ < M), places_ * a + spread, M * a)
    return _spread(problems, _stacked([rows]), where, xp.take(_stacked([db]), places, axis=0))


def _solve_batches(problems: StackedProblems, batches: list[tuple[_Batch, Callable]], prepared: Prepared) -> Step:
    """Solve the systems of some problems, batch by batch, and spread the solutions over all groups."""
    xp = problems.xp
    P = problems.P
    pieces, first, row = [], np.full((2, P), -1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for batch, solve in batches:
        ids, (M, a, _) = batch.ids, batch.size
        everything = len(ids) == P and not is_on_gpu(prepared.root)  # what is recorded takes arrays alone
        some = None if everything else send(prepared.root, padded_places(ids, P, M)[0])
        pieces.append(solve(prepared, some))
        first[:, ids] = row[:, None] + np.array([[a], [1]]) * np.arange(len(ids))
        row += np.array([a * M, M])
    first = np.where(first < 0, row[:, None], first)
    starts = send(prepared.root, first)
    begin, nowhere = starts[0, :, None], int(row[0])
    where = xp.where((prepared.spread >= 0) & (begin < nowhere), begin + prepared.spread, nowhere)
    db = xp.take(_stacked([piece[1] for piece in pieces]), starts[1, :], axis=0)
    return _spread(problems, _stacked([piece[0] for piece in pieces]), where, db)


def _spread(problems: StackedProblems, rows: Array, where: Array, db: Array) -> Step:
    """Return the step from rows of groups, the row of each group (P, G), and what belongs to intercepts, (P, 2 T)."""
    xp, T = problems.xp, problems.T
    rows = xp.take(rows, xp.reshape(where, (-1,)), axis=0)
    dw, bent, tangent = (xp.reshape(rows, (problems.P, problems.G, 3, T, problems.r))[:, :, i, ...] for i in range(3))
    return Step(dw, bent, db[:, :T], Tangent(tangent, db[:, T:]))


def _stacked(pieces: list[Array]) -> Array:
    """Put rows one below the other, and a row of zeros last."""
    xp = namespace(pieces[0])
    return xp.concat([*pieces, xp.zeros_like(pieces[0][:1, ...])], axis=0)


def _batches(problems: StackedProblems, load: Load, room: int) -> list[np.ndarray]:
    """Cut the running problems into batches whose systems are of like size and fit in memory."""
    ids, counts = np.flatnonzero(load.running), load.counts
    ids = ids[np.argsort(-counts[ids], kind="stable")]
    parts = []
    while len(ids):
        largest = int(counts[ids[0]])
        length = min(len(ids), systems_at_once(room, problems.T, largest * problems.r, problems.n + problems.n_common))
        saved = np.arange(len(ids), 0, -1) * (largest - counts[ids]) * (problems.T * problems.r * problems.n)
        if saved.max() > _WORTH:
            length = min(length, int(np.argmax(saved)))
        parts.append(ids[:length])
        ids = ids[length:]
    return [np.sort(part) for part in parts]


def _solve_batch(
    problems: StackedProblems, a: int, coupled: bool, prepared: Prepared, ids: Array | None
) -> tuple[Array, Array]:
    """Solve the systems of some problems (None: all, in order) with at most a active groups.

    Returns rows (M a, 3 T r) of δw, what the Hessian of the loss makes of (δw, δb), and the tangent; and δb and the
    tangent of the intercepts, (M, 2 T).
    """
    xp = problems.xp
    T, r, n = problems.T, problems.r, problems.n
    m = a * r
    if ids is None:
        M, chosen = problems.P, lambda values: values
    else:
        M, chosen = ids.shape[0], lambda values: xp.take(values, ids, axis=0)
    gathered = xp.take(prepared.packed, xp.reshape(chosen(prepared.packed_rows)[:, :a], (-1,)), axis=0)
    gathered = xp.permute_dims(xp.reshape(gathered, (M, a, 5, T, r)), (2, 0, 3, 1, 4))
    gathered = xp.reshape(gathered, (5, M, T, m))
    scale, diagonal, direction, right, slope = (gathered[i, ...] for i in range(5))
    root = chosen(prepared.root)
    rows = xp.take(problems.rows, xp.reshape(chosen(prepared.trial_rows)[..., :a], (-1,)), axis=0)
    rows = xp.reshape(rows, (M, T, m, n)) * root[:, :, None, :]
    lean = None
    if problems.fit_intercept:
        signed = chosen(problems.y_of) * root
        against = xp.matmul(rows, signed[..., None])[..., 0]
        total = xp.sum(root**2, axis=-1, keepdims=True)
        total = xp.where(total > 0, total, 1.0)
        g_b = -chosen(prepared.pull_b)[..., None]
        lean = scale * against / xp.sqrt(total), signed / xp.sqrt(total)
        right = right + scale * against * (g_b / total)
    common = _columns_of_mean(problems, chosen, prepared, scale, a) if coupled else None
    metric = None
    if problems.root_rows is not None:
        weight = chosen(problems.own_curvature(prepared.similarity))[:, None, None, None]
        metric = weight * _active_metric(problems, chosen, prepared, a)
    matrix = _Matrix(rows, metric, scale, diagonal, direction, lean, common)
    solve = _solve_through_trials if _is_through_trials(problems, m) else _solve
    solved, bent = solve(problems, matrix, xp.stack([right, slope], axis=-1))
    dw, tangent = solved[..., 0], solved[..., 1]
    db = xp.zeros_like(solved[..., 0, :])
    if problems.fit_intercept:
        g_b = xp.concat([g_b, xp.zeros_like(g_b)], axis=-1)
        db = (-g_b - xp.sum(against[..., None] * solved, axis=-2)) / total
        bent = bent + against * db[..., :1]
    rows = xp.reshape(xp.stack([dw, bent, tangent], axis=1), (M, 3, T, a, r))
    rows = xp.reshape(xp.permute_dims(rows, (0, 3, 1, 2, 4)), (M * a, 3 * T * r))
    return rows, xp.reshape(xp.matrix_transpose(db), (M, 2 * T))


def _columns_of_mean(problems: StackedProblems, chosen: Callable, prepared: Prepared, scale: Array, a: int) -> Array:
    """What couples subjects through their mean: √(2 similarity / T) R_t' on at most a active groups, (M, T, m, c).

    Times the scale R of the coordinates. Without a metric that is diagonal, (M, T, m).
    """
    xp, T, m = problems.xp, problems.T, a * problems.r
    weight = xp.sqrt(2 * chosen(prepared.similarity) / T)[:, None, None]
    if problems.root_rows is None:
        return weight * scale
    roots = xp.reshape(problems.root_rows, (problems.B * T * (problems.G + 1), -1))
    columns = xp.take(roots, xp.reshape(chosen(prepared.trial_rows)[..., :a], (-1,)), axis=0)
    return (weight * scale)[..., None] * xp.reshape(columns, (-1, T, m, problems.root_rows.shape[-1]))


def _active_metric(problems: StackedProblems, chosen: Callable, prepared: Prepared, a: int) -> Array:
    """N_t on at most a active groups of some problems, (M, T, m, m)."""
    xp, T, r = problems.xp, problems.T, problems.r
    rows = chosen(prepared.trial_rows)[..., :a]
    pairs = rows[..., :, None] * (problems.G + 1) + (rows - chosen(problems.first_rows)[..., None])[..., None, :]
    blocks = xp.take(problems.metric_blocks, xp.reshape(pairs, (-1,)), axis=0)
    blocks = xp.permute_dims(xp.reshape(blocks, (-1, a, a, r, r)), (0, 1, 3, 2, 4))
    return xp.reshape(blocks, (-1, T, a * r, a * r))


class _Matrix(NamedTuple):
    """blockdiag_t(R (Z (I − u u')Z' + N) R + diagonal) − Σ_g k_g k_g' − common common', R = diag(scale).

    Attributes
    ----------
    rows : array of shape (M, T, m, n)
        Z, the trials times √(2p) of those inside the margin.
    metric : array of shape (M, T, m, m), or None
        N, the curvature of similarity and ridge term where there is a metric.
    scale, diagonal, direction : arrays of shape (M, T, m)
        k_g is the direction on group g, over all subjects.
    lean : pair of arrays of shapes (M, T, m) and (M, T, n), or None
        R Z u and u, of length 1: eliminating the intercepts leaves −R Z u u'Z'R.
    common : array of shape (M, T, m, c) or (M, T, m), or None
        What couples subjects through their mean; a diagonal matrix in the second case.
    """

    rows: Array
    metric: Array | None
    scale: Array
    diagonal: Array
    direction: Array
    lean: tuple[Array, Array] | None
    common: Array | None


def _solve(problems: StackedProblems, matrix: _Matrix, right: Array) -> tuple[Array, Array]:
    """Solve a batch of systems with right-hand sides (M, T, m, k); return R x, and Z Z' times the first of them.

    One subject: all in one matrix. Several: one matrix each; what couples them by a Schur complement.
    """
    xp = problems.xp
    hessian = S = xp.matmul(matrix.rows, xp.matrix_transpose(matrix.rows))
    if matrix.metric is not None:
        S = S + matrix.metric
    if _is_scaled(problems):
        S = S * matrix.scale[..., :, None] * matrix.scale[..., None, :]
    directions = _directions(problems, matrix.direction)
    columns = [] if matrix.lean is None else [matrix.lean[0][..., None]]
    if problems.T == 1 and directions is not None:
        columns.append(directions)
    S = less_square(S, columns) if columns else xp.asarray(S, copy=True)
    S = add_to_diagonal(S, matrix.diagonal)
    if problems.T == 1:
        solved = solve_posdef(S, right)
    else:
        solved = solve_coupled(FactorisedBlocks(S), directions, matrix.common, right)
    solved = matrix.scale[..., None] * solved
    return solved, xp.matmul(hessian, solved[..., :1])[..., 0]


def _solve_through_trials(problems: StackedProblems, matrix: _Matrix, right: Array) -> tuple[Array, Array]:
    """As `_solve`, by matrices of the size of the trials of a subject."""
    xp, rows = problems.xp, matrix.rows
    Z = matrix.scale[..., None] * rows if _is_scaled(problems) else rows
    if matrix.lean is not None:
        Z = Z - matrix.lean[0][..., None] * matrix.lean[1][:, :, None, :]
    blocks = BlocksThroughTrials(matrix.diagonal, Z)
    solved = solve_coupled(blocks, _directions(problems, matrix.direction), matrix.common, right)
    solved = matrix.scale[..., None] * solved
    return solved, xp.matmul(rows, xp.matmul(xp.matrix_transpose(rows), solved[..., :1]))[..., 0]


def _is_through_trials(problems: StackedProblems, m: int) -> bool:
    """Whether systems of several subjects with m coordinates each are solved through the trials.

    Not with a metric, nor where coordinates may have no curvature but that of the trials and the damping: the
    unpenalised ones, and those of an ℓ1 norm.
    """
    if problems.T == 1 or problems.root_rows is not None or problems.has_free or problems.single_atoms:
        return False
    return m >= THROUGH_TRIALS_OF_SUBJECTS * problems.n


def _is_scaled(problems: StackedProblems) -> bool:
    """Whether the scale of coordinates is anything but 1, or 0 where all trials are zero."""
    return is_between(problems.q) or (problems.single_atoms and problems.T > 1)


def _directions(problems: StackedProblems, direction: Array) -> Array | None:
    """Return k_g of every group in a column of its own, (M, T, m, a); None where the penalty has none."""
    if not problems.penalty.is_norm or problems.single_atoms:
        return None
    xp, (M, T, m) = problems.xp, direction.shape
    a = m // problems.r
    unit = xp.eye(a, dtype=direction.dtype, device=direction.device)[:, None, :]
    return xp.reshape(xp.reshape(direction, (M, T, a, problems.r, 1)) * unit, (M, T, m, a))
