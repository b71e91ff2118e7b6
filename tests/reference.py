"""Plain, slow references for the numerical core, written from the formulas and sharing no code with `mixnorm`.

A problem is the keyword set `X, y, s, alpha, penalty, q, groups, beta, similarity, alignment, ridge`:

    minimise over W, b   Σ_{t,i} s_ti · max(0, 1 − y_ti (x_ti·w_t + b_t))²  /  Σ_{t,i} s_ti
                         + similarity · Σ_t ‖A_t w_t − mean_t(A w)‖²       (A_t the identity without alignment)
                         + alpha · Σ_g β_g ‖W_g‖_q       (or alpha·Σ_g β_g ‖W_g‖₁, or alpha·½ Σ_g β_g ‖W_g‖²)
                         + ridge · ½ Σ_t ‖A_t w_t‖²

For one subject X (n, d), y (n,) in {−1, +1}, s (n,), w (d,), b a scalar; for T subjects X, y, s are lists,
W is (T, d) and b is (T,). `groups` (d,) holds the group's number 0 … G−1 of every feature, `beta` (G,) its weight.
"""

import warnings

import cvxpy as cp
import numpy as np
from scipy.optimize import brentq, linprog

# --- the objective, by its formula ---------------------------------------------------------------------------


def objective(
    X,
    y,
    w,
    b,
    s=None,
    alpha=0.0,
    penalty="group",
    q=2.0,
    groups=None,
    beta=None,
    similarity=0.0,
    alignment=None,
    ridge=0.0,
):
    """The value of the problem at (w, b); infinite where a group of infinite weight is not zero."""
    Xs, ys, ss = _subjects(X, y, s)
    W, b = np.atleast_2d(w), np.atleast_1d(b)
    groups, beta = _groups_and_weights(groups, beta, W.shape[1])
    total = sum(float(np.sum(s_t)) for s_t in ss)
    loss = 0.0
    for X_t, y_t, s_t, w_t, b_t in zip(Xs, ys, ss, W, b, strict=True):
        slack = np.maximum(0.0, 1.0 - y_t * (X_t @ w_t + b_t))
        loss += float(np.sum(s_t * slack**2)) / total
    V = W if alignment is None else np.array([A @ w_t for A, w_t in zip(alignment, W, strict=True)])
    spread = float(np.sum((V - V.mean(axis=0)) ** 2))
    square = float(np.sum(V**2))
    return loss + similarity * spread + ridge / 2 * square + alpha * _penalty_value(W, penalty, q, groups, beta)


def _penalty_value(W, penalty, q, groups, beta):
    value = 0.0
    for g, beta_g in enumerate(beta):
        block = np.ravel(W[:, groups == g])
        if not np.any(block):
            continue  # also what ∞ · 0 is worth
        if penalty == "l2":
            value += beta_g * 0.5 * float(np.sum(block**2))
        else:
            value += beta_g * lq_norm(block, 1.0 if penalty == "l1" else q)
    return value


def lq_norm(v, q):
    """(Σ |v_i|^q)^(1/q), scaled so that it neither overflows nor underflows; q may be infinite."""
    v = np.abs(np.ravel(v))
    largest = float(np.max(v, initial=0.0))
    if largest == 0.0 or np.isinf(q):
        return largest
    return largest * float(np.sum((v / largest) ** q)) ** (1.0 / q)


def conjugate_exponent(q):
    """q* with 1/q + 1/q* = 1."""
    return np.inf if q == 1 else q / (q - 1.0)


def _subjects(X, y, s):
    """Lists over subjects, whether one or several were given."""
    Xs, ys = (X, y) if isinstance(X, list | tuple) else ([X], [y])
    if s is None:
        ss = [np.ones(len(y_t)) for y_t in ys]
    else:
        ss = s if isinstance(s, list | tuple) else [s]
    return Xs, ys, ss


def _groups_and_weights(groups, beta, n_features):
    groups = np.arange(n_features) if groups is None else np.asarray(groups)
    beta = np.ones(int(groups.max()) + 1) if beta is None else np.asarray(beta, dtype=float)
    return groups, beta


# --- the optimum, by a general convex solver -------------------------------------------------------------------


