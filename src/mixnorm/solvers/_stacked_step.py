r"""One Newton step of all problems at once, by the normal map; see `newton` for the formulas.

Every problem has its own active groups. They are gathered to the front, so that the systems of all problems have the
same size, that of the largest; what is left over is a group of zeros with the identity on the diagonal.
"""

from dataclasses import dataclass

from .._arrays import Array, like
from ._stacked_linalg import add_to_diagonal, solve_posdef
from ._stacked_problems import Look, Point, StackedProblems

#: Step lengths that are tried at once, and what the damping is multiplied with where each is the first to do.
_LENGTHS = (1.0, 0.5, 0.25, 1 / 16, 1 / 128, 1 / 2048)
_DAMPING_FACTORS = (1 / 16, 1.0, 1.0, 4.0, 16.0, 64.0)
_REFUSED_FACTOR = 1e3
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 1e3
#: Lengths of an entering group's proximal step, of which the best is taken.
_ENTRY_LENGTHS = tuple(2.0**-k for k in range(-2, 10))


@dataclass(frozen=True, eq=False)
class Terms:
    """The parameters of every problem: alpha, similarity, damping (P,), and alpha β of the atoms, (P, atoms)."""

    alpha: Array
    similarity: Array
    damping: Array
    tau: Array
    gamma: Array


@dataclass(frozen=True, eq=False)
class Curvature:
    """Curvature and slope of the penalty on slots (P, G, T, r); see `_newton_system.Curvature`.

    Attributes
    ----------
    scale : R; 0 masks a coordinate out
    diagonal : c + 2 similarity R² + damping, 1 where masked
    direction : k √c
    slope : gradient of the penalty
    gamma : of the normal map, (P, atoms); 0 where the penalty is smooth
    mask : which slots are active
    """

    scale: Array
    diagonal: Array
    direction: Array
    slope: Array
    gamma: Array
    mask: Array


@dataclass(frozen=True, eq=False)
class Moved:
    """A step: the new point, whether it was taken, its predicted decrease, and the damping for the next."""

    point: Point
    decrease: Array
    damping: Array


def descent(look: Look, similarity: Array) -> Array:
    """Minus the gradient of the smooth part, (P, G, T, r)."""
    return look.pull - 2 * similarity[:, None, None, None] * look.deviation


def penalty_curvature(problems: StackedProblems, W: Array, look: Look, terms: Terms, present: Array) -> Curvature:
    """Curvature and gradient of the penalty at W, the similarity's and the damping's curvature added."""
    xp, q, atoms = problems.xp, problems.q, problems.of_atoms
    mask = atoms(present) & (problems.bend > 1e-300)
    own = terms.damping[:, None, None, None] * problems.bend + 2 * terms.similarity[:, None, None, None]
    if not problems.penalty.is_norm:
        tau = atoms(xp.where(present, terms.tau, 0.0))
        one = xp.astype(mask, W.dtype)
        diagonal = xp.where(mask, tau + own, 1.0)
        return Curvature(one, diagonal, xp.zeros_like(W), tau * W, xp.zeros_like(terms.gamma), mask)
    smooth = (terms.tau == 0) | (look.norms == 0)
    norm, tau = xp.where(smooth, 1.0, look.norms), xp.where(smooth, 0.0, terms.tau)
    bent = mask & atoms(~smooth)
    ratio = xp.where(bent, xp.abs(W) / atoms(norm), 1.0)
    sign = xp.sign(W)
    slope = xp.where(bent, atoms(tau) * sign * ratio ** (q - 1), 0.0)
    gamma = xp.where(smooth | ~present, 0.0, terms.gamma)
    if q == 1:
        one, zero = xp.astype(mask, W.dtype), xp.zeros_like(W)
        return Curvature(one, xp.where(mask, own, 1.0), zero, slope, gamma, mask)
    weight = xp.minimum((q - 1) * tau / norm, 1e8 * problems.trace)
    scale = xp.where(mask, ratio ** (1 - q / 2), 0.0)
    direction = xp.where(bent, sign * ratio ** (q / 2), 0.0) * atoms(xp.sqrt(weight))
    if q < 2:
        # For small coefficients the step must be long in u, where the prox is smooth, not in w, where it is not.
        longer = norm / xp.where(tau > 0, tau, 1.0) / stiffness(problems, terms.similarity)
        gamma = xp.where(gamma > 0, xp.maximum(gamma, longer), 0.0)
    return Curvature(scale, xp.where(mask, atoms(weight) + own * scale**2, 1.0), direction, slope, gamma, mask)


