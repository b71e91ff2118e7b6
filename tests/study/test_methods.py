import sys
from dataclasses import replace

import numpy as np
import pytest

from mixnorm import MultiTaskGroupSVCCV
from mixnorm.study import METHODS
from mixnorm.study.methods import Settings, Training, inner_folds
from mixnorm.study.plan import PAPER_QS

SETTINGS = Settings((0.01, 0.1), PAPER_QS[::5], (0.0, 0.1), 3, honest=False)


@pytest.fixture(scope="module")
def trials():
    """Training and test trials of two subjects with a response on channel 2."""
    rng = np.random.default_rng(1)
    y = rng.permutation(np.arange(360) % 3 == 0).astype(int)
    X = rng.standard_normal((360, 5, 6))
    X[:, 2] += 1.6 * y[:, None] * np.hanning(6)
    subject = np.repeat(["A", "B"], 180)
    train = np.arange(360) % 2 == 0
    training = Training(X[train], y[train], subject[train], np.arange(180) // 15)
    return training, X[~train], subject[~train], y[~train]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_ranks_targets_above_the_rest(name, trials):
    training, X, who, y = trials
    # one of the paper's and one peer are enough to see that honest folds reach the methods
    settings = replace(SETTINGS, honest=name in ("gsvm-2", "lda"))
    outcome = METHODS[name].fit(training, X, who, settings)
    assert outcome.scores.shape == y.shape
    above = outcome.scores[y == 1][:, None] > outcome.scores[y == 0]
    assert above.mean() > 0.7
    assert outcome.selected[2]
    assert outcome.selected.shape == (5,)


def test_the_joint_method_with_noise_is_the_estimator_with_evoked_noise(trials):
    training, X, who, _ = trials
    folds = inner_folds(training, SETTINGS)
    model = MultiTaskGroupSVCCV(penalty="l2", noise="evoked", cv=folds, rehearse=False)
    model.fit(training.X, training.y, subjects=training.subject)
    found = METHODS["msvm-noise"].fit(training, X, who, SETTINGS)
    np.testing.assert_array_equal(found.scores, model.decision_function(X, subjects=who))
    assert found.chosen["similarity"] == model.similarity_


def test_the_method_with_windows_says_how_many_it_keeps(trials):
    training, X, who, _ = trials
    late = replace(training, X=training.X * [1, 1, 1, 1, 1, 0])  # a window without a signal cannot be kept
    chosen = METHODS["gsvm-2-when"].fit(late, X, who, replace(SETTINGS, alphas=(0.3,))).chosen
    assert chosen["window_share"] in (0.2, 0.5, 0.8)
    assert chosen["windows_kept"] in [pytest.approx(100 * kept / 6) for kept in range(1, 6)]
    assert METHODS["gsvm-2"].fit(training, X, who, SETTINGS).chosen["windows_kept"] is None


@pytest.mark.parametrize("name", ["xdawn-lda", "xdawncov-ts-lr"])
def test_spatial_filters_find_a_response_hidden_in_common_noise(name):
    # 30 channels whose noise lives in few directions, 12 samples: a covariance of the average response that is
    # shrunk towards the identity would send the filters to the quietest directions, where there is nothing.
    rng = np.random.default_rng(2)
    y = rng.permutation(np.arange(400) % 2)
    mixing = rng.standard_normal((30, 30)) * np.geomspace(1, 0.02, 30)
    X = np.einsum("cd,ndt->nct", mixing, rng.standard_normal((400, 30, 12)))
    X += 1.2 * y[:, None, None] * mixing[:, :1] * np.hanning(12)
    train = Training(X[:200], y[:200], np.full(200, "A"), np.arange(200))
    scores = METHODS[name].fit(train, X[200:], np.full(200, "A"), SETTINGS).scores
    above = scores[y[200:] == 1][:, None] > scores[y[200:] == 0]
    assert above.mean() > 0.7


@pytest.mark.parametrize("name", ["svm", "svm-1", "gsvm-2", "gsvm-q", "gsvm-a", "gsvm-2-when"])
def test_the_chosen_model_lies_on_the_path(name, trials):
    training, X, who, _ = trials
    outcome = METHODS[name].fit(training, X, who, SETTINGS)
    at = SETTINGS.alphas.index(outcome.chosen["alpha"])
    np.testing.assert_allclose(outcome.path_scores[at], outcome.scores, atol=1e-12)
    np.testing.assert_array_equal(outcome.path_selected[at], outcome.selected)


def test_inner_folds_hold_a_share_of_every_subject_and_class(trials):
    training = trials[0]
    folds = list(inner_folds(training, SETTINGS))
    assert len(folds) == SETTINGS.folds
    for train, test in folds:
        assert not set(train) & set(test)
        assert len(train) + len(test) == 180
        for who in "AB":
            mine = test[training.subject[test] == who]
            assert len(mine) == 30
            assert 0 < training.y[mine].mean() < 1


def test_honest_inner_folds_tear_no_group(trials):
    training = trials[0]
    settings = Settings((0.1,), (2.0,), (0.0,), 3, honest=True)
    folds = list(inner_folds(training, settings))
    assert len(folds) == 3
    for train, test in folds:
        assert not set(training.groups[train]) & set(training.groups[test])


@pytest.mark.parametrize("name", ["xdawn-lda", "xdawncov-ts-lr"])
def test_without_pyriemann_the_extra_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyriemann", None)
    with pytest.raises(ImportError, match=r'needs pyriemann.*pip install "mixnorm\[moabb\]"'):
        METHODS[name].check()


def test_without_pyriemann_a_plan_is_refused_before_anything_runs(plan, tmp_path, monkeypatch):
    from mixnorm.study import run_study

    monkeypatch.setitem(sys.modules, "pyriemann", None)
    with pytest.raises(ImportError, match=r"mixnorm\[moabb\]"):
        run_study(plan.with_(methods=("svm", "xdawn-lda")), tmp_path / "out")
    assert not (tmp_path / "out").exists()
