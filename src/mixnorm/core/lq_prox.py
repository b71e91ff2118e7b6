r"""The prox of τ‖·‖_q for 1 < q < 2, many groups at once.

With N = ‖x‖_q and r_i = |x_i| / N the optimality conditions of min ½‖x − u‖² + τ‖x‖_q are

    N r_i + τ r_i^{q−1} = |u_i|   for every i,        Σ_i r_i^q = 1.

Put t_i = r_i^{q−1} ∈ [0, 1] and p = 1/(q−1), so that r_i = t_i^p and r_i^q = r_i t_i.

* Inside, for a given N, every t_i is the root of the convex increasing φ(t) = N t^p + τ t − |u_i|. Newton's method
  from the right is monotone, and min(|u_i|/τ, (|u_i|/N)^{1/p}) is right of the root and close to it at any scale.
* Outside, ψ(N) = (Σ r_i^q)^{−1/q} − 1 is increasing and for q = 2 linear, so that a Newton step on it, kept inside
  a bracket, needs few iterations.
* Newton's method for N and all t_i together needs little more steps than the one outside alone. It nearly always comes
  to an end, and is tried first; where it does not, inside and outside take turns.
"""

from mixnorm.core.arrays import Array, namespace, positive_part

_MAX_JOINT = 15
_MAX_OUTER = 100
_MAX_INNER = 60
#: A last Newton step this small leaves an error of the order of its square times p, far below rounding; asking for
#: more would be asking for digits that t^p does not have, since it multiplies the rounding of t by p.
_SMALL_STEP = 1e-10
#: Halving a bracket gains no such digits: it goes on until the bracket is of the size of the rounding of t^p, in units
#: of p.
_SMALL_BRACKET = 4e-15
#: In units of the largest entry: an N of that size is rounding of a threshold that equals the dual norm, and has no
#: digits at all.
_NO_DIGITS = 1e-15


def n_joint_steps(q: float) -> int:
    """Return how many joint steps `prox_lq_in_steps` takes by default: near 1 the prox needs more."""
    return 6 if q >= 1.2 else 8


def prox_lq(blocks: Array, threshold: Array, q: float | Array) -> Array:
    """Return the prox of threshold·‖·‖_q of every block, to rounding of its largest entry.

    Parameters
    ----------
    blocks : array of shape (..., G, r, K)
    threshold : array of shape (..., G, K)
        Must be below the block's dual norm ‖·‖_{q*}: at or above it the prox is zero. 0: identity.
    q : float or array
        1 < q < 2; of every problem, if it is an array, in a shape that broadcasts with the blocks.
    """
    xp = namespace(blocks, threshold)
    largest = xp.max(xp.abs(blocks), axis=-2)
    shrinks = threshold > 1e-30 * largest  # below, the prox is the identity to far less than rounding
    # In units of the largest entry, so that no scale of input over- or underflows.
    scale = xp.where(largest > 0, largest, 1.0)[..., None, :]
    u = xp.where(largest[..., None, :] > 0, xp.abs(blocks) / scale, 1.0)  # a zero block stays zero; any u serves it
    tau = xp.where(shrinks, threshold, 1.0)[..., None, :] / xp.where(shrinks[..., None, :], scale, 1.0)
    x = xp.copysign(_magnitudes(u, tau, q) * scale, blocks)
    return xp.where((shrinks & (largest > 0))[..., None, :], x, blocks)


def prox_lq_in_steps(blocks: Array, threshold: Array, q: float | Array, steps: int | None = None) -> Array:
    """Return the prox of threshold·‖·‖_q as `prox_lq` does, by a fixed number of joint Newton steps for N and all t_i.

    ``steps``: by default `n_joint_steps`; required where q is an array.
    Exactly zero where the prox is; elsewhere, with the default steps, to rounding for q from 1.03. At q = 1.01
    one block in 10 000 is left with an error of up to 2e-8 of its largest entry. Nothing in it asks how far it got, so
    that a device never waits for the host.
    """
    xp = namespace(blocks)
    if steps is None:
        steps = n_joint_steps(q)
    p = 1 / (q - 1)
    largest = xp.max(xp.abs(blocks), axis=-2, keepdims=True)
    scale = xp.where(largest > 0, largest, 1.0)
    u, tau = xp.abs(blocks) / scale, threshold[..., None, :] / scale
    dual_norm = xp.sum(u ** (q * p), axis=-2, keepdims=True) ** (1 / (q * p))
    alive = (scale * dual_norm > threshold[..., None, :]) & (tau > 0)
    safe_tau = xp.where(alive, tau, 1.0)
    high = xp.sum(u**q, axis=-2, keepdims=True) ** (1 / q)
    N = xp.where(largest > 0, _first_norm(high, tau, dual_norm), 1.0)
    bound = u / safe_tau
    t = xp.minimum((u / N) ** (q - 1), bound)
    for _ in range(steps):
        _, t_step, N = _joint_step(u, safe_tau, N, t, p, high)
        t = xp.minimum(positive_part(t + t_step), bound)
    x = xp.copysign(N * t**p * scale, blocks)
    return xp.where(alive, x, xp.where(tau > 0, 0.0, blocks))


