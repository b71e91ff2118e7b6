"""Model files that try to exhaust memory or time: bombs, sizes that lie, deep nesting, pipes and devices."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import model_mutations
from mixnorm import load
from mixnorm.estimators import archive
from mixnorm.estimators.persistence import ModelFileError
from model_mutations import archive_of, members_of, originals

MIB = 1 << 20
GROUP_SVC = originals()["GroupSVC"]


def refused(path, text):
    with pytest.raises(ModelFileError, match=text) as refusal:
        load(path)
    assert str(path) in str(refusal.value)


def written(path, members, level=9):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return path


def with_array(path, key, body):
    """The file with other bytes in place of one array, and right checksums."""
    members = members_of(GROUP_SVC)
    header = json.loads(members["header.json"])
    members[f"{key}.npy"], header["arrays"][key] = body, hashlib.sha256(body).hexdigest()
    path.write_bytes(archive_of(header, members))
    return path


@pytest.fixture
def peak():
    """The most memory that Python and NumPy held during a test, in MiB, beyond that at its start."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / MIB
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["header.json", "header.sha256"])
def test_a_header_that_expands_is_read_up_to_its_limit(tmp_path, peak, name):
    path = written(tmp_path / "bomb.mixnorm", {**members_of(GROUP_SVC), name: b" " * (100 * MIB)})
    assert path.stat().st_size < MIB
    tracemalloc.reset_peak()
    refused(path, f"'{name}' has more than .* bytes, which is too large for a model file")
    assert peak() < 20


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_arrays_together_have_a_limit(tmp_path, peak, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 16 * MIB, raising=False)
    members = members_of(GROUP_SVC)
    header = json.loads(members["header.json"])
    body = npy(np.zeros((1, MIB)))  # 8 MiB, allowed alone
    for key in ("coef_", "groups_", "group_norms_", "classes_"):
        members[f"{key}.npy"], header["arrays"][key] = body, hashlib.sha256(body).hexdigest()
    path = tmp_path / "bomb.mixnorm"
    path.write_bytes(archive_of(header, members))
    tracemalloc.reset_peak()
    refused(path, "has more than .* bytes, which is too large for a model file")
    assert peak() < 30


def test_a_size_that_lies_is_not_believed(tmp_path, peak, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 4 * MIB, raising=False)
    path = with_array(tmp_path / "lie.mixnorm", "coef_", npy(np.zeros((1, 8 * MIB))))
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        info = file.getinfo("coef_.npy")
    size = info.file_size.to_bytes(4, "little")
    while size in data:  # in the local header and in the directory
        place = data.index(size)
        data[place : place + 4] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.reset_peak()
    refused(path, "not a model file|was altered|too large")
    assert peak() < 20


def test_only_deflate_is_decompressed(tmp_path, peak):
    path = tmp_path / "bzip2.mixnorm"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        for name, body in {**members_of(GROUP_SVC), "header.json": b" " * (100 * MIB)}.items():
            file.writestr(name, body)
    tracemalloc.reset_peak()
    refused(path, "'header.json' is compressed in a way that no model file is")
    assert peak() < 20


def test_a_directory_of_a_million_members_is_not_read(tmp_path, peak):
    path = tmp_path / "many.mixnorm"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(2000):
            file.writestr(f"{number}", b"")
    tracemalloc.reset_peak()
    refused(path, "the directory of its members is not that of a model file")
    assert peak() < 1
    path.write_bytes(GROUP_SVC[:-2] + b"\x05\x00hello")
    refused(path, "not a model file")


@pytest.mark.parametrize("description", model_mutations.DESCRIPTIONS, ids=lambda text: text[:40])
def test_descriptions_of_arrays_are_matched_and_never_evaluated(tmp_path, description):
    body = model_mutations._described(description, b"\0" * 64)
    refused(with_array(tmp_path / "a.mixnorm", "coef_", body), "'coef_' (is not a plain array|of type|must be)")


@pytest.mark.parametrize("value", ['"class": []', '"class": {}', '"class": 1e999', '"format": ' + "9" * 5000])
def test_headers_with_other_types_are_refused(tmp_path, value):
    members = members_of(GROUP_SVC)
    text = members["header.json"].decode().replace('"class": "GroupSVC"', value, 1).encode()
    members |= {"header.json": text, "header.sha256": hashlib.sha256(text).hexdigest().encode()}
    refused(written(tmp_path / "a.mixnorm", members), "unknown class of model|not a model file")


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 2000 + b"]" * 2000, b"\xff\xfe", b"1e999999"]
)
def test_deep_and_strange_json_is_refused(tmp_path, text):
    members = members_of(GROUP_SVC)
    members |= {"header.json": text, "header.sha256": hashlib.sha256(text).hexdigest().encode()}
    refused(written(tmp_path / "deep.mixnorm", members), "not a model file|the header is not a JSON object")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.mixnorm")
    # In another process: if it waited for a writer, this one would wait for ever.
    code = """if True:
        import sys, mixnorm
        for path in sys.argv[1:]:
            try:
                mixnorm.load(path)
            except mixnorm.estimators.persistence.ModelFileError as error:
                print(error)
    """
    targets = [str(tmp_path / "pipe.mixnorm"), "/dev/null", "/dev/zero"]
    run = subprocess.run([sys.executable, "-c", code, *targets], capture_output=True, text=True, timeout=100)
    assert run.stdout.count("is not a regular file") == 3, run.stderr
    (tmp_path / "link.mixnorm").symlink_to("/dev/zero")
    refused(tmp_path / "link.mixnorm", "is not a regular file")


def test_the_command_line_shows_one_line_and_no_traceback(tmp_path):
    testing = pytest.importorskip("click.testing")
    command = pytest.importorskip("mixnorm.commands.predict")
    path = with_array(tmp_path / "nested.mixnorm", "coef_", model_mutations._described("-" * 5000, b""))
    run = testing.CliRunner().invoke(command.predict, [str(path), "recording.fif"])
    assert run.exit_code == 1
    assert isinstance(run.exception, SystemExit)
    assert run.output == f"Error: {path}: array 'coef_' is not a plain array as numpy.save writes it.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process by /proc")
def test_damaged_and_forged_files_are_refused_or_work(tmp_path):
    """300 files of all classes, within 512 MiB: `benchmarks/fuzz_models.py` tries many more."""
    script = Path(model_mutations.__file__)
    command = [sys.executable, script, tmp_path, "--count", "300", "--seed", "20", "--memory", "512"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = json.loads(run.stdout)["counts"]
    assert sum(counts.values()) == 300
    assert min(counts["altered refused"], counts["forged refused"]) > 100
    assert counts["forged same"] + counts["forged works"] > 5, (
        "a forger who is never believed tests the checksums only"
    )
