"""Random small problems with everything that makes a problem hard, and what the solver makes of them.

    python benchmarks/random_problems.py {single,path,joint} [--count 3000] [--seed 1] [--convex 0] [--json FILE]

``single``: one subject, 2 to 200 trials, 1 to 96 features, every penalty, q from 1 to 2, weights, duplicates, features
scaled apart, offsets of 10 to 1e6 times the spread of a feature, alpha from 1e-8 to 10 of alpha_max.
``path``: the same with the ℓ1-ℓ2 norm, groups of several features, no unpenalised sensor, 10 to 400 trials, and 5 to
20 alphas from alpha_max down to 1e-6 of it, of which the last counts.
``joint``: 1 to 4 subjects, 6 to 120 trials each, up to 12 features, weights, duplicates, unpenalised and forbidden
sensors, similarity from 0 to 1e6, with noise or without.

Every problem is fitted with default settings. Its value is computed in extended precision at the point returned and at
the better points that a second fit at tol = 1e-12 and a general convex solver find (the latter for ``--convex`` of the
problems, and for all that end above tol): a certificate is too good where the known distance from the optimum exceeds
the gap that it claims. Seconds are of the processor.
"""

import argparse
import json
import os
import sys
import time
import warnings
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "src"), str(HERE.parent / "tests")]

import numpy as np  # noqa: E402

from mixnorm import GroupSVC, MultiTaskGroupSVC, group_svc_path  # noqa: E402

TOL = 1e-6
#: Within these bounds every fit must reach tol with default settings.
LEAST_ALPHA, MOST_SIMILARITY = 1e-6, 1e4
#: White share of the noise covariances.
WHITE_SHARE = 0.03


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: trials of all subjects one below the other, and the parameters of its estimator."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    subjects: np.ndarray
    groups: np.ndarray
    beta: np.ndarray
    penalty: str = "group"
    q: float = 2.0
    share: float = 0.1
    similarity: float = 0.0
    noise: bool = False
    fit_intercept: bool = True
    offset: float = 0.0
    n_alphas: int = 1

    @property
    def order(self) -> float:
        """The q of the norm."""
        return 1.0 if self.penalty == "l1" else 2.0 if self.penalty == "l2" else self.q

    @property
    def rows(self) -> list[np.ndarray]:
        """The trials of every subject."""
        return [np.flatnonzero(self.subjects == label) for label in np.unique(self.subjects)]

    @property
    def alpha(self) -> float:
        """The share of alpha_max, that of the problem without unpenalised sensors."""
        return float(self.share * alpha_max(self))


@dataclass
class Outcome:
    """What became of a problem.

    ``excess``: (P − P_best) / P in extended precision, P_best being the least value known.
    """

    seed: int
    gap: float = np.inf
    excess: float = 0.0
    seconds: float = 0.0
    n_iter: int = 0
    share: float = 0.0
    similarity: float = 0.0
    about: dict = field(default_factory=dict)


def alpha_max(case: Case) -> float:
    """The smallest alpha without a penalised sensor where none is unpenalised, in extended precision.

    All margins of the best constant classifier b = Σ s y / Σ s are below 1, so that a = 2 p (1 − y b) at once.
    """
    pulls = []
    for rows in case.rows:
        X, y, p = (np.asarray(part[rows], dtype=np.longdouble) for part in (case.X, case.y, case.s))
        b = (p @ y) / p.sum() if case.fit_intercept else 0.0
        pulls.append(X.T @ (2 * p / np.sum(case.s, dtype=np.longdouble) * (1 - y * b) * y))
    penalised = [g for g in range(len(case.beta)) if 0 < case.beta[g] < np.inf]
    q = case.order
    dual = np.inf if q == 1 else q / (q - 1)
    norms = [_norm(np.ravel(np.array(pulls)[:, case.groups == g]), dual) / case.beta[g] for g in penalised]
    return max(float(max(norms, default=0.0)), 1e-12 * float(np.abs(case.X).max()) + 1e-300)


