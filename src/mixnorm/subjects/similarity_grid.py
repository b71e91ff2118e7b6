"""The grid of alphas and similarities of a joint fit: its values, and the order in which it is solved."""

import numpy as np

from mixnorm.core.problem import Stack
from mixnorm.subjects.multitask import check_similarity

#: Smallest and largest positive similarity of an automatic grid. The unit is the mean square of the features divided
#: by the number of subjects T, the curvature of one subject's loss: at 1 both terms have about the same influence.
SIMILARITY_RANGE = (1e-2, 1e2)
#: The same for ℓ2 with noise, in units of alpha/2 (see `similarity_table`).
RATIO_RANGE = (0.3, 100.0)


def similarity_table(similarities, alphas: np.ndarray, stack: Stack, has_noise: bool) -> np.ndarray:
    """Return the similarities (S, 1), or (S, A) where there is another one for every alpha.

    As given, or 0 and a log grid: for ℓ2 with noise in units of alpha/2, otherwise in units of mean(x²)/T. In the
    limit of a large alpha, ℓ2 with noise gives v_t ∝ δ_t + (2 similarity/alpha) δ̄, where δ_t is the difference of the
    class means of subject t in white coordinates: what a subject takes over from the others depends on the ratio.
    """
    if isinstance(similarities, int | np.integer) and not isinstance(similarities, bool):
        if similarities < 1:
            raise ValueError(
                f"Invalid value for the 'similarities' parameter. Allowed are numbers from 1, but got {similarities}."
            )
        if has_noise and not stack.penalty.is_norm:
            ratios = np.concatenate([[0.0], np.geomspace(*RATIO_RANGE, similarities - 1)])
            return ratios[:, None] * alphas / 2
        used = stack.trial_weight[0, :, :, -1]
        square = float(np.einsum("tn,tnd,tnd->", used, stack.X[0], stack.X[0])) / stack.shape[3]
        unit = (square if square > 0 else 1.0) / stack.shape[1]
        return np.concatenate([[0.0], unit * np.geomspace(*SIMILARITY_RANGE, similarities - 1)])[:, None]
    values = np.asarray(similarities, dtype=float)
    if values.ndim != 1 or not len(values):
        raise ValueError("similarities must be a number or a non-empty sequence of numbers.")
    return np.array([check_similarity(value) for value in values.tolist()])[:, None]


def grid_order(alphas: np.ndarray, n_similarities: int) -> list[tuple[int, int]]:
    """Return the indices (alpha, similarity) of all grid points from the largest alpha down.

    The similarities alternate between increasing and decreasing order. Each point is then a neighbour of the one
    before it, whose solution is the starting point of the solver.
    """
    cells = []
    for turn, a in enumerate(np.argsort(-alphas, kind="stable").tolist()):
        places = range(n_similarities)
        cells += [(a, s) for s in (places if turn % 2 == 0 else reversed(places))]
    return cells
