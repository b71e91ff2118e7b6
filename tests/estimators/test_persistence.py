"""Model files: bit-identical round trips, nothing executed, every altered byte noticed, no half-written file."""

import hashlib
import io
import json
import os
import pickle
import zipfile

import mne
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector, load, save
from mixnorm.estimators.persistence import ModelFileError
from reference import random_problem

NAMES = ["Pz", "Cz", "Fz", "Oz"]


@pytest.fixture(scope="module")
def trials():
    return random_problem(np.random.default_rng(3), 40, 4, 3)


def epochs_of(X, names=NAMES):
    info = mne.create_info(list(names), 100.0, "eeg")
    return mne.EpochsArray(1e-6 * X.reshape(len(X), len(names), -1), info, tmin=-0.1, verbose="error")


def labels_of(y, kind):
    return {
        "numbers": y,
        "strings": np.where(y > 0, "target", "nontarget"),
        "objects": np.where(y > 0, "target", "nontarget").astype(object),
        "booleans": y > 0,
    }[kind]


def form_of(X, kind):
    return {
        "matrix": X,
        "float32": X.astype(np.float32),
        "3-D": X.reshape(40, 4, 3),
        "DataFrame": pd.DataFrame(X, columns=[f"c{i}" for i in range(12)]),
        "Epochs": epochs_of(X),
    }[kind]


MODELS = [
    GroupSVC(0.05, q=1.5, class_weight={-1: 1.0, 1: 2.0}),
    GroupSVC(0.05, penalty="l1", group_weights=[1.0, np.inf, 1.0, 0.0]),
    GroupSVC(0.05, adaptive=True, fit_intercept=False),
    GroupSVCCV([0.05, 0.1], q=[1.5, 2.0], rule="1se"),
    SensorSelector(2, q=1.7),
]


def outputs(model, X):
    """Everything that the model says of the trials, as arrays."""
    if isinstance(model, SensorSelector):
        out = model.transform(X)
        return [out.get_data() if hasattr(out, "get_data") else np.asarray(out), model.get_support()]
    return [model.decision_function(X), model.predict(X)]


