"""All problems of a stack in one layout, as the batched engine uses them.

P = B K problems come first, then G groups, T subjects and r features of a group (zero-padded): coefficients are
(P, G, T, r), so that a group over all subjects is one contiguous block. An *atom* is what is zero or not as a
whole: a group over all subjects, or with ℓ1 a single coefficient (then G = d, r = 1 and there are G T atoms).
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from mixnorm.core.arrays import Array, like, positive_part
from mixnorm.core.groups import Groups
from mixnorm.core.lq_prox import n_joint_steps
from mixnorm.core.penalties import L1, is_between, vector_norm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.batched.recorded import WithoutFills
from mixnorm.solvers.newton.tuning import BATCHED, ENTRY_LENGTHS

#: Least diagonal of the Hessian of a feature that is zero in all trials of a subject, as a share of the largest one.
_LEAST_BEND = 1e-12


class Point(NamedTuple):
    """A point of every problem: W (P, G, T, r), b (P, T), and Z w of every trial, (P, T, n)."""

    W: Array
    b: Array
    Zw: Array


class Look(NamedTuple):
    """Everything at a point that does not depend on alpha and similarity.

    Attributes
    ----------
    a : array of shape (P, T, n)
    pull : array of shape (P, G, T, r)
        Minus the gradient of the mean loss and the ridge term.
    pull_b : array of shape (P, T)
        The same for the intercepts; 0 without.
    loss, spread, penalty : arrays of shape (P,)
        Mean loss plus ridge term, Σ‖v_t − v̄‖², and the penalty at alpha = 1.
    toward : array of shape (P,)
        ⟨v − c, c⟩ where there is a centre c, else 0.
    mapped_back : array of shape (P, G, T, r)
        R_t'(v_t − v̄), without a metric w_t − w̄.
    norms : array of shape (P, atoms)
    """

    a: Array
    pull: Array
    pull_b: Array
    loss: Array
    spread: Array
    penalty: Array
    toward: Array
    mapped_back: Array
    norms: Array


class StackedProblems:
    """The B × K problems of a stack; see the module's docstring."""

    def __init__(self, stack: Stack):
        self.xp = xp = WithoutFills.of(stack.X)
        self.B, self.T, self.n, d, self.K = stack.shape
        self.P = self.B * self.K
        self.fit_intercept, self.loss = stack.fit_intercept, stack.loss
        penalty = stack.penalty
        is_l1 = not is_between(penalty.q) and penalty.q == 1
        self.single_atoms = penalty.is_norm and (is_l1 or self.T * int(stack.groups.sizes.max()) == 1)
        self.penalty = L1() if self.single_atoms else penalty
        self._features = Groups.from_labels(None, d) if self.single_atoms else stack.groups
        self.G, self.r = self._features.n_groups, int(self._features.sizes.max())
        beta = stack.group_weights
        if self.single_atoms:
            beta = xp.take(beta, like(beta, stack.groups.index, dtype=xp.int64), axis=1)
        beta = self._problems_first(beta, self.G)
        #: β of every atom, (P, atoms)
        self.beta = xp.reshape(self._over_subjects(beta), (self.P, -1)) if self.single_atoms else beta
        self.has_free = stack.has_unpenalised
        self.similar = stack.has_similarity
        #: strength of ½ Σ‖v_t‖², (P,); None without
        self.ridge: Array = None if stack.ridge is None else self.xp.reshape(stack.ridge, (self.P,))
        #: None without a metric
        self.root_rows: Array = None if stack.metric is None else self._root_rows(stack.metric.roots())
        self.center = None
        if stack.center is not None:
            mapped = stack.metric is not None
            self.center = self.per_problem(stack.center)[:, None, ...] if mapped else self.slots(stack.center)
        self._set_orders()
        self.y = stack.y
        self.p = self.per_problem(stack.trial_weight)
        self.y_of = xp.reshape(self._repeat_over_columns(stack.y), (self.P, self.T, self.n))
        self.Z = self._signed_rows(stack)
        self._constants()

    def _set_orders(self) -> None:
        """Set q: a number, or (P, atoms) where problems differ in it; and the steps of its prox for 1 < q < 2."""
        q = self.penalty.q
        self.q, self.n_prox_steps = q, 0
        if is_between(q):
            self.n_prox_steps = n_joint_steps(float(np.min(q)))
        if isinstance(q, np.ndarray):
            self.q = like(self.beta, np.repeat(q.reshape(-1, 1), self.beta.shape[1], axis=1))

    def orders(self, blocks: Array) -> Array:
        """Return q in a shape that broadcasts with blocks of atoms (P, ..., atoms, size, 1)."""
        if isinstance(self.q, int | float):
            return self.q
        return self.xp.reshape(self.q[:, :1], (self.P, *(1,) * (blocks.ndim - 1)))

    def _constants(self) -> None:
        """Compute everything that does not change from step to step."""
        xp = self.xp
        self.free = self.beta == 0
        self.penalised = (self.beta > 0) & xp.isfinite(self.beta)
        #: β where it is positive and finite, and elsewhere 1, or 0
        self.safe_beta = xp.where(self.penalised, self.beta, 1.0)
        self.finite_beta = xp.where(self.penalised, self.beta, 0.0)
        weight = 2 * xp.sum(self.p, axis=2)
        self.subject_weight = xp.where(weight > 0, weight, 1.0)
        self.root_weight = xp.sqrt(2 * self.p)
        bend = 2 * self._against(self.p, self._matrix**2)
        #: which slots hold a feature that the objective depends on: by trials or metric, or by similarity and ridge
        self.real = bend > 1e-300
        if self.root_rows is not None:
            self.real = self.real | (self._stiffnesses > 0)
        elif self.similar or self.ridge is not None:
            shape = self.B, self.T, self._features.n_features, self.K
            self.real = self.real | (self.slots(xp.ones(shape, dtype=bend.dtype, device=bend.device)) > 0)
        #: diagonal of the Hessian with all trials inside the margin, (P, G, T, r), and its sum over each atom; not
        #: zero, so that a damped matrix is positive definite
        least = _LEAST_BEND * xp.max(bend, axis=(1, 2, 3), keepdims=True)
        self.bend = xp.where(bend > 1e-300, bend, xp.where(self.real & (least > 1e-300), least, 1e-300))
        self.trace = xp.sum(self.blocks(self.bend), axis=-1)
        #: trace of the similarity term's curvature on every atom at similarity 1/2: its size, or that of N_t
        self.atom_size = 1 if self.single_atoms else self.T * self.r
        if self.root_rows is not None:
            self.atom_size = xp.sum(self.blocks(self._stiffnesses), axis=-1)
        #: columns that couple subjects compared by a metric, beside those of their active coordinates
        self.n_common = 0 if self.root_rows is None else self.root_rows.shape[-1]
        self.range_P, self.range_G = (xp.arange(size, device=self.p.device) for size in (self.P, self.G))
        self.range_atoms = xp.arange(self.beta.shape[1], device=self.p.device)
        subjects = xp.arange(self.T, device=self.p.device)
        #: first row of every problem and subject in `rows`
        self.first_rows = ((self.range_P // self.K)[:, None] * self.T + subjects[None, :]) * (self.G + 1)
        padding = np.zeros((1, 5, self.T * self.r))
        padding[:, 1] = 1.0
        self.no_group = xp.reshape(like(self.p, padding), (1, -1))
        self.lengths, self.entry_lengths = like(self.p, BATCHED.lengths), like(self.p, ENTRY_LENGTHS)
        self.damping_factors = like(self.p, BATCHED.damping_factors)

    # Layout.

    def per_problem(self, values: Array) -> Array:
        """Return (B, T, x, K) as (P, T, x)."""
        xp = self.xp
        return xp.reshape(xp.permute_dims(values, (0, 3, 1, 2)), (self.P, self.T, -1))

    def _problems_first(self, values: Array, size: int) -> Array:
        """Return (B, size, K) as (P, size)."""
        return self.xp.reshape(self.xp.permute_dims(values, (0, 2, 1)), (self.P, size))

    def _over_subjects(self, values: Array) -> Array:
        """Repeat (P, G) for every subject, (P, G, T)."""
        return values[:, :, None] + self.xp.zeros((1, 1, self.T), dtype=values.dtype, device=values.device)

    def _repeat_over_columns(self, values: Array) -> Array:
        """Repeat (B, T, n) for every column, (B, K, T, n)."""
        return values[:, None, ...] + self.xp.zeros((1, self.K, 1, 1), dtype=values.dtype, device=values.device)

    def _signed_rows(self, stack: Stack) -> Array:
        """Rows of trials times labels, (B, T, G + 1, r, n); the last group is all zero, for padding."""
        xp = self.xp
        Zt = xp.matrix_transpose(stack.X * stack.y[..., None])
        if not self._features.is_reshape:
            Zt = xp.concat([Zt, xp.zeros_like(Zt[:, :, :1, :])], axis=2)
            Zt = xp.take(Zt, like(Zt, self._features.sources, dtype=xp.int64), axis=2)
        Zt = xp.reshape(Zt, (self.B, self.T, self.G, self.r, self.n))
        return xp.concat([Zt, xp.zeros_like(Zt[:, :, :1, ...])], axis=2)

    def _root_rows(self, roots: Array) -> Array:
        """Rows R_t' of every group, (B, T, G + 1, r, d); the last group is all zero, for padding."""
        xp = self.xp
        rows = xp.matrix_transpose(roots)
        if not self._features.is_reshape:
            rows = xp.concat([rows, xp.zeros_like(rows[:, :, :1, :])], axis=2)
            rows = xp.take(rows, like(rows, self._features.sources, dtype=xp.int64), axis=2)
        rows = xp.reshape(rows, (self.B, self.T, self.G, self.r, -1))
        return xp.concat([rows, xp.zeros_like(rows[:, :, :1, ...])], axis=2)

    @cached_property
    def _transposed_roots(self) -> Array:
        """R_t' on slots, (B, T, G r, d)."""
        return self.xp.reshape(self.root_rows[:, :, : self.G, ...], (self.B, self.T, self.G * self.r, -1))

    @property
    def _stiffnesses(self) -> Array:
        """The diagonal of N_t for every problem, (P, G, T, r)."""
        xp = self.xp
        diagonal = xp.reshape(xp.sum(self._transposed_roots**2, axis=-1), (self.B, 1, self.T, self.G, self.r))
        diagonal = diagonal + xp.zeros((1, self.K, 1, 1, 1), dtype=diagonal.dtype, device=diagonal.device)
        return xp.permute_dims(xp.reshape(diagonal, (self.P, self.T, self.G, self.r)), (0, 2, 1, 3))

    @cached_property
    def metric_blocks(self) -> Array:
        """N_t for every pair of groups, (B T (G + 1)², r²); the last group is all zero, for padding."""
        xp, G, r = self.xp, self.G + 1, self.r
        rows = xp.reshape(self.root_rows, (self.B * self.T, G * r, -1))
        metric = xp.reshape(xp.matmul(rows, xp.matrix_transpose(rows)), (-1, G, r, G, r))
        return xp.reshape(xp.permute_dims(metric, (0, 1, 3, 2, 4)), (-1, r * r))

    def slots(self, W: Array) -> Array:
        """Return coefficients (B, T, d, K) as (P, G, T, r)."""
        xp = self.xp
        W = xp.permute_dims(W, (0, 3, 1, 2))[..., None]
        blocks = self._features.to_blocks(W)[..., 0]
        return xp.reshape(blocks, (self.P, self.G, self.T, self.r))

    def coefficients(self, slots: Array) -> Array:
        """Return slots (A, P, G, T, r) as coefficients (A, B, T, d, K)."""
        xp = self.xp
        A = slots.shape[0]
        blocks = xp.reshape(slots, (A * self.P, self.G, self.T * self.r, 1))
        W = self._features.from_blocks(blocks, self.T)
        return xp.permute_dims(xp.reshape(W, (A, self.B, self.K, self.T, -1)), (0, 1, 3, 4, 2))

    def blocks(self, slots: Array) -> Array:
        """Return slots (..., G, T, r) as blocks of atoms (..., atoms, size), for the penalty."""
        lead = slots.shape[:-3]
        size = 1 if self.single_atoms else self.T * self.r
        return self.xp.reshape(slots, (*lead, -1, size))

    def of_atoms(self, values: Array) -> Array:
        """Return values of atoms (P, atoms) in a shape that broadcasts with slots (P, G, T, r)."""
        shape = (self.P, self.G, self.T, 1) if self.single_atoms else (self.P, self.G, 1, 1)
        return self.xp.reshape(values, shape)

    def groups_with(self, atoms: Array) -> Array:
        """Return which groups hold any of some atoms, (P, G) from (P, atoms)."""
        return self.xp.any(self.xp.reshape(atoms, (self.P, self.G, self.T)), axis=2) if self.single_atoms else atoms

    # Products with the trials.

    @cached_property
    def _matrix(self) -> Array:
        flat = self.xp.reshape(self.Z, (self.B, self.T, (self.G + 1) * self.r, self.n))
        return flat[:, :, : self.G * self.r, :]

    def scores(self, W: Array) -> Array:
        """Z w of several points of every problem: (P, L, G, T, r) → (P, L, T, n)."""
        return self._along(W, self._matrix)

    def _along(self, W: Array, matrix: Array) -> Array:
        """Several points (P, L, G, T, r) times matrices (B, T, G r, x): (P, L, T, x)."""
        xp = self.xp
        L = W.shape[1]
        V = xp.permute_dims(xp.reshape(W, (self.B, self.K * L, self.G, self.T, self.r)), (0, 3, 1, 2, 4))
        found = xp.matmul(xp.reshape(V, (self.B, self.T, self.K * L, -1)), matrix)
        return xp.reshape(xp.permute_dims(found, (0, 2, 1, 3)), (self.P, L, self.T, -1))

    def pull(self, a: Array) -> Array:
        """Z'a: (P, T, n) → (P, G, T, r)."""
        return self._against(a, self._matrix)

    def _against(self, a: Array, matrix: Array) -> Array:
        xp = self.xp
        V = xp.permute_dims(xp.reshape(a, (self.B, self.K, self.T, -1)), (0, 2, 1, 3))
        found = xp.matmul(V, xp.matrix_transpose(matrix))
        found = xp.reshape(found, (self.B, self.T, self.K, self.G, self.r))
        return xp.reshape(xp.permute_dims(found, (0, 2, 3, 1, 4)), (self.P, self.G, self.T, self.r))

    @property
    def rows(self) -> Array:
        """Rows of the trials of every data set, subject and group, (B T (G + 1), r n)."""
        return self.xp.reshape(self.Z, (self.B * self.T * (self.G + 1), self.r * self.n))

    def columns(self, atoms: Array) -> Array:
        """Trials of some single coefficients (P, k) of every problem, weighted and of length 1, (P, k, T n).

        Coefficients of different subjects have no trials in common.
        """
        xp = self.xp
        group, subject = atoms // self.T, atoms % self.T
        rows = xp.take_along_axis(self.first_rows, subject, axis=1) + group
        values = xp.reshape(xp.take(self.rows, xp.reshape(rows, (-1,)), axis=0), (*atoms.shape, 1, self.n))
        own = xp.astype(subject[..., None] == xp.arange(self.T, device=atoms.device), values.dtype)
        values = xp.reshape(values * own[..., None] * self.root_weight[:, None, ...], (*atoms.shape, -1))
        size = xp.sqrt(xp.sum(values**2, axis=-1, keepdims=True))
        return values / xp.where(size > 0, size, 1.0)

    # What is minimised.

    def margins(self, Zw: Array, b: Array) -> Array:
        """Margins (P, ..., T, n) from Z w and b (P, ..., T)."""
        y = self.y_of if Zw.ndim == 3 else self.y_of[:, None, ...]
        return Zw + y * b[..., None]

    def deviation(self, W: Array) -> Array:
        """v_t less the centre or the mean over subjects, (..., G, T, r), or with a metric (..., 1, T, D)."""
        V = self._mapped(W)
        if self.center is None:
            return V - self.xp.mean(V, axis=-2, keepdims=True)
        return V - (self.center if V.ndim == 4 else self.center[:, None, ...])

    def spread(self, direction: Array) -> Array:
        """The change of the deviation along a direction."""
        change = self._mapped(direction)
        return change - self.xp.mean(change, axis=-2, keepdims=True) if self.center is None else change

    def _mapped(self, W: Array) -> Array:
        """R_t w_t of one point or several of every problem: (P, ..., G, T, r) → (P, ..., 1, T, d)."""
        if self.root_rows is None:
            return W
        V = self._along(W if W.ndim == 5 else W[:, None, ...], self._transposed_roots)
        return V[:, :, None, ...] if W.ndim == 5 else V

    def mapped_back(self, deviation: Array) -> Array:
        """R_t' times the deviation of one point of every problem, (P, G, T, r): half the gradient of its square."""
        return deviation if self.root_rows is None else self._against(deviation[:, 0, ...], self._transposed_roots)

    def penalty_value(self, W: Array) -> Array:
        """Penalty at alpha = 1 of points (P, ..., G, T, r), (P, ...)."""
        return self._penalty_of(self.norms(W))

    def _penalty_of(self, norms: Array) -> Array:
        """Penalty at alpha = 1 from the norms of atoms (P, ..., atoms); those of infinite weight are zero."""
        weight = self.finite_beta if norms.ndim == 2 else self.finite_beta[:, None, :]
        return self.xp.sum(weight * (norms if self.penalty.is_norm else norms**2 / 2), axis=-1)

    def value(self, point: Point, alpha: Array, similarity: Array) -> Array:
        """Objective at L points of every problem, (P, L): W (P, L, G, T, r)."""
        xp = self.xp
        loss = self.loss.value(self.margins(point.Zw, point.b))
        value = xp.sum(self.p[:, None, ...] * loss, axis=(2, 3)) + alpha[:, None] * self.penalty_value(point.W)
        if self.similar:
            value = value + similarity[:, None] * xp.sum(self.deviation(point.W) ** 2, axis=(2, 3, 4))
        if self.ridge is not None:
            value = value + self.ridge[:, None] / 2 * xp.sum(self._mapped(point.W) ** 2, axis=(2, 3, 4))
        return value

    def ridge_gradient(self, W: Array) -> Array:
        """Ridge R_t'R_t w_t of one point of every problem, (P, G, T, r); there must be a ridge term."""
        return self.ridge[:, None, None, None] * self.mapped_back(self._mapped(W))

    def own_curvature(self, similarity: Array) -> Array:
        """What similarity and ridge term add to the Hessian of every subject, times N_t, (P,)."""
        return 2 * similarity if self.ridge is None else 2 * similarity + self.ridge

    def look(self, point: Point) -> Look:
        """Look at the whole of every problem at a point."""
        xp = self.xp
        margins = self.margins(point.Zw, point.b)
        short = positive_part(1 - margins)
        a = 2 * self.p * short
        pull_b = xp.sum(a * self.y_of, axis=2) if self.fit_intercept else xp.zeros_like(point.b)
        loss = xp.sum(a * short, axis=(1, 2)) / 2
        mapped_back, spread, toward = xp.zeros_like(point.W), xp.zeros_like(loss), xp.zeros_like(loss)
        if self.similar:
            deviation = self.deviation(point.W)
            mapped_back, spread = self.mapped_back(deviation), xp.sum(deviation**2, axis=(1, 2, 3))
            if self.center is not None:
                toward = xp.sum(deviation * self.center, axis=(1, 2, 3))
        pull, norms = self.pull(a), self.norms(point.W)
        if self.ridge is not None:
            slope = self.ridge_gradient(point.W)
            pull, loss = pull - slope, loss + xp.sum(slope * point.W, axis=(1, 2, 3)) / 2
        return Look(a, pull, pull_b, loss, spread, self._penalty_of(norms), toward, mapped_back, norms)

    def norms(self, W: Array) -> Array:
        """‖·‖_q of every atom of points (P, ..., G, T, r), (P, ..., atoms); ℓ2: the Euclidean one."""
        blocks = self.blocks(W)
        if self.single_atoms:
            return self.xp.abs(blocks[..., 0])
        return vector_norm(blocks[..., None], self.orders(blocks[..., None]))[..., 0]

    def dual_norms(self, W: Array) -> Array:
        """‖·‖_q* of every atom of a point (P, G, T, r), (P, atoms); ℓ2: the Euclidean one."""
        blocks = self.blocks(W)[..., None]
        q = self.orders(blocks)
        if is_between(q):
            return vector_norm(blocks, q / (q - 1))[..., 0]
        return self.penalty.dual_norm(blocks)[..., 0]
