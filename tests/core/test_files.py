"""Files that are whole or not there."""

import os
import stat
import subprocess
import sys

import pytest

from mixnorm.core import files
from mixnorm.core.files import open_regular, remove_leftovers, whole_file, write_text

LEFTOVER = ".model.0123456789abcdef.part"


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch):
    """Folders count as never written to."""
    monkeypatch.setattr(files, "_swept", set())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_former_file_stays_until_the_new_one_is_whole(tmp_path):
    path = write_text(tmp_path / "a.txt", "old\n")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old\n"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_a_block_that_fails_leaves_the_former_file_and_nothing_else(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")

    def stopped():
        with whole_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        stopped()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_content_is_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(("fsync", os.fstat(handle).st_size)))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append(("replace", None)), replace(*paths)))
    write_text(tmp_path / "a.txt", "four")
    assert done == [("fsync", 4), ("replace", None)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_permissions_of_any_new_file(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        path = write_text(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_leftovers_of_killed_processes_go_with_the_next_write_and_other_files_stay(tmp_path):
    for name in (LEFTOVER, ".notes.part", "mine.0123456789abcdef.part"):
        (tmp_path / name).write_text("half")
    write_text(tmp_path / "other", "text")
    assert names(tmp_path) == [".notes.part", "mine.0123456789abcdef.part", "other"]


WRITE_AND_WAIT = """
import sys
from mixnorm.core.files import whole_file
with whole_file(sys.argv[1]) as file:
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_what_another_process_is_writing_is_no_leftover(tmp_path):
    command = [sys.executable, "-c", WRITE_AND_WAIT, str(tmp_path / "model")]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "writing\n"
        remove_leftovers(tmp_path)
        (part,) = names(tmp_path)
        assert part.startswith(".model.")
        writer.kill()
    finally:
        writer.communicate()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_two_processes_that_write_one_file_leave_one_of_the_two_whole(tmp_path):
    with whole_file(tmp_path / "model") as one:
        one.write(b"one")
        with whole_file(tmp_path / "model") as two:
            two.write(b"second")
        assert (tmp_path / "model").read_bytes() == b"second"
    assert (tmp_path / "model").read_bytes() == b"one"
    assert names(tmp_path) == ["model"]


def test_names_as_long_as_a_file_system_takes(tmp_path):
    name = "é" * 127
    write_text(tmp_path / name, "text")
    assert names(tmp_path) == [name]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_is_followed_and_a_device_is_written_to(tmp_path):
    (tmp_path / "folder").mkdir()
    real = write_text(tmp_path / "folder" / "real", "old")
    (tmp_path / "link").symlink_to(real)
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert real.read_text() == "new"
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_text(tmp_path / "nowhere" / "a.txt", "text")


@pytest.mark.skipif(os.name == "nt", reason="no such files on Windows")
def test_only_regular_files_are_opened_for_reading(tmp_path):
    (tmp_path / "text").write_bytes(b"hello")
    (tmp_path / "link").symlink_to(tmp_path / "text")
    for name in ("text", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"hello"
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="is not a regular file"):
            open_regular(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "missing")