def _norm(v: np.ndarray, p: float):
    largest = np.max(np.abs(v), initial=0)
    if largest == 0 or np.isinf(p):
        return largest
    return largest * np.sum((np.abs(v) / largest) ** p) ** (1 / np.longdouble(p))


def value(case: Case, W: np.ndarray, b: np.ndarray):
    """The objective at a point, in extended precision.

    x·w + b is (x − μ)·w + (b + μ·w), the first difference being exact and the last bracket a sum of fractions: beside
    offsets of 1e6 even extended precision would lose what a certificate of 1e-13 is about.
    """
    total, loss = np.sum(case.s, dtype=np.longdouble), np.longdouble(0)
    for w, c, rows in zip(W, b, case.rows, strict=True):
        X, y, s = (np.asarray(part[rows], dtype=np.longdouble) for part in (case.X, case.y, case.s))
        mean = case.X[rows].mean(axis=0)
        middle = _extended(_fraction(c) + sum(_fraction(m) * _fraction(v) for m, v in zip(mean, w, strict=True)))
        loss += (
            np.sum(s * np.maximum(0, 1 - y * ((X - mean) @ np.asarray(w, dtype=np.longdouble) + middle)) ** 2) / total
        )
    W = np.asarray(W, dtype=np.longdouble)
    V = W
    if case.noise:
        V = np.stack([root @ w for w, root in zip(W, roots(case), strict=True)])
    spread = case.similarity * np.sum((V - V.mean(axis=0)) ** 2)
    return loss + spread + np.longdouble(case.alpha) * _penalty(case, V if case.penalty == "l2" else W)


def _fraction(number) -> Fraction:
    """A number of double or extended precision, exactly."""
    high = float(number)
    return Fraction(high) + Fraction(float(number - high))


def _extended(fraction: Fraction) -> np.longdouble:
    high = float(fraction)
    return np.longdouble(high) + np.longdouble(float(fraction - Fraction(high)))


def _penalty(case: Case, W: np.ndarray):
    paid = np.longdouble(0)
    for g, beta in enumerate(case.beta):
        block = np.ravel(W[:, case.groups == g])
        if block.any():
            paid += beta * (np.sum(block**2) / 2 if case.penalty == "l2" else _norm(block, case.order))
    return paid


def noise(case: Case, rows: np.ndarray) -> np.ndarray:
    """A covariance R ⊗ S of one subject's trials over sensors and over samples with white sensors."""
    n_sensors = len(case.beta)
    p = case.s[rows] / case.s[rows].sum()
    trials = (case.X[rows] - p @ case.X[rows]).reshape(len(rows), n_sensors, -1)
    R = _shrunk(np.einsum("n,ncr,ndr->cd", p, trials, trials) / trials.shape[2])
    white = np.matmul(_power(R, -0.5), trials)
    return np.kron(R, _shrunk(np.einsum("n,ncr,ncs->rs", p, white, white) / n_sensors))


def roots(case: Case) -> list[np.ndarray]:
    """R_t of every subject: the symmetric root of its noise on the sensors that it covers, else the identity."""
    covered = np.isfinite(case.beta) & ((case.beta > 0) | (case.penalty != "l2"))
    features = np.flatnonzero(covered[case.groups])
    found = []
    for rows in case.rows:
        root = np.eye(case.X.shape[1])
        root[np.ix_(features, features)] = _power(noise(case, rows)[np.ix_(features, features)], 0.5)
        found.append(root)
    return found


def _shrunk(C: np.ndarray) -> np.ndarray:
    return (1 - WHITE_SHARE) * C + WHITE_SHARE * np.trace(C) / len(C) * np.eye(len(C))


