import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import Decoder, Preparation, RecordingError, from_moabb, prepare, read_recordings

moabb_datasets = pytest.importorskip("moabb.datasets")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def fake(**changes):
    settings = {
        "event_list": ("Target", "NonTarget"),
        "paradigm": "p300",
        "n_subjects": 2,
        "n_sessions": 2,
        "n_runs": 1,
        "seed": 3,
        "duration": 60,
        "n_events": 40,
    }
    return moabb_datasets.fake.FakeDataset(**(settings | changes))


def test_fake_dataset_goes_by_name_to_a_fitted_model():
    recordings = read_recordings("moabb:FakeDataset/1", target="fake1", nontarget="fake2")
    assert len(recordings) == 4
    assert recordings[0].source.startswith("moabb:FakeDataset")
    assert recordings[0].ch_names == ("C3", "Cz", "C4")
    decoder = Decoder.fit(recordings)
    assert decoder.classifier.dual_gap_ <= 1e-6
    assert decoder.ch_names == ("C3", "Cz", "C4")
    scores = decoder.predict(recordings[0])
    assert np.isfinite(scores.score).all()


def test_runs_keep_subject_and_session():
    runs = from_moabb(fake())
    assert [(run.subject, run.session) for run in runs] == [("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")]
    design = prepare(runs, Preparation())
    assert design.X.shape == (160, 3, 12)
    assert design.y.mean() == 0.5
    assert 10 < runs[0].signal.std() < 40  # MOABB has 20 µV in volts


def test_annotations_serve_as_well_as_a_trigger_channel():
    by_trigger, by_text = (from_moabb(fake(stim=stim, annotations=not stim))[0] for stim in (True, False))
    assert_array_equal(by_trigger.events.target, by_text.events.target)
    assert np.abs(by_trigger.events.onset - by_text.events.onset).max() <= 1


@pytest.mark.parametrize("start", [None, 0])
def test_bad_stretches_of_a_run_are_kept(start, monkeypatch):
    mne = pytest.importorskip("mne")
    dataset = fake(n_subjects=1, n_sessions=1)
    raw = dataset.get_data([1])[1]["0"]["0"].copy()
    raw.set_meas_date(start)
    raw.set_annotations(mne.Annotations([10.0, 20.0], [2.0, 1.0], ["BAD_cough", "pause"], raw.info["meas_date"]))
    monkeypatch.setattr(dataset, "get_data", lambda subjects: {1: {"0": {"0": raw}}})
    (run,) = from_moabb(dataset)
    (span,) = run.bad_spans
    assert span.description == "BAD_cough"
    assert [round(span.start / run.sfreq, 6), round(span.stop / run.sfreq, 6)] == [10.0, 12.0]
    assert_array_equal(run.events.onset, from_moabb(fake(n_subjects=1, n_sessions=1))[0].events.onset)


def test_reversed_labels_of_bnci2015_013_are_put_right():
    class BNCI2015_013(moabb_datasets.fake.FakeDataset):
        pass

    settings = {"event_list": ("Target", "NonTarget"), "paradigm": "p300", "n_subjects": 1, "n_sessions": 1}
    settings |= {"n_runs": 1, "seed": 3, "duration": 60, "n_events": 40}
    straight = from_moabb(moabb_datasets.fake.FakeDataset(**settings))[0]
    swapped = from_moabb(BNCI2015_013(**settings))[0]
    assert_array_equal(swapped.events.target, 1 - straight.events.target)
    assert any("reversed" in note for note in swapped.notes)
    # the day MOABB swaps them itself, this fails and the swap here must go
    assert moabb_datasets.BNCI2015_013().event_id == {"Target": 1, "NonTarget": 2}


def test_unknown_names_are_refused():
    with pytest.raises(RecordingError, match=r"^moabb:NoSuchSet: unknown MOABB data set 'NoSuchSet'"):
        read_recordings("moabb:NoSuchSet")
    with pytest.raises(
        RecordingError, match=r"^moabb:FakeDataset.*: targets and non-targets are not recognised among its events"
    ):
        read_recordings("moabb:FakeDataset/1")
    with pytest.raises(RecordingError, match=r"^moabb:FakeDataset/99: it cannot be read as a MOABB data set"):
        read_recordings("moabb:FakeDataset/99", target="fake1")
