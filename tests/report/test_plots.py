"""The plot functions: what they draw of a result, on which axes, and what they refuse."""

import subprocess
import sys
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from mixnorm import GroupSVC, Path, group_svc_path
from mixnorm.eeg import MATRICES, Decoder, spell
from mixnorm.eeg.spelling_rates import THRESHOLDS
from mixnorm.report import plot_auc_curve, plot_letters, plot_montage, plot_path, plot_patterns
from mixnorm.study.letters import LettersRight
from selections import selection, typed
from spellers import easy_recording

NAMES = ("Fz", "Cz", "Pz", "Oz")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def trials():
    y = np.tile([0, 1], 60)
    X = np.random.default_rng(0).standard_normal((120, 4, 3))
    X[y == 1, 2, 1] += 2.0  # Pz, at the second sample
    return X, y


@pytest.fixture(scope="module")
def path(trials):
    return group_svc_path(*trials, alphas=6)


@pytest.fixture(scope="module")
def decoder():
    return Decoder.fit(easy_recording(0))


@pytest.fixture(scope="module")
def spelled(decoder):
    return spell(decoder, [easy_recording(1)], MATRICES["6x6"])


def written(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("plot", [plot_montage, plot_auc_curve])
def test_axes_in_are_the_axes_out_and_no_figure_is_made(plot):
    axes = mpl.figure.Figure().subplots()
    assert plot(typed(selection(8)), axes) is axes
    assert plt.get_fignums() == []
    own = plot(typed(selection(8)))
    assert plt.gcf() is own.figure


def test_a_montage_of_any_size_can_be_drawn():
    found = typed(selection(8))
    for montage in found.montages:
        axes = plot_montage(found, n_sensors=montage.n_sensors)
        assert set(montage.sensors) <= set(written(axes))
        assert len(set(written(axes)) & {sensor.name for sensor in found.sensors}) == montage.n_sensors
        assert f"{montage.n_sensors} of 8 electrodes, AUC {montage.auc:.3f}" in axes.get_title()
    with pytest.raises(
        ValueError, match=r"No montage has 9 electrodes; there are montages of 1, 2, 3, 4, 5, 6, 7, 8\."
    ):
        plot_montage(found, n_sensors=9)


def test_names_on_a_small_head_do_not_overlap():
    """The names are placed for the size that the axes have, not for that of the files."""
    for size in (2.5, 4.0, 8.0):
        figure = mpl.figure.Figure(figsize=(size, size), layout="constrained")
        axes = plot_montage(typed(selection(32)), figure.subplots(), n_sensors=32)
        figure.draw_without_rendering()
        names = {sensor.name for sensor in typed(selection(32)).sensors}
        boxes = [text.get_window_extent().padded(-1) for text in axes.texts if text.get_text() in names]
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        left_out = 32 - len(boxes)
        assert (f"{left_out} name" in written(axes)[0]) == (left_out > 0)


def test_names_do_not_cover_markers_where_there_is_room():
    figure = mpl.figure.Figure(figsize=(5, 5), layout="constrained")
    axes = plot_montage(typed(selection(32)), figure.subplots(), n_sensors=8)
    figure.draw_without_rendering()
    markers = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(markers) == 32
    for text in axes.texts[1:]:  # the first one is the key below the head
        x, y = axes.transData.transform(text.xy)
        for marker in markers:
            at = axes.transData.transform(marker.get_xydata()[0])
            if not np.allclose(at, (x, y)):
                assert not text.get_window_extent().padded(-2).contains(*at)


def test_the_curve_has_the_values_of_the_selection():
    found = typed(selection(8))
    lines = {line.get_label(): line for line in plot_auc_curve(found).lines}
    for curve in found.curves:
        np.testing.assert_array_equal(lines[curve.method].get_ydata(), curve.auc)
        np.testing.assert_array_equal(lines[curve.method].get_xdata(), curve.n_sensors)
    assert lines["recommended"].get_xydata().tolist() == [[found.chosen.n_sensors, found.chosen.auc]]


def test_a_path_shows_the_norm_of_every_group(path):
    axes = plot_path(path, groups=NAMES, highlight=["Pz"])
    expected = [np.sqrt((path.coefs[:, 3 * g : 3 * g + 3] ** 2).sum(axis=1)) for g in range(4)]
    np.testing.assert_allclose([line.get_ydata() for line in axes.lines], expected, rtol=1e-12)
    assert written(axes) == ["Pz"]
    left, right = axes.get_xlim()
    assert (left, right) == (path.alphas.max(), path.alphas.min())


def test_columns_may_have_the_labels_of_their_groups_in_any_order(path):
    labels = ["b", "a", "b", "a", "b", "a", "c", "c", "c", "a", "b", "c"]
    axes = plot_path(path, groups=labels)
    for line, label in zip(axes.lines, "bac", strict=True):
        own = path.coefs[:, [own == label for own in labels]]
        np.testing.assert_allclose(line.get_ydata(), np.sqrt((own**2).sum(axis=1)), rtol=1e-12)
    assert len(plot_path(path).lines) == 12  # every column is a group


def test_the_groups_that_enter_first_are_named():
    coefs = np.tril(np.ones((11, 10)), -1)  # group 0 enters at the second alpha, group 9 at the last
    zeros = np.zeros(11)
    path = Path(np.geomspace(1, 0.1, 11), coefs, zeros, zeros, zeros, zeros)
    assert sorted(written(plot_path(path))) == [str(number) for number in range(8)]


def test_a_path_refuses_groups_that_do_not_fit(path):
    with pytest.raises(ValueError, match="groups has 5 entries for 12 columns; give the name of every channel"):
        plot_path(path, groups=[*NAMES, "P3"])
    with pytest.raises(ValueError, match="highlight: unknown group PZ; available: Fz, Cz, Pz, Oz"):
        plot_path(path, groups=NAMES, highlight=["PZ"])


def test_patterns_are_an_image_of_channels_and_times(trials):
    model = GroupSVC(alpha=0.05).fit(*trials)
    axes = plot_patterns(model, ch_names=NAMES, times=[0.1, 0.2, 0.3])
    image = axes.images[0]
    np.testing.assert_array_equal(image.get_array(), model.patterns_.T)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(NAMES)
    assert axes.yaxis_inverted()  # the first channel is at the top
    np.testing.assert_allclose(image.get_extent()[:2], (50, 350))
    low, high = image.get_clim()
    assert -low == high == np.abs(model.patterns_).max()
    weights = plot_patterns(model, ch_names=NAMES, weights=True).images[0]
    np.testing.assert_array_equal(weights.get_array(), model.filters_.T)


def test_patterns_of_a_time_are_drawn_on_a_head(trials):
    model = GroupSVC(alpha=0.05).fit(*trials)
    axes = plot_patterns(model, ch_names=NAMES, times=[0.1, 0.2, 0.3], time=0.22)
    np.testing.assert_array_equal(axes.collections[0].get_array(), model.patterns_[1])
    assert axes.get_title() == "200 ms"
    assert set(NAMES) <= set(written(axes))
    x, y = axes.collections[0].get_offsets().T
    assert y[0] > y[1] > y[2] > y[3]  # from the nose back
    np.testing.assert_allclose(x, 0, atol=1e-12)
    unknown = plot_patterns(model, ch_names=("Fz", "Cz", "Pz", "E4"), time=1)
    assert "Position unknown:" in written(unknown)


def test_a_decoder_knows_its_channels_times_and_unit(decoder):
    axes = plot_patterns(decoder)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(decoder.feature_names)
    np.testing.assert_array_equal(axes.images[0].get_array(), decoder.patterns_.T)
    step = 1000 * np.diff(decoder.times).mean()
    np.testing.assert_allclose(axes.images[0].get_extent()[0], 1000 * decoder.times[0] - step / 2)
    assert "µV per unit of score" in [ax.get_ylabel() for ax in axes.figure.axes][1]


def test_patterns_refuse_names_and_times_that_do_not_fit(trials):
    X, y = trials
    model = GroupSVC(alpha=0.05).fit(X, y)
    with pytest.raises(ValueError, match=r"3 × 4 \(times × channels\), but 2 channels are named"):
        plot_patterns(model, ch_names=["Fz", "Cz"])
    with pytest.raises(ValueError, match="times has 2 entries, but the patterns have 3 samples"):
        plot_patterns(model, ch_names=NAMES, times=[0, 1])
    vectors = GroupSVC(alpha=0.05, groups=np.repeat(NAMES, 3)).fit(X.reshape(120, -1), y)
    with pytest.raises(ValueError, match="fit the model on epochs"):
        plot_patterns(vectors)


def test_letters_are_drawn_by_repetitions_and_by_probability(spelled):
    fixed, early = plot_letters(spelled).lines
    # ten repetitions of 12 flashes for each of two characters
    np.testing.assert_array_equal(fixed.get_xdata(), 12 * np.arange(1, 11))
    right = [
        np.mean([MATRICES["6x6"].symbols[one.trace.first[12 * k - 1]] == one.true_symbol for one in spelled])
        for k in range(1, 11)
    ]
    np.testing.assert_allclose(fixed.get_ydata(), 100 * np.array(right))
    flashes = [
        np.mean([1 + np.argmax((one.trace.probability >= p) & (one.trace.repetitions >= 1)) for one in spelled])
        for p in THRESHOLDS
    ]
    np.testing.assert_allclose(early.get_xdata(), flashes)


def test_letters_without_the_truth_are_refused(spelled):
    with pytest.raises(ValueError, match="true text is not known"):
        plot_letters([replace(one, true_symbol=None) for one in spelled])
    with pytest.raises(ValueError, match="no letters"):
        plot_letters([])


def test_letters_of_a_study_have_their_intervals():
    one = LettersRight("mine", "svm", None, (50.0, 75.0, 90.0), (40.0, 60.0, 80.0), (60.0, 90.0, 100.0))
    axes = plot_letters([one, replace(one, method="gsvm-2", low=None, high=None)])
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [(1, 50), (2, 75), (3, 90)])
    assert len(axes.collections) == 1
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["SVM", "GSVM-2"]
    axes = plot_letters([one, replace(one, dataset="yours")])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["SVM, mine", "SVM, yours"]


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Missing())
import numpy as np
from mixnorm import Path
from mixnorm.report import plot_path
try:
    plot_path(Path(np.ones(1), np.ones((1, 2)), *np.ones((4, 1))))
except ImportError as error:
    print(error)
"""


def test_without_matplotlib_the_error_names_the_extra():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == 'This needs matplotlib, which is not installed: pip install "mixnorm[report]".', (
        done.stderr
    )
