import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import Preparation, RecordingError, prepare, read_recording, read_recordings


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "X": rng.standard_normal((12, 3, 5)).astype(np.float32),
        "y": np.tile([1, 0, 0], 4).astype(np.int8),
        "subject": np.repeat(["A", "B"], 6),
        "session": np.tile([1, 1, 1, 2, 2, 2], 2).astype(np.int8),
        "character": np.tile(np.repeat([1, 2], 3), 2),
        "stimulus": np.arange(12).astype(np.uint8),
        "ch_names": np.array(["Fz", "Cz", "Pz"]),
        "times": np.arange(5) / 50,
    }


def save(path, arrays):
    np.savez(path, **arrays)
    return path


def test_bundle_is_read_as_it_is(tmp_path, arrays):
    back = read_recording(save(tmp_path / "b.npz", arrays))
    assert_allclose(back.X, arrays["X"])
    assert_array_equal(back.events.target, arrays["y"])
    assert_array_equal(back.events.stimulus, arrays["stimulus"])
    assert list(back.subject) == ["A"] * 6 + ["B"] * 6
    assert list(back.session[:6]) == ["1"] * 3 + ["2"] * 3
    text = back.describe()
    assert "epochs, 3 channels (Fz, Cz, Pz), 5 samples from 0.000 to 0.080 s" in text
    assert "2 subjects, 2 sessions" in text
    assert "12 events: 4 target, 8 non-target; 12 stimulus codes, 2 characters" in text


def test_characters_of_two_subjects_stay_apart(tmp_path, arrays):
    design = prepare(read_recording(save(tmp_path / "b.npz", arrays)))
    assert_array_equal(design.character, np.repeat([0, 1, 2, 3], 3))


def test_what_is_not_in_the_bundle_is_not_known(tmp_path, arrays):
    fewer = {name: arrays[name] for name in ("X", "y", "ch_names", "times")}
    back = read_recording(save(tmp_path / "b.npz", fewer))
    assert set(back.subject) == {"unknown"}
    assert_array_equal(back.events.character, -1)
    assert "no subject in the file: treated as one subject" in back.notes
    assert set(read_recording(tmp_path / "b.npz", subject="X7").subject) == {"X7"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, "no X in it"),
        (
            {"times": np.arange(4) / 50},
            r"X has shape \(12, 3, 5\), but the lengths of y, ch_names and times are \(12, 3, 4\)",
        ),
        ({"subject": np.array(["A"])}, "subject has 1 entries for 12 trials"),
        ({"y": np.arange(12)}, r"y contains other values than 1 \(target\) and 0 \(non\-target\)"),
        ({"X": np.full((12, 3, 5), "a")}, "X is not numeric"),
        ({"X": np.float64(3)}, r"X has the shape \(\), but must have 3 axes"),
        ({"y": np.int8(1)}, r"y has the shape \(\), but must have 1 axes"),
        ({"y": np.zeros((12, 1))}, r"y has the shape \(12, 1\), but must have 1 axes"),
        ({"y": np.array(["a"] * 12)}, "'y' is not numeric"),
        ({"ch_names": np.array("Fz")}, r"ch_names has the shape \(\), but must have 1 axes"),
        ({"times": np.array(list("abcde"))}, "times is not numeric"),
        ({"times": np.full(5, 0.1)}, r"times does not increase: 0\.1 s is followed by 0\.1 s"),
        ({"times": np.arange(5)[::-1] / 50}, r"times does not increase: 0\.08 s is followed by 0\.06 s"),
        ({"times": np.array([0, 0.02, np.nan, 0.06, 0.08])}, "times contains NaN or infinite values"),
        ({"character": np.array([np.nan, *range(11)])}, r"'character' has values that are not whole numbers \(nan\)"),
        (
            {"character": np.array([1e300, *range(11)])},
            r"'character' has values that are not whole numbers \(1e\+300\)",
        ),
        ({"stimulus": np.arange(12) + 0.5}, r"'stimulus' has values that are not whole numbers \(0\.5, 1\.5, 2\.5\)"),
        ({"stimulus": np.array(["row"] * 12)}, "'stimulus' is not numeric"),
        ({"subject": np.array("A")}, r"subject has the shape \(\), but must have 1 axes"),
        ({"X": np.full((12, 3, 5), None)}, "cannot be read as a .npz archive"),
    ],
)
def test_other_layouts_and_pickles_are_refused(tmp_path, arrays, change, message):
    changed = {name: value for name, value in (arrays | change).items() if value is not None}
    path = save(tmp_path / "b.npz", changed)
    with pytest.raises(RecordingError, match=rf"^{path}: .*{message}"):
        read_recording(path)


def test_a_bundle_of_several_people_is_not_made_one_persons(tmp_path, arrays):
    path = save(tmp_path / "b.npz", arrays | {"subject": np.repeat(["A", "B"], 6)})
    with pytest.raises(
        RecordingError, match=rf"^{path}: it contains 2 subjects \(A, B\), but subjects=… gives one name"
    ):
        read_recordings(path, subjects=["C"])
    one = save(tmp_path / "one.npz", arrays | {"subject": np.full(12, "A")})
    with pytest.warns(RuntimeWarning, match=rf"^{one}: the source names subject A, but subjects=… names C"):
        renamed = read_recordings(one, subjects=["C"])[0]
    assert set(renamed.subject) == {"C"}
    assert set(read_recordings(one, subjects=["A"])[0].subject) == {"A"}


def test_epochs_can_be_cut_and_sampled_but_not_filtered(tmp_path, arrays):
    recording = read_recording(save(tmp_path / "b.npz", arrays))
    inner = Preparation(band=None, window=(0.02, 0.08), n_samples=None, reduce="pick")
    design = prepare(recording, inner)
    assert_allclose(design.times, [0.02, 0.04, 0.06])
    assert_allclose(design.X, arrays["X"][:, :, 1:4])
    referenced = prepare(recording, Preparation.preset("epochs").with_(reference="average"))
    assert_allclose(referenced.X, arrays["X"] - arrays["X"].mean(axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(RecordingError, match="it contains epochs, which cannot be filtered"):
        prepare(recording, Preparation())
    with pytest.raises(RecordingError, match=r"its epochs reach from 0 to 0\.08 s and do not cover the window"):
        prepare(recording, inner.with_(window=(-0.1, 0.08)))


def test_real_bundles_are_described(data):
    uam = read_recording(data / "uam-p300.npz")
    assert "13 subjects" in uam.describe()
    assert "36000 events: 6000 target, 30000 non-target; 12 stimulus codes" in uam.describe()
    found = read_recording(data / "bigp3bci-a.npz")
    assert set(found.excluded) == {"Fp1", "Fp2"}
    assert len(found.ch_names) == 14
    assert len(read_recording(data / "bigp3bci-a.npz", drop=("Fp1", "Fp2")).ch_names) == 14


@pytest.mark.parametrize("code", [0x110000, 0xFFFFFFFF, 0xD800])
def test_characters_that_do_not_exist_are_refused(tmp_path, arrays, code):
    names = arrays["ch_names"].copy()
    names.view(np.uint32)[0] = code
    with pytest.raises(RecordingError, match=r"ch_names\.npy has characters that do not exist"):
        read_recording(save(tmp_path / "b.npz", arrays | {"ch_names": names}))


def test_a_signalling_nan_causes_no_warning(tmp_path, arrays):
    X = arrays["X"].copy()
    X.view(np.uint32)[3, 1, 2] = 0x7F800001
    assert read_recording(save(tmp_path / "b.npz", arrays | {"X": X}), drop="Cz").ch_names == ("Fz", "Pz")
