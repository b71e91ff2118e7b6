"""Symmetric roots: by eigenvectors and by products of matrices, against the definition."""

import numpy as np
import pytest

from mixnorm.core import symmetric_root as module
from mixnorm.core.symmetric_root import symmetric_root


def positive_definite(condition, d=30, scale=1.0):
    vectors, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((d, d)))
    N = scale * (vectors * np.geomspace(1 / condition, 1.0, d)) @ vectors.T
    return (N + N.T) / 2


@pytest.fixture(params=["numpy", "torch"])
def as_array(request):
    return np.asarray if request.param == "numpy" else pytest.importorskip("torch").as_tensor


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_root_is_symmetric_and_its_square_is_the_matrix(condition, scale, as_array):
    N = positive_definite(condition, scale=scale)
    right = np.linspace(-1.0, 1.0, len(N))
    root, solved = (np.asarray(part) for part in symmetric_root(as_array(N), as_array(right)))
    np.testing.assert_allclose(root, root.T, rtol=0, atol=1e-14 * scale**0.5)
    np.testing.assert_allclose(root @ root, N, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh(root)[0] > 0
    np.testing.assert_allclose(root @ solved, right, atol=1e-11 * condition**0.5)


def test_iteration_that_does_not_converge_is_replaced_by_eigenvectors(monkeypatch):
    torch = pytest.importorskip("torch")
    N, right = torch.as_tensor(positive_definite(1e6)), torch.ones(30, dtype=torch.float64)
    expected = symmetric_root(N, right)
    monkeypatch.setattr(module, "_MOST_ITERATIONS", 5)
    assert module._by_iteration(N, right) is None
    for part, other in zip(symmetric_root(N, right), expected, strict=True):
        np.testing.assert_allclose(part.numpy(), other.numpy(), atol=1e-9)
