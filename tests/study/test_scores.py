import numpy as np
import pytest

from mixnorm.study.scores import auc_percent, characters_percent, f_measure_percent


def test_auc_is_the_share_of_pairs_in_order():
    scores = np.array([[0.1, 0.0], [0.4, 0.0], [0.35, 0.0], [0.8, 0.0]])
    assert auc_percent(np.array([0, 0, 1, 1]), scores) == pytest.approx([75.0, 50.0])


@pytest.mark.parametrize(
    ("selected", "truth", "expected"),
    [
        (["a", "b"], ["a", "b"], 100.0),
        (["a", "b", "c", "d"], ["a", "b"], 200 / 3),
        ([], ["a"], 0.0),
        (["x"], ["a"], 0.0),
        ([], [], 100.0),
    ],
)
def test_f_measure_is_the_papers(selected, truth, expected):
    assert f_measure_percent(selected, truth) == pytest.approx(expected)


def flashes(targets, scores_of):
    """Two rounds of 12 flashes for each character; ``scores_of(character, code, round)``."""
    rows = [
        (scores_of(c, code, r), code in targets[c], code, c)
        for c in range(len(targets))
        for r in range(2)
        for code in range(1, 13)
    ]
    scores, y, stimulus, character = (np.array(column) for column in zip(*rows, strict=True))
    return scores.astype(float), y.astype(int), stimulus, character


def test_rows_and_columns_are_picked_each_from_its_half():
    targets = [{2, 9}, {6, 7}]

    def scores_of(c, code, r):
        # two rows of the first character score above its column, and yet a column must be taken
        return {2: 5, 3: 4, 9: 1}.get(code, 0) if c == 0 else float(code in targets[1])

    assert characters_percent(*flashes(targets, scores_of)) == [100.0, 100.0]


def test_repetitions_add_up():
    targets = [{2, 9}, {6, 7}]

    def scores_of(c, code, r):
        misled = c == 0 and r == 0
        return (code in {1, 9}) * 1.0 if misled else (code in targets[c]) * 2.0

    assert characters_percent(*flashes(targets, scores_of)) == [50.0, 100.0]


def test_one_target_among_images_is_the_best_of_all():
    scores = np.array([0.0, 3, 1, 0, 0, 5])
    y = np.array([0, 1, 0, 0, 0, 1])
    stimulus = np.array([1, 2, 3, 1, 3, 2])
    assert characters_percent(scores, y, stimulus, np.zeros(6, dtype=int)) == [100.0, 100.0]


def test_what_is_not_known_cannot_be_spelled():
    scores, y, stimulus, character = flashes([{2, 9}], lambda c, code, r: 0.0)
    assert characters_percent(scores, y, np.full_like(stimulus, -1), character) is None
    assert characters_percent(scores, y, stimulus, np.full_like(character, -1)) is None
    assert characters_percent(scores, np.zeros_like(y), stimulus, character) is None
    assert characters_percent(scores[:0], y[:0], stimulus[:0], character[:0]) is None
