"""The linear systems of a Newton step of all problems, reduced to their active groups and solved in batches.

The active groups of a problem come first, so that all systems of a batch have the size of its largest; what is left
over is a group of zeros with the identity on the diagonal. `mixnorm.solvers.newton.host.system` has the matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from mixnorm.core.arrays import Array, is_torch_array, like, namespace
from mixnorm.solvers.newton.batched.linalg import add_to_diagonal, solve_coupled, solve_posdef
from mixnorm.solvers.newton.batched.memory import systems_at_once
from mixnorm.solvers.newton.batched.problems import StackedProblems
from mixnorm.solvers.newton.batched.recorded import Recorded
from mixnorm.solvers.newton.batched.state import Prepared, Step

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
        self._recorded: dict[tuple[int, int], Recorded] = {}
        self._pool: list = []
        self._sent: tuple[bytes, tuple[Array, Array]] = (b"", (None, None))

    def plan(self, load: Load) -> Callable[[Prepared], Step]:
        """Return a function that solves the systems of the running problems; the steps of the others are zero.

        Made before the step is prepared, since a device that has work to do keeps what is sent to it waiting.
        """
        problems = self._problems
        batches = _batches(problems, load, self._room)
        if len(batches) == 1 and problems.T == 1 and is_torch_array(problems.p) and problems.p.is_cuda:
            M = next(size for size in _roundings(problems.P, _BATCHES) if size >= len(batches[0]))
            most = int(load.counts[batches[0]].max())
            a = next(size for size in _roundings(problems.G, _SIZES) if size >= most)
            if self._fits(M, a):
                return self._replay((M, a), *self._send(batches[0], M))
        return partial(_solve_batches, problems, load, batches)

    def _fits(self, M: int, a: int) -> bool:
        """Whether M problems with a active groups can be solved at once, and be recorded."""
        problems = self._problems
        m = a * problems.r
        return m <= _LARGEST_RECORDED and systems_at_once(self._room, 1, m, problems.n) >= M

    def _send(self, ids: np.ndarray, M: int) -> tuple[Array, Array]:
        """Return `padded_places` on the device; the same problems run for many steps, and are sent once."""
        numbers = np.concatenate(padded_places(ids, self._problems.P, M))
        if self._sent[0] != numbers.tobytes():
            there = like(self._problems.p, numbers, dtype=self._problems.xp.int64)
            self._sent = numbers.tobytes(), (there[:M], there[M:])
        return self._sent[1]

    def _replay(self, size: tuple[int, int], ids: Array, places: Array) -> Callable:
        if size not in self._recorded:
            self._recorded[size] = Recorded(partial(solve_padded, self._problems, size[1]), self._pool)
        return lambda prepared: self._recorded[size](prepared, ids, places)


def _roundings(largest: int, number: int) -> list[int]:
    """Return so many sizes up to the largest, evenly spread."""
    return sorted({-(-largest * i // number) for i in range(1, number + 1)})


def padded_places(ids: np.ndarray, P: int, M: int) -> tuple[np.ndarray, np.ndarray]:
    """Return M problems, those in ``ids`` first, and the place of each of P problems among them; M: it has none."""
    places = np.full(P, M)
    places[ids] = np.arange(len(ids))
    return np.concatenate([ids, np.full(M - len(ids), ids[0])]), places


def solve_padded(problems: StackedProblems, a: int, prepared: Prepared, ids: Array, places: Array) -> Step:
    """Solve the systems of some problems of one subject with at most a active groups, of `padded_places`."""
    xp = problems.xp
    M = ids.shape[0]
    rows, db = _solve_batch(problems, prepared, ids, a, False)
    flat = xp.concat([rows, xp.zeros_like(rows[:1, :])], axis=0)
    spread, places_ = prepared.spread, places[:, None]
    where = xp.where((spread >= 0) & (places_ < M), places_ * a + spread, M * a)
    steps = xp.take(flat, xp.reshape(where, (-1,)), axis=0)
    steps = xp.reshape(steps, (problems.P, problems.G, 2, 1, problems.r))
    db = xp.take(xp.concat([db, xp.zeros_like(db[:1, :])], axis=0), places, axis=0)
    return Step(steps[:, :, 0, ...], steps[:, :, 1, ...], db)


def _solve_batches(problems: StackedProblems, load: Load, batches: list, prepared: Prepared) -> Step:
    """Solve the systems of some problems, batch by batch, and spread the solutions over all groups."""
    xp = problems.xp
    P, G, T, r = problems.P, problems.G, problems.T, problems.r
    pieces, first, row = [], np.full((2, P), -1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for ids in batches:
        a = int(load.counts[ids].max())
        coupled = bool(load.coupled[ids].any())
        some = None if len(ids) == P else like(prepared.root, ids, dtype=xp.int64)
        pieces.append(_solve_batch(problems, prepared, some, a, coupled))
        first[:, ids] = row[:, None] + np.array([[a], [1]]) * np.arange(len(ids))
        row += np.array([a * len(ids), len(ids)])
    first = np.where(first < 0, row[:, None], first)
    starts = like(prepared.root, first, dtype=xp.int64)
    begin, nowhere = starts[0, :, None], int(row[0])
    where = xp.where((prepared.spread >= 0) & (begin < nowhere), begin + prepared.spread, nowhere)
    steps = _stacked([piece[0] for piece in pieces])
    steps = xp.reshape(xp.take(steps, xp.reshape(where, (-1,)), axis=0), (P, G, 2, T, r))
    db = xp.take(_stacked([piece[1] for piece in pieces]), starts[1, :], axis=0)
    return Step(steps[:, :, 0, ...], steps[:, :, 1, ...], db)


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
    problems: StackedProblems, prepared: Prepared, ids: Array | None, a: int, coupled: bool
) -> tuple[Array, Array]:
    """Solve the systems of some problems (None: all, in order) with at most a active groups.

    Returns rows (M a, 2 T r) of δw and what the Hessian of the loss makes of (δw, δb); and δb, (M, T).
    """
    xp = problems.xp
    T, r, n = problems.T, problems.r, problems.n
    m = a * r
    if ids is None:
        M, chosen = problems.P, lambda values: values
    else:
        M, chosen = ids.shape[0], lambda values: xp.take(values, ids, axis=0)
    gathered = xp.take(prepared.packed, xp.reshape(chosen(prepared.packed_rows)[:, :a], (-1,)), axis=0)
    gathered = xp.permute_dims(xp.reshape(gathered, (M, a, 4, T, r)), (2, 0, 3, 1, 4))
    gathered = xp.reshape(gathered, (4, M, T, m))
    scale, diagonal, direction, right = (gathered[i, ...] for i in range(4))
    root = chosen(prepared.root)
    rows = xp.take(problems.rows, xp.reshape(chosen(prepared.trial_rows)[..., :a], (-1,)), axis=0)
    rows = xp.reshape(rows, (M, T, m, n)) * root[:, :, None, :]
    hessian = xp.matmul(rows, xp.matrix_transpose(rows))
    scaled = 1 < problems.q < 2 or (problems.single_atoms and T > 1)
    S = hessian
    if problems.root_rows is not None:
        weight = chosen(problems.own_curvature(prepared.similarity))[:, None, None, None]
        S = S + weight * _active_metric(problems, chosen, prepared, a)
    S = S * scale[..., :, None] * scale[..., None, :] if scaled else S
    lean = None
    if problems.fit_intercept:
        against = xp.matmul(rows, (chosen(problems.y_of) * root)[..., None])[..., 0]
        total = xp.sum(root**2, axis=-1, keepdims=True)
        total = xp.where(total > 0, total, 1.0)
        g_b = -chosen(prepared.pull_b)[..., None]
        seen = scale * against if scaled else against
        lean = seen / xp.sqrt(total)
        right = right + seen * (g_b / total)
    common = None
    if coupled:
        common = scale[..., None] * _columns_of_mean(problems, chosen, prepared, a)
    dw = _solve(problems, _Matrix(S, diagonal, direction, lean, common), right)
    dw = scale * dw if scaled else dw
    bent = xp.matmul(hessian, dw[..., None])[..., 0]
    db = xp.zeros_like(dw[..., 0])
    if problems.fit_intercept:
        db = ((-g_b - xp.sum(against * dw, axis=-1, keepdims=True)) / total)[..., 0]
        bent = bent + against * db[..., None]
    both = xp.reshape(xp.stack([dw, bent], axis=1), (M, 2, T, a, r))
    return xp.reshape(xp.permute_dims(both, (0, 3, 1, 2, 4)), (M * a, 2 * T * r)), db


def _columns_of_mean(problems: StackedProblems, chosen: Callable, prepared: Prepared, a: int) -> Array:
    """√(2 similarity / T) R_t' on at most a active groups, (M, T, m, c): what couples subjects through their mean."""
    xp, T, m = problems.xp, problems.T, a * problems.r
    if problems.root_rows is None:
        columns = xp.eye(m, dtype=prepared.root.dtype, device=prepared.root.device)
    else:
        roots = xp.reshape(problems.root_rows, (problems.B * T * (problems.G + 1), -1))
        columns = xp.take(roots, xp.reshape(chosen(prepared.trial_rows)[..., :a], (-1,)), axis=0)
        columns = xp.reshape(columns, (-1, T, m, problems.root_rows.shape[-1]))
    return xp.sqrt(2 * chosen(prepared.similarity) / T)[:, None, None, None] * columns


