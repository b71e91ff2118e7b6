"""In MOABB's CrossSubjectEvaluation with labelled calibration data, unchanged, alone and in a pipeline; offline."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from mixnorm import MultiTaskGroupSVC, MultiTaskGroupSVCCV

# --- scikit-learn's routing, which is all that MOABB uses ---


def cohort_with_new_subject():
    rng = np.random.default_rng(0)
    y, subjects = np.tile([0, 1], 60), np.repeat(["a", "b", "c"], 40)
    X = 5 + 3 * (rng.standard_normal((120, 6)) + y[:, None])
    y_new = np.tile([0, 1], 10)
    return X, y, subjects, 5 + 3 * (rng.standard_normal((20, 6)) + y_new[:, None]), y_new


def test_a_pipeline_passes_moabbs_metadata_on_and_transforms_the_targets_trials():
    X, y, subjects, X_new, y_new = cohort_with_new_subject()
    model = MultiTaskGroupSVC(0.05, similarity=0.1)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), model, transform_input=["X_target_labeled"])
        pipeline.fit(X, y, subjects=subjects, X_target_labeled=X_new, y_target_labeled=y_new)
    scaler = StandardScaler().fit(X)
    by_hand = MultiTaskGroupSVC(0.05, similarity=0.1).fit(scaler.transform(X), y, subjects=subjects)
    by_hand.adapt(scaler.transform(X_new), y_new)
    np.testing.assert_allclose(pipeline[-1].coef_, by_hand.coef_, atol=1e-12)
    np.testing.assert_allclose(
        pipeline.decision_function(X_new), by_hand.decision_function(scaler.transform(X_new)), atol=1e-12
    )


def test_a_pipeline_accepts_unlabelled_trials_of_the_target():
    X, y, subjects, X_new, _ = cohort_with_new_subject()
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), MultiTaskGroupSVCCV(4, similarities=2))
        pipeline.fit(X, y, subjects=subjects, X_target_unlabeled=X_new)
    assert pipeline[-1].subjects_.tolist() == ["a", "b", "c"]


def test_a_fit_with_noise_takes_the_targets_trials_without_labels_transformed():
    X, y, subjects, X_new, _ = cohort_with_new_subject()
    model = MultiTaskGroupSVC(0.05, similarity=0.1, noise="kronecker")
    with config_context(enable_metadata_routing=True):
        names = ["X_target_labeled", "X_target_unlabeled"]
        pipeline = make_pipeline(StandardScaler(), model, transform_input=names)
        pipeline.fit(X, y, subjects=subjects, X_target_unlabeled=X_new)
    scaler = StandardScaler().fit(X)
    by_hand = MultiTaskGroupSVC(0.05, similarity=0.1, noise="kronecker").fit(scaler.transform(X), y, subjects=subjects)
    by_hand.adapt(scaler.transform(X_new))
    np.testing.assert_allclose(pipeline[-1].coef_, by_hand.coef_, atol=1e-12)


# --- MOABB itself ---


def flatten_microvolts(X):
    return 1e6 * X.reshape(len(X), -1) if np.abs(X).max() < 1e-2 else X.reshape(len(X), -1)


def evaluate(dataset, pipelines, folder):
    pytest.importorskip("moabb", reason="MOABB is not installed: the extra `moabb`", minversion="1.6")
    from moabb.evaluations import CrossSubjectEvaluation, CrossSubjectMode
    from moabb.paradigms import P300

    evaluation = CrossSubjectEvaluation(
        paradigm=P300(fmin=1, fmax=20, tmin=0.0, tmax=0.5, resample=32),
        datasets=[dataset],
        cs_mode=CrossSubjectMode.TRAIN_AND_TARGET_LABELED_20P,
        hdf5_path=str(folder),
        overwrite=True,
    )
    return evaluation.process(pipelines)


def fake_dataset(effect=0.0, code="FakeDataset"):
    pytest.importorskip("moabb", reason="MOABB is not installed: the extra `moabb`", minversion="1.6")
    from moabb.datasets.fake import FakeDataset

    class EffectDataset(FakeDataset):
        """MOABB's noise, and after every target a deflection over Cz, larger in later subjects."""

        def _get_single_subject_data(self, subject):
            self._size = effect * (1 + 0.2 * subject)
            return super()._get_single_subject_data(subject)

        def _generate_raw(self, n_events, duration):
            raw = super()._generate_raw(n_events, duration)
            events = self._generate_events(n_events, duration)
            wave = 2e-5 * self._size * np.hanning(int(0.4 * self.sfreq))
            for onset, _, kind in events:
                if kind == self.event_id["Target"]:
                    raw._data[1, onset : onset + len(wave)] += wave
            return raw

    return EffectDataset(
        event_list=("Target", "NonTarget"),
        n_sessions=1,
        n_runs=1,
        n_subjects=4,
        n_events=60,
        paradigm="p300",
        seed=1,
        code=code,
    )


def pipeline(model):
    with config_context(enable_metadata_routing=True):
        return make_pipeline(FunctionTransformer(flatten_microvolts), model, transform_input=["X_target_labeled"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # MOABB, pandas and h5py warn of their own affairs
def test_it_runs_on_moabbs_fake_dataset(tmp_path):
    results = evaluate(fake_dataset(), {"joint": pipeline(MultiTaskGroupSVC(0.2, similarity=0.1))}, tmp_path)
    assert len(results) == 4
    assert results.score.between(0, 1).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_it_finds_an_effect_that_is_there(tmp_path):
    model = MultiTaskGroupSVCCV([0.3, 0.1], similarities=[1.0], tol=1e-3)
    results = evaluate(fake_dataset(0.5, "EffectDataset"), {"joint": pipeline(model)}, tmp_path)
    assert len(results) == 4
    assert results.score.mean() > 0.75
