"""Inverses of and products with triangular matrices, against those of any matrix."""

import numpy as np
import pytest

from mixnorm.core.triangular import inverse, times


@pytest.fixture(params=["numpy", "torch"])
def as_array(request):
    return np.array if request.param == "numpy" else pytest.importorskip("torch").as_tensor


@pytest.mark.parametrize("d", [0, 1, 5, 9])
def test_of_leading_blocks(as_array, d):
    rng = np.random.default_rng(0)
    lower = np.tril(rng.standard_normal((9, 9))) + 4 * np.eye(9)
    X, L = rng.standard_normal((4, 9)), as_array(lower)[:d, :d]
    part = as_array(X)[:, :d]
    np.testing.assert_allclose(inverse(L), np.linalg.inv(lower[:d, :d]), atol=1e-14)
    np.testing.assert_allclose(times(part, L), X[:, :d] @ lower[:d, :d], atol=1e-13)
    np.testing.assert_allclose(times(part, L, transpose=True), X[:, :d] @ lower[:d, :d].T, atol=1e-13)
    # nothing that was given has changed
    np.testing.assert_array_equal(L, lower[:d, :d])
    np.testing.assert_array_equal(part, X[:, :d])