def _power(C: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(C)
    return (vectors * values**exponent) @ vectors.T


# The generators.


def single_case(rng: np.random.Generator) -> Case:
    """One subject; see the module's docstring."""
    n, d = int(np.exp(rng.uniform(np.log(2), np.log(200)))), int(np.exp(rng.uniform(0, np.log(96))))
    n = max(n, 2)
    size = int(rng.choice([1, 1, 2, 3, 4, 8]))
    groups = np.arange(d) // size
    y = _labels(rng, n)
    X, offset = _in_odd_units(rng, _features(rng, y, d))
    G = int(groups.max()) + 1
    penalty = str(rng.choice(["l1", "l2", "group", "group", "group"]))
    q = float(rng.choice([1, 1 + 10 ** rng.uniform(-4, -2), rng.uniform(1.01, 2), 1.5, 2, 2]))
    return Case(
        X,
        y,
        _weights(rng, y, np.zeros(n, dtype=int)),
        np.zeros(n, dtype=int),
        groups,
        _betas(rng, G, penalty, 0.15),
        penalty,
        q,
        share=10 ** rng.uniform(-8, 1),
        fit_intercept=bool(rng.random() < 0.85) or offset > 0,
        offset=offset,
    )


def joint_case(rng: np.random.Generator) -> Case:
    """One to four subjects; see the module's docstring."""
    T, size, G = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3])), int(rng.integers(1, 5))
    d = size * G
    sizes = rng.choice([6, 10, 20, 40, 120], T)
    subjects = np.repeat(np.arange(T), sizes)
    y = np.concatenate([_labels(rng, n) for n in sizes])
    X = np.concatenate([_features(rng, y[subjects == t], d) for t in range(T)])
    penalty = str(rng.choice(["l1", "l2", "group", "group", "group"]))
    return Case(
        X,
        y,
        _weights(rng, y, subjects),
        subjects,
        np.repeat(np.arange(G), size),
        _betas(rng, G, penalty, 0.3),
        penalty,
        float(rng.choice([1, rng.uniform(1.01, 2), 1.5, 2, 2])),
        share=10 ** rng.uniform(-5, 0.2),
        similarity=float(rng.choice([0, 1e-3, 0.1, 1, 10, 100, 1e4, 1e6])),
        noise=bool(rng.random() < 0.4),
        fit_intercept=bool(rng.random() < 0.85),
    )


