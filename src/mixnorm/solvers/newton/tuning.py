"""The constants of Newton's method: those that the engines share, and a table of those in which they differ.

The host engine solves one problem at a time and may decide in Python after every step; the batched engine takes a
fixed sequence of operations for all problems at once, each of which costs a launch on the device, and cannot look at a
number without waiting for it. That is the reason for every difference between their tables. A third table is that of
paths in the Gram matrix, where a look at all groups costs next to nothing, and a look at the trials a little.
"""

from dataclasses import dataclass

#: Levenberg-Marquardt damping to begin with, in units of the Hessian's diagonal, and its bounds.
DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-6, 1e-10, 1e3
#: What the damping is multiplied with where no step length was accepted: at once large, since every attempt failed.
REFUSED_FACTOR = 1e3
#: How many times longer a step in u may get for small coefficients where 1 < q < 2; where the features of subjects are
#: of unlike size, those of one have the norm and those of another the curvature, and no step of that length would do.
LONGEST = 1e3
#: Largest curvature of a norm, in units of the atom's trace: without it that of a group near zero has no bound.
STIFFEST = 1e8
#: An atom asks to enter where its dual norm exceeds its threshold by this share, which is more than rounding.
ASKING = 1e-10
#: Sufficient decrease of a step, as a share of what its quadratic model predicts (Armijo).
SUFFICIENT = 1e-4
#: With ℓ2, a decrease of the value by less than this share of the gap is no progress: thousands of such steps would
#: be needed.
PROGRESS = 1e-4
#: Coordinates per trial from which the systems of several subjects are solved through the trials of each.
THROUGH_TRIALS_OF_SUBJECTS = 1.2
#: A gap of so many times tol says that the path was lost, and that another start is more likely to help.
LOST = 100.0


@dataclass(frozen=True)
class CoarsePath:
    """The alphas by which a far alpha is approached: ratio of one to the one before, and the gap to reach at each."""

    ratio: float
    gap: float


@dataclass(frozen=True)
class EntryLimit:
    """How many groups may enter together, from so many trials per coefficient: least, or a share of those present."""

    trials: float
    least: int
    share: float


@dataclass(frozen=True)
class Tuning:
    """Constants of one engine.

    Attributes
    ----------
    gamma : float
        γ of the normal map in units of one over the atom's share of the trace of the Hessian.
    patience : int
        Looks at the whole problem without progress before it is given up.
    most_patience : int
        The same where atoms still ask to enter: some enter and leave in turn for ever.
    coarse, fine : CoarsePath
        ``fine`` is for q near 1 with fewer trials than features, where too coarse a path ends among edges of the norm,
        for tiny alphas with 1 < q < 2, and for another start of a problem that was lost.
    entry_limits : tuple of EntryLimit
        From many trials to few: many groups that enter together must mostly leave again, the more so the fewer trials.
    coefficients_at_once : int
        How many coefficients may enter together with ℓ1.
    lengths, damping_factors : tuples of float
        Step lengths that are tried, and what the damping is multiplied with where each is taken.
    goals : tuple of float
        The gap to reach by the solver's own estimate, in units of tol, first and where the certificate is still open.
    """

    gamma: float
    patience: int
    most_patience: int
    coarse: CoarsePath
    fine: CoarsePath
    entry_limits: tuple[EntryLimit, ...]
    coefficients_at_once: int
    lengths: tuple[float, ...]
    damping_factors: tuple[float, ...]
    goals: tuple[float, ...]

    def entry_limit(self, trials_per_coefficient: float) -> EntryLimit:
        """Return the limit for so many trials per coefficient."""
        return next(limit for limit in self.entry_limits if trials_per_coefficient >= limit.trials)


_FEW_TRIALS = EntryLimit(0.0, 2, 0.2)
_FINE_PATH = CoarsePath(0.4, 1e-2)

HOST = Tuning(
    gamma=10.0,  # measured, flat around this
    patience=5,  # between two looks there are up to INNER_STEPS Newton steps
    most_patience=20,
    coarse=CoarsePath(0.2, 1e-1),
    fine=_FINE_PATH,
    entry_limits=(EntryLimit(3.0, 16, 2.0), EntryLimit(1.0, 8, 1.0), _FEW_TRIALS),
    coefficients_at_once=4,  # of low correlation
    lengths=tuple(2.0**-k for k in range(40)),  # one after the other, as long as none is accepted
    damping_factors=(1 / 16, *(4.0 ** max(k - 4, 0) for k in range(1, 40))),
    goals=(1.0, 0.1, 0.01, 0.001),  # taking a problem up again costs a few steps of this problem alone
)

