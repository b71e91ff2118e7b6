"""Selections are read back as they were written, also those of version 1; what does not fit is refused by its key."""

import copy
import json
import re

import numpy as np
import pytest

from mixnorm.montage.reading import read_selection, selection_from_json
from selections import selection
from unsure import unsure


def lookup(document, where):
    for key in where:
        document = document[key]
    return document


@pytest.mark.parametrize(
    ("inside", "key"),
    [
        *(((), key) for key in ("source", "sensors", "montages", "recommended", "curves", "stability", "path")),
        *(((), key) for key in ("times", "evoked", "by_subject")),
        *((("source",), key) for key in ("recordings", "classes", "unit", "folds")),
        *((("source", "folds"), key) for key in ("count", "by_subject")),
        *((("sensors", 2), key) for key in ("name", "x", "y", "keep", "forbid", "cost", "stability")),
        *((("montages", 3), key) for key in ("n_sensors", "sensors", "auc", "low", "high", "cost", "drop")),
        *((("montages", 3), key) for key in ("weights", "patterns")),
        (("montages", 3, "drop"), "auc_change"),
        *((("recommended",), key) for key in ("n_sensors", "verdict", "n_asked", "best_auc", "chance_level")),
        (("curves", 1), "auc"),
        (("stability",), "threshold"),
        (("path",), "alphas"),
        (("evoked",), "target"),
        (("by_subject", 1), "common_auc"),
        (("by_subject", 1), "new_subject_auc"),
    ],
)
def test_a_missing_key_is_named(inside, key):
    found = selection(8, subjects=("S1", "S2"))
    selection_from_json(found)
    del lookup(found, inside)[key]
    where = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, inside))) or "selection"
    with pytest.raises(ValueError, match=f"^{re.escape(where)}: '{key}' is missing"):
        selection_from_json(found)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (
            ("format",),
            "something",
            'selection: not a selection of electrodes, which has "format": "mixnorm-selection"',
        ),
        (("version",), 3, "version 3 is unknown; this mixnorm reads versions 1 and 2"),
        (("sensors",), [], "sensors: empty"),
        (("sensors", 1, "name"), "Pz", "sensors: Pz named twice"),
        (("sensors", 1, "keep"), 1, r"sensors\[1\].keep: expected true or false, but got 1"),
        (("montages",), [], "recommended.n_sensors: no montage has 7 sensors"),
        (("montages",), {}, "montages: expected a list, but got {}"),
        (("montages", 0, "sensors"), ["Nowhere"], r"montages\[0\]: weights: 'Nowhere' is missing"),
        (("montages", 2, "n_sensors"), 4, r"montages\[2\]: n_sensors is 4, but 3 sensors are named"),
        (("montages", 2, "n_sensors"), True, r"montages\[2\].n_sensors: expected an integer, but got True"),
        (("montages", 2, "auc"), float("nan"), r"montages\[2\].auc: nan is not allowed; write null"),
        (("montages", 2, "auc"), np.float32(0.5), r"montages\[2\].auc: expected a number, but got np.float32\(0.5\)"),
        (("montages", 2, "auc"), "0.5", r"montages\[2\].auc: expected a number, but got '0.5'"),
        (("montages", 1), None, r"montages\[1\]: expected an object, but got None"),
        (("recommended", "n_sensors"), 9, "recommended.n_sensors: no montage has 9 sensors"),
        (("recommended", "best_n_sensors"), 9, "recommended.best_n_sensors: no montage has 9 sensors"),
        (("recommended", "verdict"), "perhaps", "recommended.verdict: expected 'recommended' or 'asked' or 'unsure'"),
        (("recommended", "verdict"), "unsure", "recommended: verdict is 'unsure', but the other fields mean 'recomm"),
        (("recommended", "n_asked"), 3, "recommended: verdict is 'recommended', but the other fields mean 'asked'"),
        (("curves", 1, "auc"), [0.5], r"curves\[1\]: auc of 'SNR ranking' has 1 values for 8 n_sensors"),
        (("path", "auc"), [0.5], "path: alphas, n_selected and auc differ in length"),
        (("evoked", "target", "Pz"), [0.5], "evoked.target.Pz: 1 values for 24 times"),
        (
            ("source", "classes"),
            ["a", "b"],
            r"source: classes: expected \['nontarget', 'target'\], but got \['a', 'b'",
        ),
        (("source", "folds", "by_subject"), {"S2": "run"}, "source: folds.by_subject: 'S1' is missing"),
    ],
)
def test_a_document_that_contradicts_itself_is_refused(where, value, message):
    found = selection(8)
    lookup(found, where[:-1])[where[-1]] = value
    with pytest.raises(ValueError, match=message):
        selection_from_json(found)


