import errno
import os
import stat
import subprocess
import sys

import pytest

from mixnorm.study import StoreError
from mixnorm.study.store import Store

KEY = "a" * 64
RESULT = {"unit": {"key": KEY}, "failed": None, "records": [{"auc": 81.25}]}
HOLDER = """
import sys, time
from mixnorm.study.store import Store
with Store(sys.argv[1]).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "study")
    with store.locked():
        yield store


def test_what_is_written_is_read(store):
    assert store.read(KEY) is None
    store.write(KEY, RESULT)
    assert store.read(KEY) == RESULT
    assert [path.name for path in (store.folder / "results").iterdir()] == [f"{KEY}.json"]


@pytest.mark.parametrize("damage", ["truncated", "altered", "empty", "of another key"])
def test_a_damaged_file_is_noticed_and_set_aside(store, damage):
    store.write(KEY, RESULT)
    path = store.folder / "results" / f"{KEY}.json"
    whole = path.read_bytes()
    damaged = {"truncated": whole[:-5], "altered": whole.replace(b"81.25", b"91.25"), "empty": b""}
    if damage in damaged:
        path.write_bytes(damaged[damage])
    else:
        store.write(KEY, {**RESULT, "unit": {"key": "b" * 64}})
    with pytest.warns(RuntimeWarning, match=f"{KEY}.json is damaged and was moved to .*damaged"):
        assert store.read(KEY) is None
    assert not path.exists()
    assert len(list((store.folder / "damaged").iterdir())) == 1
    store.write(KEY, RESULT)
    assert store.read(KEY) == RESULT


def test_damaged_files_do_not_overwrite_each_other(store):
    for _ in range(3):
        (store.folder / "results" / f"{KEY}.json").write_text("x")
        with pytest.warns(RuntimeWarning, match="damaged"):
            store.read(KEY)
    assert len(list((store.folder / "damaged").iterdir())) == 3


def test_a_damaged_study_file_is_set_aside_and_said(store):
    store.write_study({"identity": "x", "plan": {}})
    (store.folder / "study.json").write_text("{}")
    with (
        pytest.warns(RuntimeWarning, match="damaged"),
        pytest.raises(StoreError, match="Run the study again; its results are kept"),
    ):
        store.study()


def test_a_folder_without_a_study_says_so(tmp_path):
    with pytest.raises(StoreError, match="this folder contains no study; run `mixnorm study` first"):
        Store(tmp_path).study()


def test_another_study_is_refused_and_the_old_one_kept(store):
    first = {"identity": "x", "plan": {"name": "one", "seed": 0}}
    store.write_study(first)
    store.write_study(first)
    with pytest.raises(StoreError, match=r"contains results of another plan \('one', seed 0\).*--out"):
        store.write_study({"identity": "y", "plan": {"name": "two", "seed": 0}})
    assert store.study()["identity"] == "x"


def test_a_second_run_is_refused_and_a_killed_one_holds_nothing(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=rf"another run \(process {holder.pid}\) is using this folder"):
            Store(tmp_path).locked().__enter__()
    finally:
        holder.kill()
        holder.communicate()
    with Store(tmp_path).locked():
        pass


def test_half_written_files_of_a_killed_run_are_removed(tmp_path):
    (tmp_path / "results").mkdir()
    leftovers = [tmp_path / "results" / ".abc.x.part", tmp_path / ".study.json.0123456789abcdef.part"]
    for leftover in leftovers:
        leftover.write_text("half")
    with Store(tmp_path).locked():
        assert not any(leftover.exists() for leftover in leftovers)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_others_may_read_results_as_they_may_read_any_new_file(tmp_path):
    before = os.umask(0o022)
    try:
        store = Store(tmp_path)
        with store.locked():
            store.write(KEY, RESULT)
            store.write_study({"identity": "x", "plan": {}})
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"study.json", "study.lock", f"{KEY}.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        pytest.param(
            getattr(errno, "EDQUOT", None),
            "quota",
            marks=pytest.mark.skipif(not hasattr(errno, "EDQUOT"), reason="Windows has no such error"),
        ),
        (errno.EROFS, "the folder is read-only"),
    ],
)
def test_a_full_disk_ends_with_a_sentence_and_leaves_what_was_there(store, monkeypatch, number, reason):
    store.write(KEY, RESULT)

    def full(_handle):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=f"{reason}.*Finished results are kept"):
        store.write("b" * 64, {**RESULT, "unit": {"key": "b" * 64}})
    assert store.read(KEY) == RESULT
    assert [path.name for path in (store.folder / "results").iterdir()] == [f"{KEY}.json"]


def test_a_folder_that_may_not_be_written_is_said(tmp_path, monkeypatch):
    def refused(*_arguments, **_options):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreError, match="no permission to write into this folder"):
        Store(tmp_path).locked().__enter__()


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path):
    place = tmp_path / "file"
    place.touch()
    with pytest.raises(StoreError, match="this is not a folder"):
        Store(place).locked().__enter__()


def test_results_hold_no_nan(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write(KEY, {**RESULT, "records": [{"auc": float("nan")}]})