def convex_reference(
    X,
    y,
    s=None,
    alpha=0.0,
    penalty="group",
    q=2.0,
    groups=None,
    beta=None,
    similarity=0.0,
    fit_intercept=True,
    alignment=None,
    ridge=0.0,
):
    """Solve the problem with cvxpy; return (objective by the formula at the point found, W, b).

    Every attempt's point is a candidate, and the best by the formula is returned: being an upper bound of the
    optimum whatever the solver said of itself, it can only be too lenient, by the tolerance reached.
    """
    Xs, ys, ss = _subjects(X, y, s)
    groups, beta = _groups_and_weights(groups, beta, Xs[0].shape[1])
    norm = "l1" if penalty == "group" and q == 1 else penalty
    best, reached = (np.inf, None, None), False
    for options, norm_expression in _attempts(norm, q):
        problem, W, b = _convex_problem(
            (Xs, ys, ss), alpha, (groups, beta, norm_expression), (similarity, alignment, ridge), fit_intercept
        )
        reached = _solve(problem, options)
        if W.value is not None:
            value = objective(X, y, W.value, b.value, s, alpha, penalty, q, groups, beta, similarity, alignment, ridge)
            best = min(best, (value, W.value, b.value), key=lambda candidate: candidate[0])
        if reached:
            break
    if not reached:
        raise RuntimeError("no convex solver reached its tolerance")
    return best