def test_an_unknown_electrode_in_a_montage_is_named():
    found = selection(8)
    found["montages"][0] |= {"sensors": ["Nowhere"], "weights": {"Nowhere": [0.0] * 24}}
    found["montages"][0]["patterns"] = found["montages"][0]["weights"]
    with pytest.raises(ValueError, match=r"montages\[0\].sensors: 'Nowhere' is not among the sensors"):
        selection_from_json(found)


def test_montages_ascend_in_size():
    found = selection(8)
    found["montages"][1], found["montages"][2] = found["montages"][2], found["montages"][1]
    with pytest.raises(ValueError, match=r"montages\[2\]: 2 sensors after 3; montages must ascend in size"):
        selection_from_json(found)


def test_optional_values_may_be_null_and_unknown_keys_are_ignored():
    nothing = {"stability": None, "path": None, "evoked": None, "by_subject": None}
    found = selection_from_json({**selection(8, **nothing), "notes": "more than is known here"})
    assert (found.stability, found.path, found.evoked, found.by_subject) == (None, None, None, None)


def test_a_sentence_in_a_file_has_no_effect():
    """Only the fields count: an edited sentence is not repeated, and changes no verdict."""
    wanted = selection(8)
    edited = copy.deepcopy(wanted)
    edited["recommended"] |= {"reason": "No montage can be recommended with confidence.", "caution": "3 asked for"}
    assert selection_from_json(edited).to_json() == wanted


def test_files_are_read_back_as_they_were_written_and_others_are_named(tmp_path):
    path = tmp_path / "selection.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"selection.json: Expecting property name"):
        read_selection(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"selection.json: selection: not a selection of electrodes"):
        read_selection(path)
    for wanted in (selection(8, subjects=("S1", "S2")), unsure(selection(8), 2)):
        path.write_text(json.dumps(wanted), encoding="utf-8")
        assert read_selection(path).to_json() == wanted


# Version 1


def version_1(document, reason, caution=None, optimistic=None):
    """The same selection in the layout of version 1, in which these three were sentences."""
    old = copy.deepcopy(document)
    old["version"] = 1
    old["source"]["folds"] = {key: document["source"]["folds"][key] for key in ("by", "count")}
    old["source"]["optimistic"] = optimistic
    old["recommended"] = {"n_sensors": document["recommended"]["n_sensors"], "reason": reason, "caution": caution}
    if old["stability"]:
        del old["stability"]["n_first"]
    for row in old["by_subject"] or ():
        row["newcomer_auc"] = row.pop("new_subject_auc")
        row["caution"] = None
        del row["few_trials"]
    return old


RECOMMENDED = "The smallest montage within one standard error (0.012) of the best (0.894 with 8 sensors)."
ASKED = "7 sensors were asked for; their AUC is 0.007 below the best (0.894 with 8 sensors)."
UNSURE = "No montage can be recommended with confidence. "


def test_version_1_is_read_as_the_same_selection():
    wanted = selection(8, subjects=("S1", "S2"))
    found = selection_from_json(version_1(wanted, RECOMMENDED)).to_json()
    assert found["version"] == 2
    # not in version 1: the standard error as a number, and how many sensors each half was asked for
    wanted["recommended"] |= {"standard_error": None, "reason": found["recommended"]["reason"]}
    wanted["stability"] |= {"n_first": None, "statement": found["stability"]["statement"]}
    assert found == wanted
    assert found["recommended"]["reason"] == RECOMMENDED.replace(" (0.012)", "").replace("sensors", "electrodes")


