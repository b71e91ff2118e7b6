import json
import multiprocessing
import os
import signal
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from joblib.externals.loky import reusable_executor

from mixnorm.study import METHODS, Where, load_results, read_results, run_study
from mixnorm.study.backends import WorkerError
from mixnorm.study.letters import REASONS, letters_right, reasons_without_letters
from mixnorm.study.run import run_study as run_in_child
from mixnorm.study.units import code_version, expand
from study_folders import contents

# On Windows SIGTERM ends a process at once, as SIGKILL does elsewhere.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def test_the_same_plan_gives_the_same_files_however_many_processes(plan, tmp_path):
    for name, jobs in (("one", 1), ("two", 2)):
        run_study(plan, tmp_path / name, Where(jobs=jobs))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(contents(tmp_path / "one")) == 9


def units_done(folder):
    return len(list((folder / "results").glob("*.json")))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork server")
def test_killed_at_ten_random_moments_a_study_ends_in_the_same_results(plan, tmp_path):
    plan = plan.with_(splits=8)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    begin = time.perf_counter()
    run_study(plan, whole)
    usual = time.perf_counter() - begin
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["mixnorm.study.run"])
    rng = np.random.default_rng(0)
    ends, seen = [], [0]
    for attempt in range(10):
        child = context.Process(target=run_in_child, args=(plan, broken))
        child.start()
        while attempt % 2 and child.is_alive() and units_done(broken) == seen[-1]:
            child.join(0.002)  # every other one gets somewhere first, however slow the machine
        child.join(rng.uniform(0.02, usual / 8) if attempt % 2 == 0 else rng.uniform(0, usual / 24))
        child.kill()
        child.join()
        ends.append(child.exitcode)
        seen.append(units_done(broken))
    assert ends.count(-signal.SIGKILL) >= 8
    assert 0 < seen[-1] <= 24
    run_study(plan, broken)
    assert contents(broken) == contents(whole)
    assert read_results(broken).to_json() == read_results(whole).to_json()


def test_a_truncated_result_is_redone(plan, tmp_path):
    run_study(plan, tmp_path)
    before = contents(tmp_path)
    victim = tmp_path / "results" / sorted(before)[0]
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.warns(RuntimeWarning, match="is damaged and was moved to"):
        run_study(plan, tmp_path)
    assert contents(tmp_path) == before


