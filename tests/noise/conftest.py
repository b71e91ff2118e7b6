import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(14)


@pytest.fixture
def trials(rng):
    """Coloured trials (n, C, r) with a class mean, signs and weights of a few values, none of them zero."""
    n, C, r = 11, 4, 3
    noise = rng.standard_normal((n, C, C)) @ rng.standard_normal((C, C)) @ rng.standard_normal((C, r))
    signs = np.array([1, -1, 1, 1, -1, -1, 1, -1, -1, -1, 1])
    return noise + 2.0 * (signs > 0)[:, None, None], signs, rng.uniform(0.5, 2.0, n)