def _active_metric(problems: StackedProblems, chosen: Callable, prepared: Prepared, a: int) -> Array:
    """N_t on at most a active groups of some problems, (M, T, m, m)."""
    xp, T, r = problems.xp, problems.T, problems.r
    rows = chosen(prepared.trial_rows)[..., :a]
    pairs = rows[..., :, None] * (problems.G + 1) + (rows - chosen(problems.first_rows)[..., None])[..., None, :]
    blocks = xp.take(problems.metric_blocks, xp.reshape(pairs, (-1,)), axis=0)
    blocks = xp.permute_dims(xp.reshape(blocks, (-1, a, a, r, r)), (0, 1, 3, 2, 4))
    return xp.reshape(blocks, (-1, T, a * r, a * r))


class _Matrix(NamedTuple):
    """blockdiag_t(S_t + diagonal_t − lean_t lean_t') − Σ_g k_g k_g' − common common', k_g = direction on group g.

    S (M, T, m, m), the others (M, T, m); common (M, T, m, c), what couples subjects through their mean, or None; lean
    is what eliminating the intercepts leaves, or None.
    """

    S: Array
    diagonal: Array
    direction: Array
    lean: Array | None
    common: Array | None


def _solve(problems: StackedProblems, matrix: _Matrix, right: Array) -> Array:
    """Solve a batch of systems with right-hand sides (M, T, m)."""
    xp = problems.xp
    M, T, m = right.shape
    a = m // problems.r
    S, diagonal, direction, lean, common = matrix
    lean = [] if lean is None else [lean[..., None]]
    directions = []
    if problems.penalty.is_norm and problems.q > 1:
        unit = xp.eye(a, dtype=S.dtype, device=S.device)[:, None, :]
        directions = [xp.reshape(xp.reshape(direction, (M, T, a, problems.r, 1)) * unit, (M, T, m, a))]
    # One subject: all in one matrix. Several: one matrix each; what couples them by a Schur complement.
    columns = lean + directions if T == 1 else lean
    S = S - _square(columns) if columns else xp.asarray(S, copy=True)
    S = add_to_diagonal(S, diagonal)
    if T == 1:
        return solve_posdef(S, right[..., None])[..., 0]
    if common is not None:
        directions.append(common)
    return solve_coupled(S, directions, right)


def _square(columns: list[Array]) -> Array:
    xp = namespace(columns[0])
    V = xp.concat(columns, axis=-1) if len(columns) > 1 else columns[0]
    return xp.matmul(V, xp.matrix_transpose(V))