def assert_same_model(found, model, X):
    assert type(found) is type(model)
    for name in (name for name in vars(model) if name.endswith("_")):
        value, expected = getattr(found, name), getattr(model, name)
        np.testing.assert_array_equal(value, expected, err_msg=name, strict=False)
        if isinstance(expected, np.ndarray) and expected.dtype.kind != "O":
            assert value.dtype == expected.dtype
    for value, expected in zip(outputs(found, X), outputs(model, X), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("form", ["matrix", "float32", "3-D", "DataFrame", "Epochs"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_round_trip_gives_the_same_bits(trials, tmp_path, model, form):
    X, y, groups = trials
    whole = form in ("3-D", "Epochs")
    given, labels = form_of(X, form), labels_of(y, "numbers")
    model = type(model)(**{**model.get_params(), "groups": None if whole else groups}).fit(given, labels)
    save(model, tmp_path / "model.mixnorm")
    found = load(tmp_path / "model.mixnorm")
    assert_same_model(found, model, given)
    for name, value in model.get_params().items():
        np.testing.assert_array_equal(found.get_params()[name], value, err_msg=name)
    assert hasattr(found, "feature_names_in_") == (form == "DataFrame")


@pytest.mark.parametrize("kind", ["numbers", "strings", "objects", "booleans"])
def test_labels_of_any_kind_come_back(trials, tmp_path, kind):
    X, y, _ = trials
    labels = labels_of(y, kind)
    save(GroupSVC(0.05).fit(X, labels), tmp_path / "model.mixnorm")
    found = load(str(tmp_path / "model.mixnorm"))
    assert found.classes_.tolist() == np.unique(labels).tolist()
    assert set(found.predict(X).tolist()) == set(labels.tolist())


@pytest.mark.parametrize(
    "weights", [[1.0, np.inf, 0.0, 2.5], {"Fz": np.inf, "Cz": 0.0}, np.array([np.inf, 1, 1, 1])], ids=str
)
def test_infinite_group_weights_come_back(trials, tmp_path, weights):
    X, y, groups = trials
    names = [NAMES[g] for g in groups]
    model = GroupSVC(0.05, groups=names, group_weights=weights).fit(X, y)
    save(model, tmp_path / "model.mixnorm")
    found = load(tmp_path / "model.mixnorm")
    np.testing.assert_array_equal(found.group_weights, weights)
    np.testing.assert_array_equal(found.fit(X, y).coef_, model.coef_)


def test_loaded_model_saves_again_to_the_same_content(trials, tmp_path):
    X, y, _ = trials
    save(GroupSVCCV(3).fit(epochs_of(X), labels_of(y, "objects")), tmp_path / "one.mixnorm")
    save(load(tmp_path / "one.mixnorm"), tmp_path / "two.mixnorm")
    assert members_of(tmp_path / "two.mixnorm") == members_of(tmp_path / "one.mixnorm")


def test_parameters_that_are_objects_are_left_at_their_default(trials, tmp_path):
    X, y, _ = trials
    model = GroupSVCCV(3, cv=KFold(3, shuffle=True, random_state=0), scoring=lambda model, X, y: 0.5).fit(X, y)
    save(model, tmp_path / "model.mixnorm")
    found = load(tmp_path / "model.mixnorm")
    assert (found.cv, found.scoring) == (3, "roc_auc")
    np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X))


def test_header_says_what_a_user_would_ask(trials, tmp_path):
    X, y, _ = trials
    save(GroupSVC(0.05).fit(epochs_of(X), labels_of(y, "strings")), tmp_path / "model.mixnorm")
    text = members_of(tmp_path / "model.mixnorm")["header.json"].decode()
    header = json.loads(text)
    assert header["format"] == 1
    assert {"mixnorm", "numpy", "scipy", "sklearn"} == set(header["versions"])
    assert header["model"]["fitted"]["_ch_names"] == {"tuple": NAMES}
    recording = dict(header["model"]["fitted"]["_recording"]["dict"])
    assert recording["sfreq"] == 100.0
    assert recording["units"] == "uV"
    assert (recording["tmin"], recording["tmax"]) == pytest.approx((-0.1, -0.08))
    assert {"highpass", "lowpass"} <= set(recording)


def test_file_has_the_permissions_of_any_new_file(trials, tmp_path):
    X, y, _ = trials
    save(GroupSVC().fit(X, y), tmp_path / "model.mixnorm")
    (tmp_path / "other").write_bytes(b"")
    assert (tmp_path / "model.mixnorm").stat().st_mode == (tmp_path / "other").stat().st_mode


# --- other channels ---


def test_loaded_model_reorders_channels_by_name_or_refuses(trials, tmp_path):
    X, y, _ = trials
    model = GroupSVC(0.05).fit(epochs_of(X), y)
    save(model, tmp_path / "model.mixnorm")
    found = load(tmp_path / "model.mixnorm")
    moved = [3, 1, 0, 2]
    reordered = epochs_of(X.reshape(40, 4, 3)[:, moved], [NAMES[i] for i in moved])
    np.testing.assert_array_equal(found.decision_function(reordered), model.decision_function(epochs_of(X)))
    with pytest.raises(ValueError, match="needs channels that the epochs do not have: Fz"):
        found.predict(epochs_of(X, ["Pz", "Cz", "C3", "Oz"]))
    with pytest.raises(ValueError, match=r"X has 3 channels x 3 samples.*fitted on 4 channels"):
        found.predict(X.reshape(40, 4, 3)[:, :3])


def test_loaded_model_refuses_other_columns(trials, tmp_path):
    X, y, _ = trials
    frame = form_of(X, "DataFrame")
    save(GroupSVC(0.05).fit(frame, y), tmp_path / "model.mixnorm")
    found = load(tmp_path / "model.mixnorm")
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame[frame.columns[::-1]])


