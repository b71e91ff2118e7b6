"""Progress of a selection: it grows from 0 to 1 over all steps, and what a checkpoint restored is told apart."""

from dataclasses import replace

import pytest

from mixnorm.eeg import Checkpoint, SelectOptions, select_montage, simulated_recording
from mixnorm.montage.progress import Step, Tracker, heard_by, report_share


def test_work_decides_how_much_a_part_counts():
    told = []
    tracker = Tracker({"first": Step(2, 3.0), "second": Step(4, 1.0)}, told.append)
    tracker.start("first")
    tracker.finish_share(0.5)
    tracker.finish_part()
    tracker.finish_part(restored=True)
    tracker.start("second")
    tracker.finish_part()
    assert [now.done for now in told] == [0.0, 0.15, 0.3, 0.6, 0.6, 0.7]
    assert [now.restored for now in told] == [0.0, 0.0, 0.0, 0.3, 0.3, 0.3]
    assert [(now.step, now.number, now.n_steps) for now in told[3:5]] == [("first", 1, 2), ("second", 2, 2)]
    for _ in range(9):  # more parts than planned
        tracker.finish_part()
    assert told[-1].done == 1.0


def test_a_share_is_heard_inside_the_block_only():
    heard = []
    report_share(0.1)
    with heard_by(heard.append):
        report_share(0.2)
    report_share(0.3)
    assert heard == [0.2]


@pytest.fixture(scope="module")
def two_people():
    return [
        replace(simulated_recording(120, n_channels=4, n_informative=2, amplitude=8.0, seed=seed), subject=name)
        for seed, name in enumerate("AB")
    ]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_selection_says_how_far_it_is_over_all_steps(two_people, tmp_path, n_jobs):
    options = SelectOptions(n_resamplings=1, n_folds=2, n_jobs=n_jobs, decoders=True, compare=False)
    told, again = [], []
    checkpoint = Checkpoint(tmp_path, "1")
    select_montage(two_people, options, told.append, checkpoint)
    # at once, and after each of both recordings
    assert [(now.number, now.n_steps, now.done) for now in told if now.step == "preparing"] == [(0, 0, 0.0)] * 3
    told = told[3:]
    steps = list(dict.fromkeys(now.step for now in told))
    assert steps[:5] == ["montages and their scores", "subject A", "subject B", "stability", "path"]
    assert steps[-1] == "decoders"
    assert {now.n_steps for now in told} == {len(steps)}
    assert [now.number for now in told] == sorted(now.number for now in told)
    done = [now.done for now in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, pytest.approx(1.0))
    # every finished part is told: folds and all trials, of both subjects together and of each
    assert len({now.done for now in told if now.step == steps[0]}) > 2
    assert told[-1].restored == 0
    select_montage(two_people, options, again.append, checkpoint)
    assert again[-1].done == pytest.approx(1.0)
    # only the decoders are fitted again
    before = next(now.done for now in again if now.step == "decoders")
    assert again[-1].restored == pytest.approx(before)