def _first_norm(high: Array, tau: Array, dual_norm: Array) -> Array:
    """A guess of N, the norm ``high`` of u being an upper bound: exact for q = 2, and as tau → 0 or → the dual norm.

    A step makes N at most ten times smaller, so that from ``high`` itself a nearly zero block would be far away.
    """
    xp = namespace(high)
    # not 0, the end of the bracket, where tau has no room
    return high * xp.clip(1 - tau / xp.where(dual_norm > 0, dual_norm, 1.0), 1e-16)


def _joint_step(u: Array, tau: Array, N: Array, t: Array, p: float | Array, high: Array) -> tuple[Array, Array, Array]:
    """One Newton step for N and all t_i together: that of N, that of t, and the next N, kept below a bound."""
    xp = namespace(u)
    rest = t ** (p - 1)
    r = rest * t
    steep = p * N * rest + tau
    excess = N * r + tau * t - u
    share = (p + 1) * r / steep
    lack = xp.sum(r * t - share * excess, axis=-2, keepdims=True) - 1
    slope = xp.sum(share * r, axis=-2, keepdims=True)
    N_step = lack / xp.where(slope > 0, slope, 1.0)
    N_next = xp.minimum(xp.maximum(N + N_step, 0.1 * N), high)
    return N_step, -(excess + r * (N_next - N)) / steep, N_next


def _magnitudes(u: Array, tau: Array, q: float | Array) -> Array:
    """Solve for |x|, given u = |u| with largest entry 1 and tau (..., G, 1, K)."""
    xp = namespace(u)
    p = 1 / (q - 1)
    dual_norm = xp.sum(u ** (q * p), axis=-2, keepdims=True) ** (1 / (q * p))
    high = xp.sum(u**q, axis=-2, keepdims=True) ** (1 / q)
    N = _first_norm(high, tau, dual_norm)
    N, t, is_done = _solve_jointly(u, tau, N, p, high)
    if not is_done:
        N, t = _solve_nested(u, tau, N, t, q, high)
    x = N * t**p
    # N t^p has rounding error p ε x, u − τ t has ε u: take the smaller.
    return xp.where(p * x < u, x, positive_part(u - tau * t))


def _solve_jointly(u: Array, tau: Array, N: Array, p: float | Array, high: Array) -> tuple[Array, Array, bool]:
    """Newton's method for N and all t_i together, from a guess of N; whether it came to an end."""
    xp = namespace(u)
    bound = u / tau
    t = xp.minimum((u / N) ** (1 / p), bound)
    for _ in range(_MAX_JOINT):
        N_step, t_step, N = _joint_step(u, tau, N, t, p, high)
        t = xp.minimum(positive_part(t + t_step), bound)
        if bool(xp.all(xp.abs(N_step) <= _SMALL_STEP * N + _NO_DIGITS)) and bool(
            xp.all(xp.abs(t_step) <= _SMALL_STEP * bound)
        ):
            return N, t, True
    return N, t, False


def _solve_nested(u: Array, tau: Array, N: Array, t: Array, q: float | Array, high: Array) -> tuple[Array, Array]:
    """Newton's method for N inside a bracket, for every N the t_i: slower, and it always comes to an end."""
    xp = namespace(u)
    p = 1 / (q - 1)
    low = xp.zeros_like(tau)
    for _ in range(_MAX_OUTER):
        t = _solve_inner(u, tau, N, t, p)
        r = t**p
        total = xp.sum(r * t, axis=-2, keepdims=True)
        grows = total > 1  # then N is too small
        low, high = xp.where(grows, N, low), xp.where(grows, high, N)
        N_next = _newton_outer(N, r, t, tau, total, q)
        inside = (N_next >= low) & (N_next <= high)
        N_next = xp.where(inside, N_next, (low + high) / 2)
        step = xp.abs(N_next - N)
        done = (inside & (step <= _SMALL_STEP * N_next)) | (step <= p * _SMALL_BRACKET * N_next + _NO_DIGITS)
        N = N_next
        if bool(xp.all(done | (total == 0))):
            break
    return N, _solve_inner(u, tau, N, t, p)


def _newton_outer(N: Array, r: Array, t: Array, tau: Array, total: Array, q: float | Array) -> Array:
    """One Newton step for ψ(N) = total^{−1/q} − 1."""
    xp = namespace(N)
    p = 1 / (q - 1)
    weight = p * N * r + tau * t
    slope = xp.sum(
        xp.where(weight > 0, t * p * r * r / xp.where(weight > 0, weight, 1.0), 0.0), axis=-2, keepdims=True
    )
    slope = xp.where(slope > 0, slope, 1.0)
    safe = xp.where(total > 0, total, 1.0)
    return N - (1 - safe ** (1 / q)) * safe / slope


def _solve_inner(u: Array, tau: Array, N: Array, t: Array, p: float | Array) -> Array:
    """Solve N t^p + tau t = u for t, from a guess."""
    xp = namespace(u)
    bound = xp.minimum(u / tau, (u / N) ** (1 / p))
    t = xp.minimum(t, bound)
    for _ in range(_MAX_INNER):
        power = N * t**p
        step = (power + tau * t - u) / (p * power / xp.where(t > 0, t, 1.0) + tau)
        t_next = xp.minimum(positive_part(t - step), bound)
        done = bool(xp.all(xp.abs(t_next - t) <= _SMALL_STEP * bound))
        t = t_next
        if done:
            break
    return t
