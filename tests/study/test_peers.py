"""The LDA peers against scikit-learn and against matrices built entry by entry."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from mixnorm.study.discriminant import ShrinkageLDA, ToeplitzLDA
from mixnorm.study.peers import lda


def made_trials(n, C, r, seed=0):
    """Coloured trials (n, C, r) of two classes of unequal size and spread."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.where(np.arange(n) % 3 == 0, "target", "other"))
    mixing = rng.standard_normal((C, C)) * np.geomspace(3, 0.3, C)
    X = np.cumsum(mixing @ rng.standard_normal((n, C, r)), axis=2)
    X[y == "target"] *= 1.3
    return X + 5.0 + 0.5 * (y == "target")[:, None, None] * np.hanning(r + 2)[1:-1], y


def assert_close(actual, expected, tol=1e-8):
    """Equal to ``tol`` of the largest entry."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize("shrinkage", ["auto", 0.01, 0.3, 1.0])
@pytest.mark.parametrize("n", [12, 40, 41, 300])
def test_shrinkage_lda_is_that_of_scikit_learn_on_both_sides_of_n_equal_to_d(shrinkage, n):
    X, y = made_trials(n, 8, 5)
    expected = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X.reshape(n, -1), y)
    model = ShrinkageLDA(shrinkage).fit(X, y)
    assert_close(model.coef_, expected.coef_)
    assert_close(model.decision_function(X), expected.decision_function(X.reshape(n, -1)))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X.reshape(n, -1)))


@pytest.mark.parametrize("n", [12, 300])
def test_shrinkage_lda_treats_constant_features_as_scikit_learn_does(n):
    X, y = made_trials(n, 8, 5)
    X[:, 3], X[:, 4, 2] = 0.1, np.where(y == "target", 0.0, X[:, 4, 2])  # constant in both classes, and in one
    expected = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X.reshape(n, -1), y)
    assert_close(ShrinkageLDA().fit(X, y).coef_, expected.coef_)


def test_lda_peer_chooses_and_scores_as_a_search_over_scikit_learns_lda():
    X, y = made_trials(60, 8, 5, seed=3)
    y = (y == "target").astype(int)
    folds = list(StratifiedKFold(3).split(X, y))
    peer = lda(folds).fit(X, y)
    grid = {"shrinkage": peer.param_grid["shrinkage"]}
    search = GridSearchCV(LinearDiscriminantAnalysis(solver="lsqr"), grid, scoring="roc_auc", cv=folds)
    search.fit(X.reshape(60, -1), y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 3  # the parameter matters here
    np.testing.assert_allclose(peer.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"], atol=1e-12)
    assert peer.best_params_ == search.best_params_
    assert_close(peer.decision_function(X), search.decision_function(X.reshape(60, -1)))


def toeplitz_covariance(X, y):
    """The matrix of Sosulski and Tangermann step by step, sensor by sensor."""
    n, C, r = X.shape
    E = np.concatenate([X[y == label] - X[y == label].mean(axis=0) for label in np.unique(y)]).reshape(n, -1)
    scaler = StandardScaler().fit(E)
    shrunk = ledoit_wolf(E / scaler.scale_, assume_centered=True)[0]
    full = (np.diag(scaler.scale_) @ shrunk @ np.diag(scaler.scale_)).reshape(C, r, C, r)
    out = np.empty_like(full)
    for s in range(r):
        for t in range(r):
            blocks = [full[:, a, :, a + t - s] for a in range(r) if 0 <= a + t - s < r]
            out[:, s, :, t] = np.mean(blocks, axis=0) * (1 - abs(t - s) / r)
    return out.reshape(C * r, C * r)


@pytest.mark.parametrize("n", [12, 300])
def test_toeplitz_lda_has_the_covariance_of_the_paper(n):
    X, y = made_trials(n, 6, 5)
    means = [X[y == label].mean(axis=0).ravel() for label in ("other", "target")]
    w = np.linalg.solve(toeplitz_covariance(X, y), means[1] - means[0])
    model = ToeplitzLDA().fit(X, y)
    assert_close(model.coef_[0], w)
    odds = np.sum(y == "target") / np.sum(y == "other")
    assert model.intercept_[0] == pytest.approx(np.log(odds) - w @ (means[0] + means[1]) / 2)
    assert model.classes_.tolist() == ["other", "target"]


def test_toeplitz_lda_takes_a_dead_channel():
    X, y = made_trials(40, 6, 5)
    X[:, 2] = 0.0
    model = ToeplitzLDA().fit(X, y)
    w = np.linalg.solve(
        toeplitz_covariance(X, y), np.subtract(*(X[y == k].mean(axis=0).ravel() for k in ("target", "other")))
    )
    assert_close(model.coef_[0], w)
    np.testing.assert_array_equal(model.coef_.reshape(6, 5)[2], 0.0)


@pytest.mark.parametrize("make", [ShrinkageLDA, ToeplitzLDA])
def test_another_number_of_classes_is_refused(make):
    X, _ = made_trials(9, 3, 2)
    with pytest.raises(ValueError, match=r"two classes, but y has 3: \['a', 'b', 'c'\]"):
        make().fit(X, np.tile(["a", "b", "c"], 3))


@pytest.mark.parametrize("shrinkage", ["auto", 0.1])
def test_trials_that_are_all_the_same_are_refused(shrinkage):
    X, y = np.ones((8, 2, 3)), np.tile([0, 1], 4)
    with pytest.raises(ValueError, match=r"cannot be shrunk: the trials of each class are all the same"):
        ShrinkageLDA(shrinkage).fit(X, y)
    with pytest.raises(ValueError, match=r"all training trials of each class are the same"):
        ToeplitzLDA().fit(X, y)