BATCHED = Tuning(
    gamma=12.0,  # fewest steps of the longest path; with 25 and with 6 it takes 5 to 10 % more
    patience=20,  # there is a look after every step
    most_patience=80,  # as many times the patience as on the host
    coarse=_FINE_PATH,  # no problem can be taken back to a finer path later, so that all take it
    fine=_FINE_PATH,
    entry_limits=(
        _FEW_TRIALS,
    ),  # for all problems, whatever their trials: a wrong entry costs a step of the whole batch
    coefficients_at_once=6,  # 8 take as many steps, and more operations
    lengths=(1.0, 0.5, 0.25, 1 / 16, 1 / 128, 1 / 2048),  # all at once, and the best is taken: few, and far apart
    damping_factors=(1 / 16, 1.0, 1.0, 4.0, 16.0, 64.0),  # per length, growing faster as lengths are further apart
    goals=(0.7, 0.1, 0.01),  # first a little below tol: taking up again costs steps of the whole batch
)


@dataclass(frozen=True)
class GramTuning:
    """Constants of the engine that works in the Gram matrix of the trials of a small problem.

    Attributes
    ----------
    most_features, least_trials, least_alphas : int, float, int
        Paths of so few features, so many trials per feature, and so many alphas begin with it.
    rounding : float
        A path is left where the rounding of the value may be more than this share of the gap to reach.
    lengths : tuple of float
        Parts of a step that is too long; the best of them is taken.
    damping_factor : float
        By so much the damping falls after a whole step, and rises after another one, but not above where it begins.
    entry, entry_few, few, settled : float
        Groups enter if decrease · value ≤ entry · gain or decrease ≤ settled, where ``decrease`` is the share of the
        value that the last step predicted, and ``gain`` what the proximal step of these groups gains. Where fewer
        trials are inside the margin than ``few`` times the features, it is ``entry_few`` · gain, and no group enters
        before the first step at an alpha.
    coarse : CoarsePath
        How a far alpha is approached from the zero model.
    least_size, most_crossed, near : int, int, float
        A system of so many coordinates is solved by conjugate gradients with the factor of a former step, if at most
        so many trials have crossed the margin since, and the last step predicted at most this share of the value.
    iterations, exactness : int, float
        The most iterations, and the share of the predicted decrease that they may leave.
    """

    most_features: int
    least_trials: float
    least_alphas: int
    rounding: float
    lengths: tuple[float, ...]
    damping_factor: float
    entry: float
    entry_few: float
    few: float
    settled: float
    coarse: CoarsePath
    least_size: int
    most_crossed: int
    near: float
    iterations: int
    exactness: float


GRAM = GramTuning(
    most_features=512,  # 0.6 of the time of the host engine with 256 features, 0.85 with 512, 0.8 to 1.7 with 768
    least_trials=0.5,  # with fewer, systems of the size of the trials are cheaper
    least_alphas=5,  # one fit takes as long with the host engine, which needs no Gram matrix of all features
    rounding=0.1,  # with 1, the host engine starts from a point at which both engines stall (a class of weight 1e-8)
    lengths=(0.25, 1 / 16, 1 / 64),  # each costs one product with the Gram matrix
    damping_factor=16.0,  # without, alphas near 1e-6 of alpha_max take up to 300 steps instead of 25
    entry=20.0,  # flat from 5 to 100; with 0.5 a path takes a fifth more steps
    entry_few=1.0,  # flat from 0.1 to 5
    few=2.0,  # with 1, 240 trials of 56 × 2 take a quarter more steps; with 5, 1000 trials of 32 × 8 a fifth more
    settled=1e-6,  # with 1e-5 some alphas of 240 trials of 56 × 2 take 66 steps instead of 14
    coarse=CoarsePath(0.4, 1e-1),
    least_size=128,  # a smaller factor costs no more than two iterations
    most_crossed=2,  # every one costs about one more iteration
    near=1e-2,
    iterations=4,  # more cost as much as a factor of 257 coordinates
    exactness=1e-5,  # flat from 1e-4 to 1e-6
)

# --- of the host engine alone ---