# --- what cannot be saved ---


def test_wrong_suffix_unfitted_and_foreign_models_are_refused(trials, tmp_path):
    X, y, _ = trials
    with pytest.raises(ValueError, match=r"model.pkl: the name of a model file must end in \.mixnorm"):
        save(GroupSVC().fit(X, y), tmp_path / "model.pkl")
    with pytest.raises(NotFittedError, match="not fitted"):
        save(GroupSVC(), tmp_path / "model.mixnorm")
    with pytest.raises(TypeError, match="LogisticRegression cannot be saved; only GroupSVC"):
        save(LogisticRegression().fit(X, y), tmp_path / "model.mixnorm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("failing", ["writestr", "replace"])
def test_interrupted_save_leaves_the_old_file_and_nothing_else(trials, tmp_path, monkeypatch, failing):
    X, y, _ = trials
    path = tmp_path / "model.mixnorm"
    save(GroupSVC(0.05).fit(X, y), path)
    before = path.read_bytes()
    calls = []

    def interrupt(*args, **kwargs):
        calls.append(args)
        if failing == "replace" or len(calls) == 3:  # in the middle of the members
            raise KeyboardInterrupt("stopped by hand")

    owner = os if failing == "replace" else zipfile.ZipFile
    with monkeypatch.context() as patched:
        patched.setattr(owner, failing, interrupt)
        with pytest.raises(KeyboardInterrupt, match="stopped by hand"):
            save(GroupSVC(0.01).fit(X, y), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.mixnorm"]


# --- what must not be loaded ---


@pytest.fixture(scope="module")
def saved(trials, tmp_path_factory):
    """A small model and the bytes of its file."""
    X, y, _ = trials
    model = GroupSVC(0.05).fit(X[:, :3], labels_of(y, "strings"))
    path = tmp_path_factory.mktemp("models") / "model.mixnorm"
    save(model, path)
    return model, X[:, :3], path.read_bytes()


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def forge(path, members, change=None, arrays=None):
    """Rewrite a file with a changed header and arrays, all checksums made right again: a tampering that knows how."""
    header = json.loads(members["header.json"])
    for name, data in (arrays or {}).items():
        members = {**members, f"{name}.npy": data}
        header["arrays"][name] = hashlib.sha256(data).hexdigest()
    if change:
        header = change(header)
    text = json.dumps(header).encode()
    return write_members(
        path, {**members, "header.json": text, "header.sha256": hashlib.sha256(text).hexdigest().encode()}
    )


@pytest.fixture
def members(saved, tmp_path):
    (tmp_path / "original.mixnorm").write_bytes(saved[2])
    return members_of(tmp_path / "original.mixnorm")


def test_forging_without_a_change_is_accepted(saved, members, tmp_path):
    """So that the refusals below are not refusals of the forger's hand."""
    assert_same_model(load(forge(tmp_path / "forged.mixnorm", members)), saved[0], saved[1])


ANY_REFUSAL = "not a model file, or truncated or altered|was altered|header"


def refused(path, text=ANY_REFUSAL):
    with pytest.raises(ModelFileError, match=text) as refusal:
        load(path)
    assert str(path) in str(refusal.value)


class Trap:
    """Unpickling it leaves a trace."""

    def __reduce__(self):
        return exec, ("import os; os.environ['MIXNORM_TRAP'] = 'sprung'",)


def test_pickle_smuggled_in_as_an_object_array_is_not_executed(members, tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap(), Trap()], dtype=object), allow_pickle=True)
    refused(
        forge(tmp_path / "forged.mixnorm", members, arrays={"coef_": buffer.getvalue()}),
        "array 'coef_' is not a plain array",
    )
    refused(
        forge(tmp_path / "forged.mixnorm", members, arrays={"coef_": pickle.dumps(Trap())}), "is not a plain array"
    )
    (tmp_path / "pickle.mixnorm").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "pickle.mixnorm", "not a zip file")
    assert "MIXNORM_TRAP" not in os.environ
    pickle.loads(pickle.dumps(Trap()))
    assert os.environ.pop("MIXNORM_TRAP") == "sprung"  # the trap works


