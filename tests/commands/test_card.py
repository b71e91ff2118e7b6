import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.pipeline import make_pipeline

from mixnorm import GroupSVC, load, save
from mixnorm.commands.card import card
from mixnorm.commands.info import info
from mixnorm.commands.train import train
from mixnorm.eeg import ChannelScaler, Decoder, Preparation, StreamDecoder, simulated_recording, to_raw
from mixnorm.eeg.training import CalibrationBin, calibration_bins
from mixnorm.report.card import as_markdown, card_sections
from mixnorm.report.model_facts import model_facts

pytest.importorskip("mne")


def run(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    recording = simulated_recording(480, n_channels=4, n_informative=2, amplitude=8.0, seed=5)
    to_raw(recording).save(folder / "sub-A_raw.fif", verbose="error")
    done = run(train, folder / "sub-A_raw.fif", "-o", folder / "me.mixnorm", "--method", "svm", "--folds", 3, "--json")
    assert done.exit_code == 0, done.output
    return folder / "me.mixnorm", json.loads(done.stdout)


def test_info_says_what_training_reported(trained):
    path, report = trained
    facts = json.loads(run(info, path, "--json").stdout)
    assert facts["class"] == "Decoder"
    assert facts["electrodes"] == report["electrodes"]
    assert facts["preparation"] == report["preparation"]
    assert facts["training"]["recordings"] == ["sub-A_raw.fif"]
    assert facts["training"]["auc"] == pytest.approx(report["auc"])
    assert facts["training"]["auc_by_fold"] == report["auc_by_fold"]
    assert facts["training"]["auc_low"] < report["auc"] < facts["training"]["auc_high"]
    assert sum(one["n_trials"] for one in facts["training"]["calibration"]) == report["n_trials"]
    assert facts["classifier"]["dual_gap"] < 1e-6
    words = run(info, path).stdout
    assert "electrodes: Fz, Cz, Pz" in words
    assert "recordings: sub-A_raw.fif" in words


def test_info_describes_estimators_and_pipelines(tmp_path):
    y = np.tile([0, 1], 30)
    X = np.random.default_rng(0).standard_normal((60, 3, 2)) + y[:, None, None]
    save(GroupSVC(alpha=0.05).fit(X, y), tmp_path / "e.mixnorm")
    save(make_pipeline(ChannelScaler(), GroupSVC(alpha=0.05)).fit(X, y), tmp_path / "p.mixnorm")
    facts = json.loads(run(info, tmp_path / "e.mixnorm", "--json").stdout)
    assert (facts["class"], facts["n_features"], facts["classes"]) == ("GroupSVC", 6, [0, 1])
    facts = json.loads(run(info, tmp_path / "p.mixnorm", "--json").stdout)
    assert [step["class"] for step in facts["steps"]] == ["ChannelScaler", "GroupSVC"]
    (tmp_path / "x.mixnorm").write_bytes(b"no model")
    done = run(info, tmp_path / "x.mixnorm")
    assert done.exit_code == 1
    assert "x.mixnorm: not a model file" in done.output


def test_card_tells_the_whole_story_in_markdown(trained, tmp_path):
    path, report = trained
    text = run(card, path).stdout
    for title in (
        "What it decodes",
        "Training recordings",
        "Held-out scores",
        "Calibration",
        "Preparation",
        "Electrodes",
        "Versions",
        "How to use it",
    ):
        assert f"## {title}\n" in text
    assert f"AUC {report['auc']:.3f} (95 % interval" in text
    assert "480 trials, 80 of them targets, from sub-A\\_raw.fif." in text
    assert "mixnorm stream me.mixnorm" in text
    done = run(card, path, "-o", tmp_path / "me.md")
    assert done.exit_code == 0
    assert "![Electrodes on the head](me.svg)" in (tmp_path / "me.md").read_text(encoding="utf-8")
    drawn = ET.fromstring((tmp_path / "me.svg").read_text(encoding="utf-8"))
    assert [one.text for one in drawn.iter() if one.tag.endswith("text")] == report["electrodes"]


def test_card_is_one_html_file_and_names_cannot_become_html(trained, tmp_path):
    decoder = load(trained[0])
    bad = "<b>Fz|`"
    names = (bad, *decoder.ch_names[1:])
    training = replace(decoder.training, recordings=("<script>.fif",))
    save(replace(decoder, ch_names=names, feature_names=names, training=training), tmp_path / "m.mixnorm")
    assert run(card, tmp_path / "m.mixnorm", "-o", tmp_path / "m.html").exit_code == 0
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert '<meta name="viewport"' in page  # else a phone shows it as wide as a desk
    assert "<b>" not in page
    assert "<script>" not in page
    assert "&lt;b&gt;Fz" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "\\<b>Fz|\\`" in run(card, tmp_path / "m.mixnorm").stdout


@pytest.mark.parametrize(
    "preparation, said, streams",
    [
        (Preparation(phase="causal"), "It can run on a stream.", True),
        (Preparation(phase="zero"), "Its zero-phase filter needs later samples", False),
        (Preparation.preset("epochs"), "it cannot run on a stream", False),
    ],
)
def test_card_says_whether_the_model_can_run_on_a_stream(trained, preparation, said, streams):
    decoder = replace(load(trained[0]), preparation=preparation)
    if not streams:
        with pytest.raises(ValueError, match=r"cannot run on a stream"):
            StreamDecoder(decoder)
    text = as_markdown("m", card_sections(decoder, model_facts(trained[0])))
    assert said in text
    assert ("mixnorm stream" in text) == streams


def test_card_says_what_is_not_known_and_where_it_cannot_be_written(tmp_path):
    decoder = Decoder.fit(simulated_recording(60, n_channels=3, n_informative=2), classifier=GroupSVC(alpha=0.1))
    save(decoder, tmp_path / "m.mixnorm")
    assert "the file does not say from which recordings" in run(card, tmp_path / "m.mixnorm").stdout
    done = run(card, tmp_path / "m.mixnorm", "-o", tmp_path / "m.pdf")
    assert done.exit_code == 1
    assert "m.pdf: the name of a model card must end in .md or .html." in done.output


def test_calibration_bins_by_hand():
    bins = calibration_bins(
        np.array([0.0, 0.25, np.nan, 0.5, 0.75, 1.0, 0.6]), np.array([0, 0, 1, 1, 0, 1, 1]), n_bins=2
    )
    low, high = CalibrationBin(3, 0.25, 1 / 3), CalibrationBin(3, (0.6 + 0.75 + 1) / 3, 2 / 3)
    for found, expected in zip(bins, (low, high), strict=True):
        assert found.n_trials == expected.n_trials
        assert (found.probability, found.targets) == pytest.approx((expected.probability, expected.targets))
