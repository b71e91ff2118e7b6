"""Which windows of time carry the response: known truth, honesty, formulas, checkpoints, bad input."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import Checkpoint, SelectOptions, prepare, select_montage, simulated_recording
from mixnorm.eeg.splitting import InOrder, honest_folds
from mixnorm.estimators.settings import WINDOW_SHARES
from mixnorm.montage import scored_windows as module
from mixnorm.montage import sentences
from mixnorm.montage.assembly import window_ends
from mixnorm.montage.reading import selection_from_json
from mixnorm.montage.scored_windows import score_windows
from mixnorm.montage.trials import SubjectTrials
from selections import selection, typed, with_windows

QUICK = SelectOptions(n_resamplings=0, compare=False, windows=3)
SETTINGS = module._Settings(3, np.ones(4), None)


@pytest.fixture(scope="module")
def design():
    """Six samples of four electrodes; targets differ at the first two electrodes, in the second of three windows."""
    found = prepare(simulated_recording(240, n_channels=4, n_informative=2, seed=1))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4, 6))
    X[found.y == 1, :2, 2:4] += 1.2
    return replace(found, X=X, times=0.1 * np.arange(1, 7))


@pytest.fixture(scope="module")
def found(design):
    return select_montage(design, QUICK)


@pytest.fixture(scope="module")
def subject(design):
    folds = honest_folds(design)
    return SubjectTrials(design.X, np.where(design.y == 1, 1.0, -1.0), folds.number, design.trial_groups())


@pytest.fixture
def few_alphas(monkeypatch):
    """A smaller grid, where the choice of alpha does not matter."""
    monkeypatch.setattr(module, "_N_ALPHAS", 4)


def test_the_window_with_the_response_is_found(found):
    early, middle, late = found.windows
    assert middle.selected
    assert middle.frequency == 1
    assert middle.norm > 3 * max(early.norm, late.norm)
    assert sorted(middle.norms, key=middle.norms.get)[-2:] in (["Fz", "Cz"], ["Cz", "Fz"])
    assert found.window_share in WINDOW_SHARES
    assert found.window_scores.auc > 0.9
    assert found.window_scores.n_folds == 2


def test_windows_meet_half_way_between_samples(found):
    ends = [(one.start, one.stop) for one in found.windows]
    assert ends == [pytest.approx((0.05, 0.25)), pytest.approx((0.25, 0.45)), pytest.approx((0.45, 0.65))]
    assert window_ends(np.array([0.3]), np.array([0])) == [(0.3, 0.3)]
    # five samples in two windows, not equally far apart
    assert window_ends(np.array([0.0, 1, 2, 4, 8]), np.array([0, 0, 0, 1, 1])) == [(-0.5, 3.0), (3.0, 10.0)]


def by_hand(X, y, groups, **options):
    """The classifier that the module describes, from the estimator itself."""
    settings = {"windows": 3, "noise": "structured", "ridge": 1.0, "cv": InOrder(), "tol": 1e-3}
    return GroupSVCCV(**{"alphas": 10} | settings | options).fit(X, y, groups=groups)


def test_norms_and_scores_are_those_of_the_classifier_itself(design, found):
    X, y, groups = design.to_sklearn()
    whole = by_hand(design.preparation.scaler().fit(X).transform(X), y, groups, window_share=WINDOW_SHARES)
    cells = np.sqrt((whole.coef_.reshape(4, 3, 2) ** 2).sum(axis=2))
    shown = np.array([[one.norms[name] for one in found.windows] for name in design.ch_names])
    np.testing.assert_allclose(shown, cells, rtol=1e-3)
    np.testing.assert_allclose([one.norm for one in found.windows], np.sqrt((cells**2).sum(axis=0)), rtol=1e-3)
    assert found.window_share == whole.window_share_
    aucs, often = [], []
    number = honest_folds(design).number
    for fold in np.unique(number):
        train, test = number != fold, number == fold
        scaler = design.preparation.scaler().fit(X[train])
        models = [
            by_hand(scaler.transform(X[train]), y[train], groups[train], window_share=share)
            for share in (WINDOW_SHARES, 0.0)
        ]
        aucs.append([roc_auc_score(y[test], one.decision_function(scaler.transform(X[test]))) for one in models])
        often.append(np.isin([0, 1, 2], models[0].selected_windows_))
    scores = found.window_scores
    assert (scores.auc, scores.all_windows_auc) == pytest.approx(tuple(np.mean(aucs, axis=0)), abs=1e-5)
    assert [one.frequency for one in found.windows] == pytest.approx(np.mean(often, axis=0))
    difference = np.diff(aucs, axis=1)
    assert scores.gain == pytest.approx(-difference.mean(), abs=1e-5)
    # two folds of equal size: n_test / n_train is 1
    assert scores.gain_error == pytest.approx(np.sqrt((1 / 2 + 1) * difference.var(ddof=1)), abs=1e-5)


def test_held_out_trials_have_no_part_in_the_choice(subject, few_alphas):
    away = subject.fold == 0
    rng = np.random.default_rng(5)
    other = replace(
        subject,
        X=np.where(away[:, None, None], 10 * rng.standard_normal(subject.X.shape), subject.X),
        signs=np.where(away, rng.permutation(subject.signs), subject.signs),
    )
    ours, theirs = (module._without_fold([one], 0, SETTINGS) for one in (subject, other))
    np.testing.assert_array_equal(ours["norms"], theirs["norms"])
    assert ours["share"] == theirs["share"]
    assert ours["aucs"][0, 0] != theirs["aucs"][0, 0]


def test_several_subjects_have_one_classifier_and_a_score_each(subject, few_alphas):
    """Whose trials are scaled by themselves; a subject without targets in a fold has no score there."""
    second = replace(subject, X=subject.X[::-1], signs=subject.signs[::-1].copy(), fold=subject.fold[::-1])
    second.signs[second.fold == 1] = -1
    got = score_windows([subject, second], 3, np.ones(4), scaler=None, folds=[0, 1], work=module.Work())
    assert got.norms.shape == (4, 3)
    assert got.chosen.shape == (2, 3)
    assert got.aucs.shape == (2, 2, 2)
    np.testing.assert_array_equal(np.isnan(got.aucs[0]), [[False, False], [False, True]])
    assert np.isfinite(got.by_fold).all()


def test_kept_and_forbidden_electrodes_are_obeyed(subject, few_alphas):
    for weights, present in (([np.inf, 1, 1, 0], [False, None, None, True]), ([0.0] * 4, [True] * 4)):
        got = score_windows([subject], 3, np.array(weights), scaler=None, folds=[0], work=module.Work())
        chosen = got.norms.any(axis=1)
        assert all(known is None or chosen[place] == known for place, known in enumerate(present))


def test_a_model_without_electrodes_is_not_taken_while_another_one_is_there(subject):
    """At the largest alpha the models of the folds may score best, and that of all trials is zero."""
    X, signs = subject.X, subject.signs
    model = by_hand(X, signs, subject.trial_groups, window_share=(0.5, 0.8))
    top = model.alphas_.max(axis=1)
    with pytest.warns(UserWarning, match="selects no sensor"):
        empty = by_hand(X, signs, subject.trial_groups, window_share=0.5, alphas=[2 * top[0]])
    assert not empty.coef_.any()
    assert module._with_sensors(empty, X, signs) is empty  # nothing better in its grid
    model.selected_groups_ = model.selected_groups_[:0]
    model.scores_[:, :2] = 1.0  # alpha_max, where there are no electrodes, and the alpha after it
    model.scores_[1, 1] += 0.1
    taken = module._with_sensors(model, X, signs)
    assert (taken.window_share_, taken.alpha_) == (0.8, model.alphas_[1, 1])
    assert len(taken.selected_groups_)


def test_parts_are_taken_from_a_checkpoint_for_the_same_number_of_windows_only(design, subject, few_alphas, tmp_path):
    messages = []
    checkpoint = Checkpoint(tmp_path / "parts", "1", messages.append)
    first = select_montage(design, QUICK, checkpoint=checkpoint).to_json()
    told = []
    assert select_montage(design, replace(QUICK, n_jobs=2), told.append, checkpoint).to_json() == first
    assert "windows, 3 of them: 3 of 3 parts" in [message.split(" taken")[0] for message in messages]
    steps = list(dict.fromkeys(now.step for now in told))
    assert steps == ["montages and their scores", "path", "windows of time", "decoders"]
    assert told[-1].done == pytest.approx(1.0)
    messages.clear()
    for number in (2, 3):
        work = module.Work(checkpoint, "the same trials")
        score_windows([subject], number, np.ones(4), scaler=None, folds=[0], work=work)
    assert messages == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "0 windows were asked for; there must be at least one"),
        (-2, "-2 windows were asked for"),
        (7, "7 windows were asked for, but the trials have 6 samples each; ask for at most 6 windows"),
    ],
)
def test_windows_that_cannot_be_are_refused_before_anything_is_computed(design, number, message, monkeypatch):
    monkeypatch.setattr("mixnorm.montage.case.score_montages", None)
    with pytest.raises(ValueError, match=message):
        select_montage(design, replace(QUICK, windows=number))


# --- the document ---------------------------------------------------------------------------------------------


def test_the_document_holds_the_windows_and_comes_back(found):
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [set(one) for one in document["windows"]] == [
        {"start", "stop", "norm", "frequency", "selected", "norms"}
    ] * 3
    assert document["window_scores"]["statement"] == sentences.windows(found)
    assert selection_from_json(document).to_json() == document


def test_without_windows_the_fields_are_null(design):
    document = selection(8)
    assert [document[key] for key in ("windows", "window_share", "window_scores")] == [None] * 3
    assert sentences.windows(typed(document)) is None


def broken(change):
    document = with_windows(selection(8))
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(window_share=None), "windows, window_share and window_scores must be given together"),
        (lambda d: d.update(windows=None), "must be given together"),
        (lambda d: d["windows"][1].update(selected=False), r"windows\[1\]: selected is false, but"),
        (lambda d: d["windows"][0].update(norm=0.1), r"windows\[0\]: selected is false, but"),
        (lambda d: d["windows"][1].update(frequency=1.5), r"frequency \(1.5\) from 0 to 1"),
        (lambda d: d["windows"][1].update(stop=0.0), r"windows\[1\]: stop \(0.0\) is before start"),
        (lambda d: d["windows"][1].update(start=0.0), r"windows\[1\]: starts before the window before it ends"),
        (lambda d: d["windows"][1]["norms"].pop("Cz"), r"windows\[1\].norms: must name every sensor once"),
        (lambda d: d["windows"][1].update(start="x"), r"windows\[1\].start: expected a number"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        selection_from_json(broken(change))


def test_the_sentence_says_which_windows_and_what_they_are_worth():
    assert sentences.windows(typed(with_windows(selection(8)))) == (
        "4 of 6 windows were chosen: 117–650 ms. AUC on held-out trials: 0.903 (0.880 … 0.926, 95 % interval); without "
        "norms of windows, so that none is left out: 0.899 (difference +0.004 ± 0.003, standard error over folds)."
    )
    for left_out, said in (
        ((), "All 6 windows were chosen."),
        ((0, 2, 3, 4, 5), "1 of 6 windows was chosen: 117–250 ms."),
        ((1, 3), "4 of 6 windows were chosen: -17–117 ms, 250–383 ms, 517–783 ms."),
        (range(6), "None of the 6 windows was chosen: these trials do not show a response in any of them."),
    ):
        assert sentences.windows(typed(with_windows(selection(8), left_out=left_out))).startswith(said)
    document = with_windows(selection(8))
    document["window_scores"] |= {"low": None, "high": None, "gain_error": None}
    assert "held-out trials: 0.903; without" in sentences.windows(typed(document))
    assert sentences.windows(typed(document)).endswith("0.899 (difference +0.004).")