#: Newton steps on the present atoms between two looks at the whole problem.
INNER_STEPS = 30
#: So many steps in turn that had to be cut short end them too, where all promised little: other atoms may be needed.
CUT_STEPS = 5
#: Newton steps for the intercepts before the general method takes over.
INTERCEPT_STEPS = 6
#: From so many trials per coefficient on, a far alpha is reached without a coarse path.
PLENTY = 3.0
#: But not where alpha is so small a share of alpha_max: the jump would leave no trial inside the margin, and with the
#: trials all curvature of the loss would go.
NEAR = 1e-4
#: With 1 < q < 2 an alpha below this share of alpha_max is approached by the fine path: at the end of a coarse one
#: hundreds of steps were needed now and then.
FAINT = 1e-6
#: With ℓ2 an alpha below this share of the loss's largest curvature is approached by the fine path as well.
VANISHING = 1e-10
#: Steps for one alpha after which another start is more likely to help than more steps: the larger of a number and so
#: many for every coefficient.
MOST_STEPS, MOST_STEPS_PER_COEFFICIENT = 300, 5
#: How often a proximal gradient step of all atoms is shortened, by a factor of 4 each, before it is left out.
SHORTER_STEPS = 12
#: A straight step that brings this share of the predicted decrease shows that the next one may be damped less.
PROMISE_KEPT = 0.5
#: Steps through the prox of so many times the best length along the straight line, and shorter ones, are tried: of
#: 500 steps that were accepted, 1 in 100 was longer.
LONGER_THAN_STRAIGHT = 256.0
#: How exactly the length of least value along a step is found, as a share of it, and of the whole step.
LINE_TOLERANCE, LEAST_LENGTH = 1e-3, 1e-15
#: Below this q a coefficient of 1e-3 of its group's norm still has half the slope of a large one.
NEARLY_L1 = 1.1
#: Shares of its diagonal that are added to a matrix, one after the other, until it can be factorised.
RIDGES = tuple(1e-14 * 100.0**k for k in range(12))
#: So few coefficients may all enter at once, if there are four times as many trials.
TINY = 32
#: From this correlation on, two coefficients may not enter together with ℓ1.
ALIKE = 0.3
#: Coordinates per trial inside the margin from which one subject's system is solved through the trials.
THROUGH_TRIALS = 1.6
#: The same, of one subject's system by the factors of its metric and the trials.
THROUGH_FACTORS = 1.6
#: From so many numbers in X on, groups that enter begin at a minimum (`host/entry.py`), not with a proximal step. On
#: 1000 × 32·8 that saves 1 step in 8 but no time, and a single fit takes longer; on 1000 × 64·8 it saves a tenth of
#: the time, on larger problems up to a quarter.
PRECISE_ENTRY = 300_000
#: From so many coordinates on, a factorised matrix is kept for the next steps (`host/kept.py`). Below, a step costs
#: little more with a new one, and with the old one there are more steps.
KEPT_FROM = 512
#: or from a step on whose predicted decrease is so small a share of the value: the next one is mostly the last.
KEPT_NEAR = 1e-4
#: It is used again only if no more trials per coordinate have crossed the margin than this,
KEPT_TRIALS = 0.08
#: and only while every step gains less than this share of the one before: else it no longer fits.
KEPT_DECREASE = 0.05
#: Where the next solution of a path is expected, a trial inside the margin counts as one that leaves if it
#: is further outside than this many times what it was inside (`host/predictor.py`); flat from 0.1 to 0.5.
LEAVES = 0.3
#: With fewer trials than coefficients, the present atoms move at a new alpha until a step decreases the value by no
#: more than this share, before others may enter: a fifth less work on 800 × 64·32 to 2000 × 128·64; flat from 1e-3 to
#: 1e-6.
PRESENT_FIRST = 1e-5

# --- of the batched engine alone ---

#: New atoms enter once the last step was this small a share of the gap.
SETTLED = 0.3
#: Lengths of an entering atom's proximal step, of which the best is taken; the host searches for the best length.
ENTRY_LENGTHS = tuple(2.0**-k for k in range(-2, 10))
#: Newton steps of the prox of entering atoms, for 1 < q < 2. It gives a direction only, of which the best length is
#: taken: paths take as many steps with 1 as with 6.
ENTRY_PROX_STEPS = 2
#: A step that gained this share of the decrease that its slope promised was taken as a whole; of a quadratic function
#: it gains a half. Flat from 0.3 to 0.48.
WHOLE_STEP = 0.4
#: A step that gained less counts as one of so many times the decrease, when it is asked whether the present atoms have
#: settled: many that enter after such a step must leave again. With ℓ1 and four coefficients at once the longest of 16
#: paths took 1025 steps with 1, 285 with 300, 262 with 3e3 and 245 with 3e4.
CUT_SHORT = 1e4