def stiffness(problems: StackedProblems, similarity: Array) -> Array:
    """How much stiffer the similarity term makes every atom, (P, atoms): 1 without it."""
    return 1 + 2 * similarity[:, None] * problems.atom_size / problems.trace


def enter(problems: StackedProblems, point: Point, look: Look, terms: Terms, entering: Array) -> Point:
    """Proximal step of the entering atoms (P, atoms), its common length the best of several."""
    xp = problems.xp
    gamma = xp.where(entering, terms.gamma, 0.0)
    threshold = xp.where(entering, terms.gamma * xp.where(entering, terms.tau, 0.0), 0.0)
    forward = problems.of_atoms(gamma) * descent(look, terms.similarity)
    blocks = problems.penalty.prox(problems.blocks(forward)[..., None], threshold[..., None])[..., 0]
    direction = xp.reshape(blocks, point.W.shape)
    change = problems.scores(direction[:, None, ...])
    lengths = like(point.W, _ENTRY_LENGTHS)
    margins = problems.margins(point.Zw, point.b)[:, None, ...] + lengths[:, None, None] * change
    price = terms.alpha * problems.penalty_value(direction)
    value = xp.sum(problems.p[:, None, ...] * problems.loss.value(margins), axis=(2, 3)) + price[:, None] * lengths
    if problems.similar:
        spread = problems.spread(direction)
        bend, slope = xp.sum(spread**2, axis=(1, 2, 3)), 2 * xp.sum(spread * look.deviation, axis=(1, 2, 3))
        value = value + terms.similarity[:, None] * (bend[:, None] * lengths**2 + slope[:, None] * lengths)
    best = xp.take(lengths, xp.argmin(value, axis=1))
    return Point(point.W + best[:, None, None, None] * direction, point.b, point.Zw + best[:, None, None] * change[:, 0, ...])