def path_case(rng: np.random.Generator) -> Case:
    """A path of one subject; see the module's docstring."""
    case = single_case(rng)
    n, size = int(np.exp(rng.uniform(np.log(10), np.log(400)))), int(rng.choice([2, 3, 4, 8]))
    d = size * max(1, int(np.exp(rng.uniform(0, np.log(min(2 * n, 160) / size)))))
    y = _labels(rng, n)
    X, offset = _in_odd_units(rng, _features(rng, y, d))
    groups = np.arange(d) // size
    beta = _betas(rng, d // size, "group", 0.15)
    nobody = np.zeros(n, dtype=int)
    return replace(
        case,
        X=X,
        y=y,
        s=_weights(rng, y, nobody),
        subjects=nobody,
        groups=groups,
        beta=np.where(beta == 0, 1.0, beta),
        penalty="group",
        q=2.0,
        share=10 ** rng.uniform(-6, 0),
        fit_intercept=case.fit_intercept or offset > 0,
        offset=offset,
        n_alphas=int(rng.integers(5, 21)),
    )


GENERATORS = {"single": single_case, "path": path_case, "joint": joint_case}


def _labels(rng: np.random.Generator, n: int) -> np.ndarray:
    y = np.where(rng.random(n) < rng.uniform(0.2, 0.8), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return rng.permutation(y)


def _features(rng: np.random.Generator, y: np.ndarray, d: int) -> np.ndarray:
    """Correlated features, of which some tell the classes apart, now and then without error; some repeated."""
    n = len(y)
    X = rng.standard_normal((n, d)) + rng.uniform(0, 2) * rng.standard_normal((n, 1)) * rng.standard_normal(d)
    X += np.outer(y, rng.choice([0.0, 0.5, 3.0], d, p=[0.5, 0.4, 0.1]))
    if d > 1 and rng.random() < 0.25:
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    if n > 4 and rng.random() < 0.25:
        copies = rng.integers(n, size=n // 3)
        X[rng.integers(n, size=n // 3)] = X[copies]
    return X


def _in_odd_units(rng: np.random.Generator, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Scale features apart and add offsets, now and then; also return the offset, in units of the spreads."""
    d = X.shape[1]
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-3, 3, d)
    offset = float(rng.choice([0, 0, 0, 10, 1e3, 1e6]))
    return X + offset * X.std(axis=0) * rng.choice([-1, 1], d) * (rng.random(d) < 0.7), offset


def _weights(rng: np.random.Generator, y: np.ndarray, subjects: np.ndarray) -> np.ndarray:
    """All 1, random, or some zero; everybody keeps a trial of each class."""
    kind, n = rng.choice(3), len(y)
    s = np.ones(n) if kind == 0 else rng.uniform(0.1, 3, n) * (rng.random(n) < (1.0 if kind == 1 else 0.8))
    for subject in np.unique(subjects):
        for sign in (-1, 1):
            own = np.flatnonzero((subjects == subject) & (y == sign))
            s[own[0]] = max(s[own[0]], 0.5)
    return s


def _betas(rng: np.random.Generator, G: int, penalty: str, share: float) -> np.ndarray:
    """Group weights, one of them 0 or infinite now and then; at least one sensor is penalised."""
    beta = rng.uniform(0.5, 2, G) if penalty == "group" and rng.random() < 0.3 else np.ones(G)
    for special in (0.0, np.inf):
        if G > 1 and rng.random() < share:
            beta[rng.integers(1, G)] = special
    return beta


# Fitting and grading.


def fit(case: Case, tol: float = TOL):
    """Fit the estimator of a case with default settings but for the tolerance."""
    joint = case.similarity > 0 or case.noise or len(case.rows) > 1
    settings = {
        "penalty": case.penalty,
        "q": case.q,
        "groups": case.groups,
        "group_weights": case.beta,
        "fit_intercept": case.fit_intercept,
        "tol": tol,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.n_alphas > 1:
            return _end_of_path(case, settings)
        if not joint:
            return GroupSVC(case.alpha, **settings).fit(case.X, case.y, sample_weight=case.s)
        given = {t: noise(case, rows) for t, rows in enumerate(case.rows)} if case.noise else None
        model = MultiTaskGroupSVC(case.alpha, similarity=case.similarity, noise=given, **settings)
        return model.fit(case.X, case.y, subjects=case.subjects, sample_weight=case.s)


def _end_of_path(case: Case, settings: dict) -> SimpleNamespace:
    """The solution at the last alpha of a path from alpha_max, and the most steps for one of its alphas."""
    alphas = np.geomspace(case.alpha / case.share, case.alpha, case.n_alphas)
    path = group_svc_path(case.X, case.y, alphas=alphas, sample_weight=case.s, **settings)
    last = {"coef_": path.coefs[-1:], "intercept_": path.intercepts[-1:], "dual_gap_": path.dual_gaps[-1]}
    return SimpleNamespace(**last, n_iter_=path.n_iters.max())


def examine(kind: str, seed: int, convex: bool = False) -> Outcome:
    """Draw, fit and grade one problem."""
    case = GENERATORS[kind](np.random.default_rng([seed, len(kind)]))
    started = time.process_time()
    model = fit(case)
    seconds = time.process_time() - started
    own = value(case, model.coef_, model.intercept_)
    exact = fit(case, 1e-12)
    least = min(own, value(case, exact.coef_, exact.intercept_))
    if convex or not model.dual_gap_ <= TOL:
        least = min(least, _convex_value(case))
    about = {"n": len(case.y), "d": case.X.shape[1], "T": len(case.rows), "penalty": case.penalty, "q": case.q}
    about |= {"offset": case.offset, "noise": case.noise, "unpenalised": bool((case.beta == 0).any())}
    excess = float((own - least) / own) if own > _score_rounding(case, model) else 0.0
    found = float(model.dual_gap_), excess, seconds, int(np.max(model.n_iter_))
    return Outcome(seed, *found, case.share, case.similarity if len(case.rows) > 1 else 0.0, about)


def _score_rounding(case: Case, model) -> float:
    """The loss that rounding the scores in double precision alone may make; 1e-24 counts as zero in any case."""
    size = np.abs(case.X).max(axis=0) @ np.abs(model.coef_).max(axis=0) + np.abs(model.intercept_).max()
    return max(float((4 * np.finfo(float).eps * size) ** 2), 1e-24)


def _convex_value(case: Case):
    """The value at the point that a general convex solver finds; infinite where it finds none, or is not installed."""
    try:
        from cvxpy.error import DCPError

        from reference import convex_reference
    except ImportError:
        return np.inf

    parts = [[part[rows] for rows in case.rows] for part in (case.X, case.y, case.s)]
    means = [np.average(X, axis=0, weights=s) for X, s in zip(parts[0], parts[2], strict=True)]
    means = [mean * case.fit_intercept for mean in means]
    parts[0] = [X - mean for X, mean in zip(parts[0], means, strict=True)]
    maps = roots(case) if case.noise else None
    whitened = case.noise and case.penalty == "l2"  # then it is the problem without noise on whitened trials
    if whitened:
        parts[0] = [np.linalg.solve(root, X.T).T for root, X in zip(maps, parts[0], strict=True)]
    rest = (case.groups, case.beta, case.similarity, case.fit_intercept, None if whitened else maps)
    try:
        _, W, b = convex_reference(*parts, case.alpha, case.penalty, case.q, *rest)
    except (RuntimeError, DCPError):  # it knows no norm with q within 0.001 of 1
        return np.inf
    if whitened:
        W = np.stack([np.linalg.solve(root, v) for root, v in zip(maps, W, strict=True)])
    W = np.where(np.isinf(case.beta)[case.groups], 0.0, W)
    return value(case, W, np.asarray(b) - np.sum(np.array(means) * W, axis=1))


def demanded(outcome: Outcome) -> bool:
    """Whether the fit must reach tol with default settings."""
    return outcome.share >= LEAST_ALPHA and outcome.similarity <= MOST_SIMILARITY


def summary(outcomes: list[Outcome]) -> dict:
    """Counts of what went wrong, and the seconds."""
    missed = [o for o in outcomes if not o.gap <= TOL]
    seconds = np.array([o.seconds for o in outcomes])
    return {
        "problems": len(outcomes),
        "above tol": sum(map(demanded, missed)),
        "above tol, beyond the bounds": len(missed) - sum(map(demanded, missed)),
        "certified too well": sum(o.excess > o.gap for o in outcomes),
        "at the optimum, not certified": sum(o.excess <= 1e-9 for o in missed),
        "median s": float(np.median(seconds)),
        "slowest s": float(seconds.max()),
        "most steps": max(o.n_iter for o in outcomes),
    }


def main() -> None:
    """Examine many problems and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(GENERATORS))
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1, help="first seed; each problem has the next")
    parser.add_argument("--convex", type=float, default=0.0, help="share of problems that a convex solver checks")
    parser.add_argument("--json", help="file for one line of JSON per problem")
    args = parser.parse_args()
    every = round(1 / args.convex) if args.convex else 0
    outcomes = []
    for seed in range(args.seed, args.seed + args.count):
        outcomes.append(examine(args.kind, seed, bool(every) and seed % every == 0))
        if args.json:
            with open(args.json, "a") as lines:
                print(json.dumps(asdict(outcomes[-1])), file=lines)
    for name, count in summary(outcomes).items():
        print(f"{name:32} {count:.6g}")


if __name__ == "__main__":
    main()