def test_version_1_without_cautions_is_read():
    old = version_1(selection(8, subjects=("S1", "S2")), RECOMMENDED)
    del old["recommended"]["caution"]
    for row in old["by_subject"]:
        del row["caution"], row["newcomer_auc"]
    found = selection_from_json(old)
    assert found.recommended.verdict == "recommended"
    assert [row.new_subject_auc for row in found.by_subject] == [None, None]


@pytest.mark.parametrize(
    "reason, verdict, n_asked",
    [
        (RECOMMENDED, "recommended", None),
        (ASKED, "asked", 7),
        (UNSURE + RECOMMENDED, "unsure", None),
        (UNSURE + ASKED, "unsure", 7),
    ],
)
def test_the_verdict_of_version_1_is_that_of_its_reason(reason, verdict, n_asked):
    document = selection(8)
    if verdict == "unsure":
        for montage in document["montages"]:
            montage |= {"low": 0.4, "high": 0.9}
    found = selection_from_json(version_1(document, reason)).recommended
    assert (found.verdict, found.n_asked) == (verdict, n_asked)
    assert (found.chance_level is not None) == (verdict == "unsure")
    if found.chance_level:
        assert (found.chance_level.montage, found.chance_level.low, found.chance_level.high) == ("best", 0.4, 0.9)


def test_cautions_of_version_1_are_found_in_its_numbers():
    document = selection(8, subjects=("S1", "S2"))
    document["source"] |= {"n_targets": 7}
    old = version_1(document, UNSURE + RECOMMENDED, "There are only 7 targets: …")
    old["by_subject"][1]["caution"] = "There are only 3 targets and 14 nontargets: too few to tell electrodes apart"
    found = selection_from_json(old)
    assert (found.recommended.few_trials.n_targets, found.recommended.few_trials.n_nontargets) == (7, None)
    assert found.by_subject[0].few_trials is None
    assert (found.by_subject[1].few_trials.n_targets, found.by_subject[1].few_trials.n_nontargets) == (3, 14)
    document = selection(8)
    document["source"]["folds"]["count"] = 2
    best = document["montages"][-1]
    found = selection_from_json(version_1(document, RECOMMENDED, "Only 2 folds: …")).recommended
    assert (found.verdict, found.few_folds.count) == ("recommended", 2)
    assert (found.few_folds.low, found.few_folds.high) == (best["low"], best["high"])
    # its interval over trials was not stored
    unsure_of_two = selection_from_json(version_1(document, UNSURE + RECOMMENDED)).recommended
    assert (unsure_of_two.chance_level.low, unsure_of_two.chance_level.high) == (None, None)


@pytest.mark.parametrize(
    "by, optimistic, kinds",
    [
        ("run", "Only two sessions, and their runs are the folds: training", ["run", "run", "run"]),
        ("session and block", "Only one session of S1, S3: training and test", ["block", "session", "block"]),
        ("block and session", "Only one session of S1, S3: training and test", ["block", "session", "block"]),
        ("session", None, ["session", "session", "session"]),
        ("session and run", "Only two sessions of S2, and their runs are the folds: …", ["session", "run", "session"]),
    ],
)
def test_folds_of_version_1_by_subject(by, optimistic, kinds):
    old = version_1(selection(8, subjects=("S1", "S2", "S3")), RECOMMENDED, optimistic=optimistic)
    old["source"]["folds"]["by"] = by
    assert list(selection_from_json(old).source.folds.by_subject.values()) == kinds


@pytest.mark.parametrize(
    "where", [("recommended",), ("source",), ("montages",), ("source", "folds"), ("recommended", "reason")]
)
def test_a_missing_key_of_version_1_is_named(where):
    old = version_1(selection(8), RECOMMENDED)
    del lookup(old, where[:-1])[where[-1]]
    with pytest.raises(ValueError, match=f"^{where[0] if where[1:] else 'selection'}: '{where[-1]}' is missing"):
        selection_from_json(old)
    old["source"] = None
    old["recommended"] = old["montages"] = {}
    with pytest.raises(ValueError, match="source: expected an object, but got None"):
        selection_from_json(old)