def test_only_what_is_missing_is_computed(plan, tmp_path):
    told = []
    run_study(plan.with_(splits=2, methods=("svm", "gsvm-2")), tmp_path)
    run_study(plan, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 9) for done in range(4, 10)]
    run_study(plan, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (9, 9)
    assert told[-2] == (9, 9)


def test_an_interrupt_keeps_what_was_done_and_frees_the_folder(plan, tmp_path):
    def interrupt(done, _total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run_study(plan, tmp_path, Where(jobs=2), progress=interrupt)
    assert len(contents(tmp_path)) == 4
    run_study(plan, tmp_path)
    assert read_results(tmp_path).complete


def test_a_lost_process_is_said_and_the_study_can_go_on(plan, tmp_path):
    def kill_a_process(done, _total):
        if done == 2:
            pid = next(iter(reusable_executor._executor._processes))
            os.kill(pid, KILL)

    with pytest.raises(WorkerError, match=r"A worker process died.*run the same command again to continue"):
        run_study(plan.with_(splits=12), tmp_path, Where(jobs=2), progress=kill_a_process)
    assert len(contents(tmp_path)) >= 2


def test_a_subject_left_out_is_scored_by_what_the_others_taught(around, write_bundle, tmp_path):
    plan = around(
        write_bundle(), split_by="subject", methods=("svm", "mgsvm-2s", "mgsvm-2s-aligned"), similarities=(0.0, 1.0)
    )
    run_study(plan, tmp_path / "out")
    found = read_results(tmp_path / "out")
    assert found.n_units == 12
    for row in found.rows():
        assert (row.n_subjects, row.n_splits) == (4, 1)
        assert row.auc > 80


def test_an_incomplete_study_gives_no_results_unless_asked(plan, tmp_path):
    def stop(done, _total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run_study(plan, tmp_path, progress=stop)
    with pytest.raises(ValueError, match=r"not complete, 4 of 9 units are missing \(the first: small, subject S1"):
        read_results(tmp_path)
    found = read_results(tmp_path, partial=True)
    assert (found.complete, len(found.missing)) == (False, 4)
    assert found.to_json()["units_done"] == 5
    assert found.missing[0] == "small, subject S1, split 1, 90 training trials, gsvm-a"
    assert [row.n_splits for row in found.rows()] == [2, 2, 1]


def test_a_subject_with_one_class_fails_alone_and_is_said(around, write_bundle, tmp_path):
    plan = around(write_bundle(one_class=("C",)))
    run_study(plan, tmp_path / "out")
    found = read_results(tmp_path / "out")
    assert not found.complete
    assert found.missing == []
    assert len(found.failed) == 4
    where, why = found.failed[0]
    assert where == "bundle, subject C, split 0, 60 training trials, svm"
    assert why == "subject C: all 60 training trials are non-targets; two classes are needed"
    assert [row.n_subjects for row in found.rows()] == [3, 3]
    assert found.rows()[0].auc > 75


def broken(*_arguments):
    raise KeyError("no such thing")


def out_of_memory(*_arguments):
    raise MemoryError("8 GiB")


@pytest.mark.parametrize(
    ("fit", "reason"), [(broken, "KeyError: 'no such thing'"), (out_of_memory, "MemoryError: 8 GiB")]
)
def test_a_unit_that_raises_anything_is_recorded_and_the_next_run_tries_it_again(
    plan, tmp_path, monkeypatch, fit, reason
):
    told = []
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "gsvm-2", replace(METHODS["gsvm-2"], fit=fit))
        run_study(plan, tmp_path)
        found = read_results(tmp_path)
        assert [why for _, why in found.failed] == [reason] * 3
        assert found.failed[0][0] == "small, subject S1, split 0, 90 training trials, gsvm-2"
        assert [row.n_splits for row in found.rows()] == [3, 0, 3]
        assert not found.complete
    run_study(plan, tmp_path, progress=lambda done, total: told.append(done))
    assert told == [6, 7, 8, 9]
    assert read_results(tmp_path).complete


def test_data_that_were_refused_are_not_tried_again(around, write_bundle, tmp_path):
    plan, told = around(write_bundle(one_class=("C",))), []
    for _ in range(2):
        told.clear()
        run_study(plan, tmp_path / "out", progress=lambda done, total: told.append(done))
    assert told == [16]


def test_fits_above_the_tolerance_are_listed_by_unit(plan, tmp_path, monkeypatch):
    def unconverged(*arguments):
        outcome = METHODS["svm"].fit(*arguments)
        return replace(outcome, chosen={**outcome.chosen, "dual_gap": 3e-5})

    monkeypatch.setitem(METHODS, "gsvm-2", replace(METHODS["gsvm-2"], fit=unconverged))
    run_study(plan.with_(splits=1), tmp_path)
    found = read_results(tmp_path)
    assert found.above_tol == [("small, subject S1, split 0, 90 training trials, gsvm-2", 3e-5)]
    assert found.to_json()["above_tol"] == [{"unit": found.above_tol[0][0], "dual_gap": 3e-5}]


def test_keys_depend_on_data_grids_splits_and_code_and_on_nothing_else(around, write_bundle, monkeypatch):
    path = write_bundle()
    plan = around(path)

    def keys(plan):
        return {unit.key for unit in expand(plan).units}

    assert keys(plan) == keys(plan.with_(about="other words", scatter_at=60))
    for change in ({"alphas": (0.01, 0.11)}, {"seed": 1}, {"folds": 4}, {"n_train": (61,)}, {"split_by": "session"}):
        assert not keys(plan) & keys(plan.with_(**change)), change
    # a grid that a method does not use cannot change its results
    assert keys(plan) == keys(plan.with_(qs=(1.5,), similarities=(1.0,)))
    assert keys(plan) < keys(plan.with_(splits=3))
    old = keys(plan)
    monkeypatch.setattr("mixnorm.study.units.code_version", lambda: {**code_version(), "mixnorm": "other"})
    assert not old & keys(plan)
    monkeypatch.undo()
    with np.load(path) as bundle:
        arrays = dict(bundle)
    arrays["X"][7, 1, 2] += 1e-3
    np.savez(path, **arrays)
    assert not old & keys(plan)
    assert all(len(key) == 64 for key in old)


def test_long_plans_that_differ_in_the_last_digit_do_not_collide(plan):
    grids = [tuple(np.geomspace(1e-3, 1, 400)), (*np.geomspace(1e-3, 1, 400)[:-1], 1.0 + 2**-52)]
    units = [expand(plan.with_(alphas=tuple(map(float, grid)))).units[0] for grid in grids]
    assert units[0].key != units[1].key


def test_what_a_file_holds_is_plain_json(plan, tmp_path):
    run_study(plan.with_(splits=1), tmp_path)
    assert len(contents(tmp_path)) == len(plan.methods)
    for content in contents(tmp_path).values():
        result = json.loads(content.split(b"\n", 1)[1])
        (record,) = result["records"]
        assert record["subject"] == "S1"
        assert (record["n_train"], record["n_test"], record["n_channels"]) == (90, 170, 5)
        assert 50 < record["auc"] <= 100
        assert len(record["path"]) == 3


def test_results_are_a_tidy_frame(plan, tmp_path):
    run_study(plan, tmp_path)
    frame = load_results(tmp_path)
    assert len(frame) == 9
    assert list(frame.columns[:5]) == ["dataset", "method", "subject", "split", "n_train"]
    svm = frame[frame.method == "svm"]
    assert (svm.sel == 100).all()
    assert frame.f_measure.between(0, 100).all()
    assert (frame.dual_gap < 1e-6).all()
    rows = {row.method: row for row in read_results(tmp_path).rows()}
    assert rows["svm"].auc == pytest.approx(svm.auc.mean())
    assert rows["svm"].p_value is None
    # three paired draws: no p-value below 1/4 exists
    assert rows["gsvm-2"].p_value >= 0.25


def test_p_values_are_paired_over_subjects_where_trials_are_the_same(around, write_bundle, tmp_path):
    run_study(around(write_bundle()), tmp_path / "out")
    row = read_results(tmp_path / "out").rows()[1]
    assert (row.n_subjects, row.n_splits) == (4, 2)
    assert round(row.p_value * 2**3) == pytest.approx(row.p_value * 2**3)


def test_characters_are_spelled_where_splits_leave_them_whole(around, write_bundle, tmp_path):
    path = write_bundle()
    for by, known in (("character", True), ("session", True), ("random", False)):
        run_study(around(path, split_by=by, methods=("svm",)), tmp_path / by)
        shares = [record["characters"] for record in read_results(tmp_path / by).records]
        assert all((share is not None) == known for share in shares), by
        assert {r["no_letters"] for r in read_results(tmp_path / by).records} == {None if known else "split"}
        if known:
            assert all(len(share) == 6 and share[-1] >= share[0] for share in shares)
    # as error potentials are: no codes and no characters
    run_study(around(write_bundle(stimulus=None, character=None), methods=("svm",)), tmp_path / "none")
    found = read_results(tmp_path / "none")
    assert {record["no_letters"] for record in found.records} == {"codes"}
    assert letters_right(found) == []
    assert reasons_without_letters(found) == [f"bundle: {REASONS['codes']}."]


def test_dead_data_raise_no_warning(plan, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_study(plan.with_(alphas=(50.0, 100.0), splits=1), tmp_path)
    assert read_results(tmp_path).rows()[1].auc == 50.0
    assert read_results(tmp_path).rows()[1].sel == 0.0
