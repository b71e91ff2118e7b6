"""``mixnorm train`` and ``mixnorm predict`` for several subjects, and for a new one."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from mixnorm import load, save
from mixnorm.commands.card import card
from mixnorm.commands.predict import predict
from mixnorm.commands.spell import spell_command
from mixnorm.commands.train import train
from mixnorm.eeg import MATRICES, CohortDecoder, Decoder, read_recording, simulated_recording, spell, to_raw

pytest.importorskip("mne")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Recordings of four subjects; the last two of the same one, who is new."""
    folder, paths = tmp_path_factory.mktemp("recordings"), []
    for seed, name in enumerate(("A", "B", "C", "new", "later")):
        recording = simulated_recording(240, n_channels=4, n_informative=3, amplitude=8.0, seed=seed)
        paths.append(folder / f"{name}_raw.fif")
        to_raw(recording).save(paths[-1], verbose="error")
    return paths


def invoke(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(files):
    path = files[0].parent / "cohort.mixnorm"
    options = ("--subjects", "A,B,C", "--method", "msvm-noise", "--folds", 2, "--json")
    done = invoke(train, *files[:3], "-o", path, *options)
    assert done.exit_code == 0, done.stderr
    return path, done


def rows(done):
    assert done.exit_code == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def auc_of(done):
    table = rows(done)
    return roc_auc_score([int(row["target"]) for row in table], [float(row["score"]) for row in table])


def test_train_reports_every_subject_and_the_transfer(trained):
    path, done = trained
    report = json.loads(done.stdout)
    assert report["subjects"] == ["A", "B", "C"]
    assert list(report["auc_by_subject"]) == ["A", "B", "C"]
    assert report["auc"] == pytest.approx(np.mean(list(report["auc_by_subject"].values())))
    assert report["auc"] > 0.7
    assert report["transfer_auc"] > 0.7
    model = load(path)
    assert isinstance(model, CohortDecoder)
    assert (model.classifier.penalty, model.classifier.noise) == ("l2", "evoked")


def test_predict_uses_the_classifier_and_the_scaler_of_the_subject(trained, files):
    path, _ = trained
    found = rows(invoke(predict, path, files[1], "--subject", "B"))
    model = load(path)
    recording = read_recording(str(files[1]))
    expected = model.of_subject("B").predict(recording).score
    np.testing.assert_allclose([float(row["score"]) for row in found], expected, rtol=1e-12)
    scaled = model.scalers["B"].transform(prepared(model, recording)[:1])
    direct = model.classifier.decision_function(scaled, subjects="B")[0]
    assert expected[0] == pytest.approx(direct, rel=1e-12)
    assert abs(model.of_subject("A").predict(recording).score[0] - expected[0]) > 1e-6


def prepared(model, recording):
    from mixnorm.eeg import prepare

    return prepare(recording, model.preparation).X


def test_a_new_subject_without_calibration_and_with_it(trained, files, tmp_path):
    path, _ = trained
    before = path.read_bytes()
    uncalibrated = invoke(predict, path, files[4])
    assert "its subject is not one of the model (A, B, C)" in uncalibrated.stderr
    assert auc_of(uncalibrated) > 0.7
    adapted = invoke(predict, path, files[4], "--adapt", files[3], "--save-adapted", tmp_path / "new.mixnorm")
    assert auc_of(adapted) > 0.7
    assert path.read_bytes() == before
    again = load(tmp_path / "new.mixnorm")
    assert isinstance(again, Decoder)
    scores = again.predict(read_recording(str(files[4]))).score
    np.testing.assert_allclose([float(row["score"]) for row in rows(adapted)], scores, rtol=1e-12)


def test_train_can_adapt_to_a_new_subject_at_once(trained, files, tmp_path):
    options = ("--subjects", "A,B,C", "--folds", 2, "--adapt", files[3], "--json")
    done = invoke(train, *files[:3], "-o", tmp_path / "new.mixnorm", *options)
    assert done.exit_code == 0, done.stderr
    new = json.loads(done.stdout)["adapted_to"]
    assert (new["recording"], new["n_trials"], new["n_labelled"]) == (str(files[3]), 240, 240)
    decoder, recording = load(tmp_path / "new.mixnorm"), read_recording(str(files[4]))
    assert isinstance(decoder, Decoder)
    expected = load(trained[0]).adapted([read_recording(str(files[3]))])
    np.testing.assert_array_equal(decoder.predict(recording).score, expected.predict(recording).score)
    held_out = decoder.classifier.out_of_fold_scores_
    assert new["auc"] == pytest.approx(roc_auc_score(read_recording(str(files[3])).events.target, held_out))
    assert new["auc"] > 0.9


def test_decoders_of_known_and_new_subjects_spell_with_their_own_probabilities(trained, files):
    model, recording = load(trained[0]), read_recording(str(files[4]))
    X = prepared(model, recording)
    known = model.of_subject("B")
    own = model.classifier.predict_proba(model.scalers["B"].transform(X), subjects="B")
    np.testing.assert_allclose(known.classifier.predict_proba(known.scaler.transform(X)), own, rtol=1e-12)
    calibration = read_recording(str(files[3]))
    labelled, unlabelled = (model.adapted([calibration], labels=labels) for labels in (True, False))
    pooled = model.classifier.calibrations_[None]
    assert unlabelled.classifier.calibration_ == pooled
    assert labelled.classifier.calibration_ != pooled
    for decoder in (known, labelled, unlabelled):
        right = [one.symbol == one.true_symbol for one in spell(decoder, [recording], MATRICES["6x6"])]
        assert all(right)
    # every third of the trials is scored by an adaptation to the others, with the intercept of all trials
    scores, y = labelled.classifier.out_of_fold_scores_, calibration.events.target
    assert roc_auc_score(y, scores) > 0.9
    assert np.ptp([scores[part].mean() for part in np.array_split(np.arange(len(y)), 3)]) < scores.std()


def test_a_known_subjects_decoder_can_be_saved_and_other_commands_say_so(trained, files, tmp_path):
    path, own = trained[0], tmp_path / "b.mixnorm"
    done = invoke(predict, path, files[1], "--subject", "B", "--save-adapted", own)
    recording = read_recording(str(files[1]))
    scores = [float(row["score"]) for row in rows(done)]
    np.testing.assert_allclose(scores, load(own).predict(recording).score, rtol=1e-12)
    for command in (spell_command, card):
        refused = invoke(command, path, *([files[1]] if command is spell_command else []))
        assert refused.exit_code == 1
        assert "this is a model of several subjects. Save the decoder of one with `mixnorm predict" in refused.stderr
    assert invoke(spell_command, own, files[1]).exit_code == 0


def test_few_labelled_trials_leave_the_probabilities_to_the_known_subjects(trained, files):
    model, recording = load(trained[0]), read_recording(str(files[3]))
    target = recording.events.target.copy()
    target[np.flatnonzero(target == 1)[5:]] = -1  # five targets are left; -1: no label
    few = replace(recording, events=replace(recording.events, target=target))
    assert model.adapted([few]).classifier.calibration_ == model.classifier.calibrations_[None]


def test_labels_of_the_scored_recording_have_no_part_in_its_scores(trained, files, tmp_path):
    model, recording = load(trained[0]), read_recording(str(files[4]))
    events = replace(recording.events, target=recording.events.target[::-1].copy())
    other = replace(recording, events=events)
    first, second = (model.adapted([each], labels=False).predict(recording).score for each in (recording, other))
    np.testing.assert_array_equal(first, second)
    with_labels = model.adapted([recording]).predict(recording).score
    assert not np.allclose(first, with_labels)


def test_a_file_gives_the_same_decoders(trained, tmp_path):
    model = load(trained[0])
    save(model, tmp_path / "again.mixnorm")
    again = load(tmp_path / "again.mixnorm")
    trial = np.random.default_rng(0).normal(size=(len(model.feature_names), len(model.times)))
    for name in ("A", "B", "C"):
        assert again.of_subject(name).score_trial(trial) == model.of_subject(name).score_trial(trial)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--subject", "Z"), "unknown --subject 'Z'; the model has A, B, C"),
        (("--subject", "A", "--adapt", "x.fif"), "--subject and --adapt cannot be used together"),
        (("--save-adapted", "new.mixnorm"), "--save-adapted needs --adapt"),
    ],
)
def test_bad_options_of_predict(trained, files, options, message):
    done = invoke(predict, trained[0], files[4], *options)
    assert done.exit_code == 1
    assert message in done.stderr