def _attempts(norm, q):
    """(solver options, norm as a cvxpy expression), the most accurate first: Clarabel at 1e-10, 1e-8, then SCS.

    For 1 < q < 2 cvxpy's cascade of second-order cones and the plain power cone fail on different problems.
    """
    expressions = {
        "l2": [lambda block: (0.5 * cp.sum_squares(block), [])],
        "l1": [lambda block: (cp.norm1(block), [])],
        "group": [lambda block: (cp.pnorm(block, q), [])],
    }[norm]
    if norm == "group" and q < 2:
        expressions = [*expressions, lambda block: _power_cone_norm(block, q)]
    for tol in (1e-10, 1e-8):
        clarabel = {"solver": cp.CLARABEL, "tol_gap_rel": tol, "tol_feas": tol, "max_iter": 500}
        for expression in expressions:
            yield {**clarabel, "tol_gap_abs": 0.01 * tol}, expression
    yield {"solver": cp.SCS, "eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000}, expressions[0]


def _power_cone_norm(block, q):
    """‖x‖_q as the smallest t with Σ r_i = t and |x_i| ≤ r_i^(1/q) t^(1−1/q)."""
    r, t = cp.Variable(block.size), cp.Variable()
    return t, [cp.sum(r) == t, cp.PowCone3D(r, t * np.ones(block.size), block, 1.0 / q)]


def _convex_problem(trials, alpha, penalty, sharing, fit_intercept):
    """The cvxpy problem and its variables W (T, d), b (T,); features of infinite weight are held at 0."""
    Xs, ys, ss = trials
    groups, beta, norm_expression = penalty
    similarity, alignment, ridge = sharing
    n_subjects, n_features = len(Xs), Xs[0].shape[1]
    kept = np.isfinite(beta[groups])
    free = cp.Variable((n_subjects, max(int(kept.sum()), 1)))
    W = free @ np.eye(n_features)[kept] if kept.any() else cp.Constant(np.zeros((n_subjects, n_features)))
    b = cp.Variable(n_subjects) if fit_intercept else cp.Constant(np.zeros(n_subjects))
    total = sum(float(np.sum(s_t)) for s_t in ss)
    cost, constraints = 0.0, []
    for t, (X_t, y_t, s_t) in enumerate(zip(Xs, ys, ss, strict=True)):
        rows = s_t > 0
        slack = cp.Variable(int(rows.sum()), nonneg=True)
        constraints.append(slack >= 1 - cp.multiply(y_t[rows], X_t[rows] @ W[t] + b[t]))
        cost += cp.sum_squares(cp.multiply(np.sqrt(s_t[rows] / total), slack))
    V = W if alignment is None else cp.vstack([A @ W[t] for t, A in enumerate(alignment)])
    if similarity > 0 and n_subjects > 1:
        centring = np.eye(n_subjects) - 1.0 / n_subjects
        cost += similarity * cp.sum_squares(centring @ V)
    if ridge > 0:
        cost += ridge / 2 * cp.sum_squares(V)
    for g in np.flatnonzero((beta > 0) & np.isfinite(beta)):
        norm, of_norm = norm_expression(cp.vec(W[:, np.flatnonzero(groups == g)], order="F"))
        cost += alpha * beta[g] * norm
        constraints += of_norm
    return cp.Problem(cp.Minimize(cost), constraints), W, b


def _solve(problem, options):
    """Whether the solver says it reached its tolerance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solution is a warning; the status says it too
        try:
            problem.solve(**options)
        except cp.SolverError:
            return False
    return problem.status == cp.OPTIMAL


# --- the loss's gradient, and the smallest alpha without a penalised group -------------------------------------


def dual_point(X, y, w, b, s=None):
    """a_i = 2 s_i max(0, 1 − m_i) / Σs, one array per subject."""
    Xs, ys, ss = _subjects(X, y, s)
    total = sum(float(np.sum(s_t)) for s_t in ss)
    return [
        2.0 * s_t * np.maximum(0.0, 1.0 - y_t * (X_t @ w_t + b_t)) / total
        for X_t, y_t, s_t, w_t, b_t in zip(Xs, ys, ss, np.atleast_2d(w), np.atleast_1d(b), strict=True)
    ]


def correlations(X, y, w, b, s=None):
    """X_t'(a_t∘y_t), shape (T, d): minus the gradient of the loss in W."""
    Xs, ys, _ = _subjects(X, y, s)
    return np.array([X_t.T @ (a_t * y_t) for X_t, y_t, a_t in zip(Xs, ys, dual_point(X, y, w, b, s), strict=True)])


def alpha_max_reference(
    X, y, s=None, penalty="group", q=2.0, groups=None, beta=None, similarity=0.0, fit_intercept=True
):
    """The smallest alpha whose optimum has no penalised group; for ℓ2 (which has none) that of the ℓ1-ℓ2 problem.

    Fit what is not penalised alone, then alpha_max = max over 0 < β_g < ∞ of ‖X_g'(a∘y)‖_{q*} / β_g.
    """
    Xs, _, _ = _subjects(X, y, s)
    groups, beta = _groups_and_weights(groups, beta, Xs[0].shape[1])
    only_free = np.where(beta == 0, 0.0, np.inf)
    _, W, b = convex_reference(
        X, y, s, groups=groups, beta=only_free, similarity=similarity, fit_intercept=fit_intercept
    )
    exponent = conjugate_exponent({"l1": 1.0, "l2": 2.0}.get(penalty, q))
    pulls = correlations(X, y, W, b, s)
    penalised = [g for g in range(len(beta)) if 0 < beta[g] < np.inf]
    return max(lq_norm(pulls[:, groups == g], exponent) / beta[g] for g in penalised)


# --- the ℓq prox and the projection it is tied to (Moreau), each from its own optimality condition -------------


def prox_reference(u, tau, q):
    """argmin_x ½‖x − u‖² + tau ‖x‖_q for one vector.

    For 1 < q < 2 the optimum has x_i + t x_i^(q−1) = |u_i| with t = tau / ‖x‖_q^(q−1). Given t every x_i is a
    scalar root, found by bisection on log x_i; t itself is the root of t ‖x(t)‖_q^(q−1) = tau, an increasing function.
    """
    u = np.asarray(u, dtype=float)
    largest = float(np.max(np.abs(u), initial=0.0))
    if largest == 0.0 or np.isinf(tau):
        return np.zeros_like(u)
    if tau == 0.0:
        return u.copy()
    v, tau = np.abs(u) / largest, tau / largest
    if lq_norm(v, conjugate_exponent(q)) <= tau:
        return np.zeros_like(u)
    if q == 1:
        x = np.maximum(v - tau, 0.0)
    elif q == 2:
        x = v * (1.0 - tau / lq_norm(v, 2))
    else:
        x = _smooth_prox(v, tau, q)
    return np.sign(u) * x * largest


def _smooth_prox(v, tau, q):
    support = v > 1e-30  # of a vector whose largest entry is 1: what is below moves nothing and stays below
    x = np.zeros_like(v)
    v = v[support]

    def excess(log_t):
        log_x = _log_roots(v, log_t, q)
        log_norm = log_x.max() + np.log(np.sum(np.exp(q * (log_x - log_x.max())))) / q
        return log_t + (q - 1.0) * log_norm - np.log(tau)

    # ‖x‖_q ≤ ‖v‖_q ≤ len(v), hence the lower end; the upper end is sought
    low = np.log(tau) - (q - 1.0) * np.log(2.0 * len(v))
    high = low + 1.0
    while excess(high) <= 0.0 and high < 1000.0:
        high += 2.0 * (high - low)
    log_t = brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=500) if excess(high) > 0.0 else high
    x[support] = np.exp(_log_roots(v, log_t, q))
    return x