@pytest.mark.parametrize("name", ["os:system", "mixnorm.estimators.svc:GroupSVC", "MinMaxScaler", "", None, 3])
def test_class_outside_the_table_is_refused(members, tmp_path, name):
    path = forge(tmp_path / "forged.mixnorm", members, lambda header: {**header, "class": name})
    refused(path, "unknown class of model")


@pytest.mark.parametrize("number", [0, 2, "1", None])
def test_other_format_number_is_refused(members, tmp_path, number):
    path = forge(tmp_path / "forged.mixnorm", members, lambda header: {**header, "format": number})
    refused(path, "file format .* is not supported")


@pytest.mark.parametrize(
    "change",
    [
        lambda header: [header],
        lambda header: {key: value for key, value in header.items() if key != "model"},
        lambda header: {**header, "model": None},
        lambda header: {**header, "model": {"params": {}}},
        lambda header: {**header, "model": {"params": [], "fitted": {}}},
        lambda header: {**header, "model": {"params": {}, "fitted": {"__class__": 3}}},
        lambda header: {**header, "arrays": None},
        lambda header: {**header, "arrays": {"coef_": 3}},
    ],
    ids=["list", "no model", "null model", "no fitted", "params list", "class", "no arrays", "wrong sum"],
)
def test_header_of_another_shape_is_refused(members, tmp_path, change):
    refused(forge(tmp_path / "forged.mixnorm", members, change))


def test_missing_member_is_refused(members, tmp_path):
    for name in members:
        kept = {key: data for key, data in members.items() if key != name}
        refused(write_members(tmp_path / "short.mixnorm", kept), name.removesuffix(".npy"))


def test_altered_content_with_a_valid_zip_is_refused(members, tmp_path):
    for name, data in members.items():
        altered = {**members, name: data[:-1] + bytes([data[-1] ^ 1])}
        refused(write_members(tmp_path / "altered.mixnorm", altered), "altered")


def test_not_a_zip_no_file_and_a_folder_are_refused(tmp_path):
    (tmp_path / "text.mixnorm").write_text("hello")
    refused(tmp_path / "text.mixnorm", "not a model file")
    (tmp_path / "empty.mixnorm").write_bytes(b"")
    refused(tmp_path / "empty.mixnorm", "not a model file")
    (tmp_path / "folder.mixnorm").mkdir()
    refused(tmp_path / "folder.mixnorm", "not a model file")
    with pytest.raises(FileNotFoundError, match=r"missing\.mixnorm: this file does not exist"):
        load(tmp_path / "missing.mixnorm")


def test_file_truncated_anywhere_is_refused(saved, tmp_path):
    path, data = tmp_path / "short.mixnorm", saved[2]
    for length in [*range(0, len(data), 23), len(data) - 1]:
        path.write_bytes(data[:length])
        refused(path)


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_file_with_any_byte_altered_is_refused_or_still_the_same_model(saved, tmp_path, flip):
    """A zip holds bytes that mean nothing to the model (times, attributes); no other may pass."""
    model, X, data = saved
    path, refusals = tmp_path / "altered.mixnorm", 0
    places = range(0 if flip == 1 else 1, len(data), 3)
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
        try:
            found = load(path)
        except ModelFileError:
            refusals += 1
        else:
            assert_same_model(found, model, X)
    assert refusals > 0.7 * len(places)


def test_any_byte_of_the_content_of_any_member_is_noticed(saved, tmp_path):
    path, data = tmp_path / "altered.mixnorm", saved[2]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        starts = [(info.header_offset + 30 + len(info.filename), info.compress_size) for info in archive.infolist()]
    for start, size in starts:
        for place in (start, start + size // 2):  # the last byte may hold padding
            path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
            refused(path)