def test_bad_options_of_train(files, tmp_path):
    output = tmp_path / "model.mixnorm"
    one = invoke(train, files[0], "-o", output, "--method", "msvm-noise")
    assert one.exit_code == 1
    assert "needs recordings of at least two subjects" in one.stderr
    some = invoke(train, *files[:2], "-o", output, "--subjects", "A,B", "--method", "msvm-noise", "--max-sensors", 2)
    assert "--max-sensors cannot be used with --method msvm-noise" in some.stderr
    assert not output.exists()
    other = invoke(train, *files[:2], "-o", output, "--subjects", "A,B", "--method", "svm", "--adapt", files[3])
    assert "--adapt cannot be used with --method svm; use --method msvm-noise" in other.stderr
    missing = invoke(train, *files[:2], "-o", output, "--subjects", "A,B", "--adapt", tmp_path / "none.fif")
    assert missing.exit_code == 1
    assert "none.fif" in missing.stderr
    assert not output.exists()
    pooled = invoke(train, *files[:2], "-o", output, "--subjects", "A,B", "--method", "svm")
    assert "the trials of 2 subjects are pooled in one classifier; --method msvm-noise" in pooled.stderr
    single = invoke(predict, output, files[4], "--adapt", files[3])
    assert "--adapt is for a model of several subjects" in single.stderr
