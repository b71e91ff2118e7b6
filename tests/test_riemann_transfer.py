"""The peer of the benchmark of new subjects (benchmarks/_riemann.py): it must be at its best to be worth comparing."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="benchmarks are not part of the source distribution")

N_CHANNELS, N_TIMES, N_TRIALS = 24, 8, 60


@pytest.fixture
def peer(monkeypatch):
    pytest.importorskip("pyriemann", reason="pyRiemann is not installed")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _riemann

    monkeypatch.setattr(_riemann, "N_FILTERS", (2,))
    monkeypatch.setattr(_riemann, "WEIGHTS", (10.0,))
    return _riemann


def subject(rng, flipped=False):
    """Trials (n, d) with more channels than samples, and labels: one response in all subjects.

    As in EEG, few sources make most of the noise, and the pattern of the response is one of theirs.
    """
    y = np.tile([0, 1], N_TRIALS // 2)
    sources = np.random.default_rng(5).normal(size=(N_CHANNELS, 4)) + 0.3 * rng.normal(size=(N_CHANNELS, 4))
    X = np.einsum("cd,nds->ncs", sources, rng.normal(size=(N_TRIALS, 4, N_TIMES)))
    X += 0.1 * rng.normal(size=X.shape)
    X[y == 1] += np.outer(sources[:, 0], 2.0 * np.hanning(N_TIMES))
    return X.reshape(N_TRIALS, -1), 1 - y if flipped else y


@pytest.fixture
def known():
    rng = np.random.default_rng(0)
    parts = [subject(rng) for _ in range(6)]
    return (*map(np.concatenate, zip(*parts, strict=True)), np.repeat([f"S{t}" for t in range(6)], N_TRIALS))


def test_a_response_of_few_samples_at_many_channels_is_found_in_a_new_subject(peer, known):
    transfer = peer.RiemannTransfer(known, N_CHANNELS, [0], seed=0)
    aucs = []
    for seed in range(1, 4):
        X, y = subject(np.random.default_rng(seed))
        aucs.append(roc_auc_score(y, transfer.scores(X[:0], y[:0], X, labels=False)))
    assert np.mean(aucs) > 0.8


def test_labels_of_a_new_subject_count_only_where_they_are_given(peer, known):
    transfer = peer.RiemannTransfer(known, N_CHANNELS, [0, 40], seed=0)
    X, y = subject(np.random.default_rng(1), flipped=True)
    with_labels, without = (transfer.scores(X[:40], y[:40], X[40:], labels=given) for given in (True, False))
    np.testing.assert_array_equal(without, transfer.scores(X[:40], 1 - y[:40], X[40:], labels=False))
    assert roc_auc_score(y[40:], with_labels) > 0.6  # its trials contradict the others, and weigh ten times as much
    assert roc_auc_score(y[40:], without) < 0.3