@dataclass(frozen=True, eq=False)
class Active:
    """The active groups of some problems, gathered: which problems (M,), which groups (M, a), where they are real."""

    ids: Array
    groups: Array
    real: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(M, a)."""
        return self.groups.shape

    def take(self, problems: StackedProblems, slots: Array) -> Array:
        """Return slots (P, G, T, r) of the active groups as (M, T, a r)."""
        xp = problems.xp
        M, a = self.shape
        rows = xp.reshape(self.ids[:, None] * problems.G + self.groups, (-1,))
        found = xp.take(xp.reshape(slots, (problems.P * problems.G, problems.T * problems.r)), rows, axis=0)
        found = xp.reshape(found, (M, a, problems.T, problems.r))
        return xp.reshape(xp.permute_dims(found, (0, 2, 1, 3)), (M, problems.T, a * problems.r))

    def rows(self, problems: StackedProblems) -> Array:
        """Return the rows of the trials of the active groups, (M, T, a r, n)."""
        xp = problems.xp
        M, a = self.shape
        T, G = problems.T, problems.G
        subject = (self.ids // problems.K)[:, None] * T + xp.arange(T, device=self.ids.device)[None, :]
        place = subject[:, :, None] * (G + 1) + xp.where(self.real, self.groups, G)[:, None, :]
        flat = xp.reshape(problems.Z, (problems.B * T * (G + 1), problems.r * problems.n))
        return xp.reshape(xp.take(flat, xp.reshape(place, (-1,)), axis=0), (M, T, a * problems.r, problems.n))


def solve_system(problems: StackedProblems, active: Active, inside: Array, curvature: Curvature, residual, pull_b):
    """Solve the Newton systems of some problems.

    Returns (M, 2, a, T, r): δw of the active groups and what the Hessian of the loss makes of (δw, δb); and δb, (M, T).
    """
    xp = problems.xp
    M, a = active.shape
    real = xp.reshape(active.real[:, :, None] & xp.ones((1, 1, problems.r), dtype=xp.bool, device=active.ids.device), (M, 1, -1))
    scale = xp.where(real, active.take(problems, curvature.scale), 0.0)
    diagonal = xp.where(real, active.take(problems, curvature.diagonal), 1.0)
    direction = xp.where(real, active.take(problems, curvature.direction), 0.0)
    right = -scale * active.take(problems, residual)
    weight = 2 * xp.take(problems.p * xp.astype(inside, problems.p.dtype), active.ids, axis=0)
    root = xp.sqrt(weight)
    rows = active.rows(problems) * root[:, :, None, :]
    hessian = xp.matmul(rows, xp.matrix_transpose(rows))
    S = hessian
    if 1 < problems.q < 2 or (problems.single_atoms and problems.T > 1):
        S = hessian * scale[..., :, None] * scale[..., None, :]
    lean = []
    if problems.fit_intercept:
        y_root = (xp.take(problems.y_of, active.ids, axis=0) * root)[..., None]
        against = xp.matmul(rows, y_root)[..., 0]
        total = xp.sum(weight, axis=-1, keepdims=True)
        total = xp.where(total > 0, total, 1.0)
        g_b = -xp.take(pull_b, active.ids, axis=0)[..., None]
        lean = [(scale * against / xp.sqrt(total))[..., None]]
        right = right + scale * against * g_b / total
    z = _solve(problems, S, diagonal, direction, lean, right, a)
    dw = scale * z
    bent = xp.matmul(hessian, dw[..., None])[..., 0]
    db = xp.zeros_like(dw[..., 0])
    if problems.fit_intercept:
        db = ((-g_b - xp.sum(against * dw, axis=-1, keepdims=True)) / total)[..., 0]
        bent = bent + against * db[..., None]
    both = xp.reshape(xp.stack([dw, bent], axis=1), (M, 2, problems.T, a, problems.r))
    return xp.permute_dims(both, (0, 1, 3, 2, 4)), db


def _solve(problems, S, diagonal, direction, lean, right, a):
    """Solve (S + diagonal − lean lean' − Σ_g k_g k_g') z = right for one subject, (M, 1, m)."""
    xp = problems.xp
    M = S.shape[0]
    columns = list(lean)
    if problems.penalty.is_norm and problems.q > 1:
        blocks = xp.reshape(direction, (M, 1, a, problems.r, 1))
        unit = xp.eye(a, dtype=S.dtype, device=S.device)[:, None, :]
        columns.append(xp.reshape(blocks * unit, (M, 1, a * problems.r, a)))
    if columns:
        V = xp.concat(columns, axis=-1) if len(columns) > 1 else columns[0]
        S = S - xp.matmul(V, xp.matrix_transpose(V))
    else:
        S = xp.asarray(S, copy=True)
    return solve_posdef(add_to_diagonal(S, diagonal), right[..., None])[..., 0]


def advance(problems, point: Point, terms: Terms, move: tuple, value: Array, decrease: Array, threshold) -> Moved:
    """Try several lengths of the step through the prox at once, and take the first that lowers the objective enough."""
    xp = problems.xp
    u, du, db = move
    lengths = like(point.W, _LENGTHS)
    W = u[:, None, ...] + lengths[:, None, None, None] * du[:, None, ...]
    if problems.penalty.is_norm:
        shrunk = problems.penalty.prox(problems.blocks(W)[..., None], threshold[:, None, :, None])
        W = xp.reshape(shrunk, W.shape)
    tried = Point(W, point.b[:, None, :] + lengths[:, None] * db[:, None, :], problems.scores(W))
    reached = problems.value(tried, terms.alpha, terms.similarity)
    enough = reached <= value[:, None] - 1e-4 * lengths * decrease[:, None]
    # Near the optimum the decrease drowns in rounding: then a full step is taken unless it visibly climbs.
    drowned = (decrease[:, None] <= 1e-9 * value[:, None]) & (reached <= value[:, None] * (1 + 1e-14))
    taken = enough | drowned
    any_taken = xp.any(taken, axis=1)
    first = xp.argmax(xp.astype(taken, xp.int64), axis=1)
    factor = xp.where(any_taken, xp.take(like(point.W, _DAMPING_FACTORS), first), _REFUSED_FACTOR)
    damping = xp.clip(terms.damping * factor, _MIN_DAMPING, _MAX_DAMPING)
    return Moved(_choose(problems, point, tried, first, any_taken), xp.where(any_taken, decrease, float("inf")), damping)


def _choose(problems, point: Point, tried: Point, first: Array, any_taken: Array) -> Point:
    xp = problems.xp
    L = tried.W.shape[1]
    rows = xp.arange(problems.P, device=first.device) * L + first

    def pick(many, before):
        flat = xp.reshape(many, (problems.P * L, -1))
        one = xp.reshape(xp.take(flat, rows, axis=0), before.shape)
        return xp.where(xp.reshape(any_taken, (problems.P, *(1,) * (before.ndim - 1))), one, before)

    return Point(pick(tried.W, point.W), pick(tried.b, point.b), pick(tried.Zw, point.Zw))