def _log_roots(v, log_t, q):
    """log x of the roots of x + exp(log_t) x^(q−1) = v, by bisection on log x."""
    high = np.minimum(np.log(v), (np.log(v) - log_t) / (q - 1.0))  # each term alone is at most v
    low = high - np.log(2.0) / (q - 1.0)  # there both terms are at most v / 2
    for _ in range(110):
        middle = 0.5 * (low + high)
        above = np.exp(middle) + np.exp(log_t + (q - 1.0) * middle) > v
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return 0.5 * (low + high)


def project_dual_ball(u, radius, q):
    """The nearest point to u with ‖z‖_{q*} ≤ radius.

    With radius 1 and p = q*: z_i + μ z_i^(p−1) = |u_i|, and ‖z(μ)‖_p = 1 fixes μ ≥ 0.
    """
    u = np.asarray(u, dtype=float)
    if radius == 0.0:
        return np.zeros_like(u)
    if q == 1:
        return np.clip(u, -radius, radius)
    p = conjugate_exponent(q)
    norm = lq_norm(u, p)
    if norm <= radius:
        return u.copy()
    if q == 2:
        return u * (radius / norm)
    with np.errstate(over="ignore"):
        v = np.minimum(np.abs(u) / radius, 1e200)
    return np.sign(u) * radius * _unit_ball_projection(v, p)


def _unit_ball_projection(v, p):
    def excess(log_mu):
        return lq_norm(_capped_roots(v, log_mu, p), p) - 1.0

    # at the solution the largest entry has μ z^(p−1) ≤ v and z ≥ len(v)^(−1/p)
    high = np.log(v.max()) + (p - 1.0) / p * np.log(len(v)) + 1.0
    low = -60.0
    while excess(low) < 0.0:
        low *= 2.0
    return _capped_roots(v, brentq(excess, low, high, xtol=1e-15, rtol=1e-15, maxiter=500), p)


def _capped_roots(v, log_mu, p):
    """min(2, root of z + exp(log_mu) z^(p−1) = v), by bisection on [0, 2].

    The cap keeps powers finite; at 2, and not at 1, it leaves ‖z(μ)‖_p strictly decreasing around the solution.
    """
    low, high = np.zeros_like(v), np.full_like(v, 2.0)
    with np.errstate(divide="ignore", over="ignore"):
        for _ in range(60):
            middle = 0.5 * (low + high)
            above = middle + np.exp(log_mu + (p - 1.0) * np.log(middle)) > v
            low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


# --- problems ------------------------------------------------------------------------------------------------


def random_problem(rng, n, n_groups=8, group_size=3, flipped=0.2, n_informative=3):
    """EEG-like trials: (X, y, groups), features correlated in space and time and of unit variance.

    `group_size` is a number, or one per group. Every sensor sees the same few sources, smooth in time, and noise of
    its own; the first sensors also see the class. A share of the labels is flipped, so that with more trials than
    features the classes are not separable.
    """
    sizes = np.broadcast_to(group_size, n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    y = rng.permutation(np.where(np.arange(n) % 2 == 0, -1.0, 1.0))
    sources = rng.standard_normal((n, 4, sizes.max()))
    smooth = sources + 0.7 * np.roll(sources, 1, axis=2)
    columns = []
    for g, size in enumerate(sizes):
        mixed = np.einsum("k,nkt->nt", rng.standard_normal(4), smooth[:, :, :size])
        sensor = mixed + rng.standard_normal((n, size))
        if g < n_informative:
            sensor += np.outer(y, np.linspace(1.5, 0.5, size))
        columns.append(sensor)
    X = np.concatenate(columns, axis=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(rng.random(n) < flipped, -y, y)
    return X, y, groups


def separable(X, y):
    """Whether some (w, b) has y_i (x_i·w + b) ≥ 1 for every trial."""
    A = -y[:, None] * np.column_stack([X, np.ones(len(y))])
    return linprog(np.zeros(A.shape[1]), A_ub=A, b_ub=-np.ones(len(y)), bounds=(None, None)).status == 0
