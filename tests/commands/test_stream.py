"""`mixnorm stream` on streams of this machine, and without any."""

import importlib.util
import json
import signal
import subprocess
import sys
import threading
import uuid

import numpy as np
import pytest
from click.testing import CliRunner

from mixnorm import GroupSVC, load, save
from mixnorm.commands.stream import stream
from mixnorm.eeg import (
    MATRICES,
    Decoder,
    Preparation,
    StreamDecoder,
    default_classifier,
    read_recording,
    simulated_recording,
    spell,
    to_raw,
)
from mixnorm.eeg.live import Marker
from mixnorm.eeg.live.log import SessionLog

pytest.importorskip("mne")
#: A filter that forgets in about three seconds.
FAST = Preparation(band=(3.0, 20.0), order=1, window=(0.0, 0.3), n_samples=6)

PLAYER = """
import sys, time
from mne_lsl.player import PlayerLSL
player = PlayerLSL(sys.argv[1], chunk_size=8, n_repeat=1, name=sys.argv[2], source_id=sys.argv[2])
player.start()
print("started", flush=True)
while player.running:
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A recording of two minutes, so that a slow machine has time to connect, and a model."""
    folder = tmp_path_factory.mktemp("live")
    recording = simulated_recording(480, n_channels=4, n_informative=3, seed=6)
    to_raw(recording).save(folder / "s_raw.fif", verbose="error")
    save(Decoder.fit(recording, FAST, GroupSVC(alpha=0.05)), folder / "me.mixnorm")
    return folder


@pytest.fixture(scope="module")
def liblsl():
    """Skip where streams cannot be sent and found on this machine."""
    if importlib.util.find_spec("mne_lsl") is None:
        pytest.skip("mne-lsl is not installed: pip install mixnorm[lsl]")
    probe = (
        "from mne_lsl.lsl import *\n"
        "o = StreamOutlet(StreamInfo('mixnorm-probe', 'x', 1, 0.0, 'float64', 'mixnorm-probe'))\n"
        "print(len(resolve_streams(timeout=10, name='mixnorm-probe')) > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120)
    if "True" not in done.stdout:
        pytest.skip(f"liblsl cannot send streams on this machine: {done.stderr.strip()[-200:]}")


class Process:
    """A process whose output is read line by line while it runs."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines, self.errors, self.news = [], [], threading.Condition()
        pipes = (self.process.stdout, self.lines), (self.process.stderr, self.errors)
        self.readers = [threading.Thread(target=self._read, args=pipe, daemon=True) for pipe in pipes]
        for reader in self.readers:
            reader.start()

    def _read(self, source, kept):
        with source:
            for line in source:
                with self.news:
                    kept.append(line.rstrip("\n"))
                    self.news.notify_all()

    def wait_for(self, condition, what, limit=120):
        """Wait until `condition(lines, errors)` holds."""
        with self.news:
            met = self.news.wait_for(
                lambda: condition(self.lines, self.errors) or self.process.poll() is not None, limit
            )
        assert met, f"{what}: not within {limit} s\\n{self.errors}"
        assert condition(self.lines, self.errors), f"{what}: the process ended\\n{self.lines}\\n{self.errors}"

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)
        for reader in self.readers:
            reader.join(timeout=60)


@pytest.fixture
def start():
    processes = []

    def begin(*command):
        processes.append(Process(*command))
        return processes[-1]

    yield begin
    for one in processes:
        one.end()


def test_player_gives_the_scores_of_the_file_and_may_be_killed_and_restarted(files, liblsl, start):
    name = f"mixnorm-test-{uuid.uuid4().hex[:8]}"
    log = files / "session.jsonl"
    live = start("-m", "mixnorm.commands.main", "stream", files / "me.mixnorm", "--eeg", name, "--markers", f"{name}-annotations", "--log", log)  # fmt: skip
    live.wait_for(lambda lines, errors: any("waiting for the eeg stream" in line for line in errors), "waiting")
    player = start("-c", PLAYER, files / "s_raw.fif", name)
    live.wait_for(lambda lines, errors: len(lines) > 30, "scores")
    player.end()
    live.wait_for(lambda lines, errors: any("looking for the streams again" in line for line in errors), "noticing")
    before = len(live.lines)
    start("-c", PLAYER, files / "s_raw.fif", name)
    published = published_scores(3)
    live.wait_for(lambda lines, errors: len(lines) > before + 30, "scores after the restart")
    live.process.send_signal(signal.SIGINT)
    assert live.process.wait(timeout=60) == 0, live.errors
    assert any("Stopped." in line for line in live.errors)
    check_log(log, files)
    logged = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert set(published) <= {one["score"] for one in logged if one["kind"] == "scored"}


def published_scores(count):
    """The next scores of the stream that `mixnorm stream` publishes; those that are NaN are left out."""
    from mne_lsl.lsl import StreamInlet, resolve_streams

    (info,) = resolve_streams(timeout=60, name="mixnorm-scores", source_id="mixnorm-me", minimum=1)
    inlet = StreamInlet(info)
    inlet.open_stream(timeout=60)
    values, _ = inlet.pull_chunk(timeout=60, max_samples=count)
    assert len(values) == count
    return [value for value in values[:, 0].tolist() if np.isfinite(value)]


def check_log(log, files):
    """Scores of the log against those of the file, where the filter has settled after the start or the restart."""
    decoder, recording = load(files / "me.mixnorm"), read_recording(files / "s_raw.fif")
    expected, connections = decoder.predict(recording).score, []
    for line in log.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        if one["kind"] == "connected":
            connections.append([])
        elif one["kind"] == "scored" and one["score"] is not None:
            connections[-1].append((one["onset"], one["score"]))
    assert len(connections) == 2
    settling = StreamDecoder(decoder).settling_s * recording.sfreq
    for scored in connections:
        settled = np.array([score for onset, score in scored if onset - scored[0][0] > settling])
        assert len(settled) > 10
        place = aligned(settled, expected)
        assert np.abs(settled - expected[place : place + len(settled)]).max() < 1e-8 * expected.std()
    again = CliRunner().invoke(stream, [str(files / "me.mixnorm"), "--replay", str(log), "--json"])
    replayed = [one["score"] for one in json.loads(again.stdout)["scores"] if one["score"] is not None]
    assert replayed == [score for scored in connections for _, score in scored]


def aligned(scores, expected):
    """Where a run of consecutive scores lies in the scores of the file."""
    distance = [
        np.abs(expected[at : at + len(scores)] - scores).max() for at in range(len(expected) - len(scores) + 1)
    ]
    return int(np.argmin(distance))


def test_a_log_is_spelled_as_the_file_is(tmp_path):
    training, other = (
        simulated_recording(480, n_channels=4, n_informative=3, amplitude=9.0, seed=seed) for seed in (1, 2)
    )
    decoder = Decoder.fit(training, None, default_classifier("svm", alphas=3))
    save(decoder, tmp_path / "m.mixnorm")
    events, times = other.events, 5.0 + np.arange(other.signal.shape[1]) / 256.0
    names = [
        f"stimulus {code}/character {number}" for code, number in zip(events.stimulus, events.character, strict=True)
    ]
    with (tmp_path / "s.jsonl").open("w", encoding="utf-8") as file:
        log = SessionLog(file)
        log.connected(other.ch_names, "µV", 256.0, 0.0, "m.mixnorm")
        markers = [Marker(float(times[onset]), name) for onset, name in zip(events.onset, names, strict=True)]
        log.pushed(other.signal.T, times, markers)
    done = run(
        tmp_path / "m.mixnorm", "--replay", tmp_path / "s.jsonl", "--spell", "6x6", "--stop", 1 - 1e-12, "--json"
    )
    report = json.loads(done.stdout)
    spelled = spell(decoder, [other], MATRICES["6x6"])
    assert report["text"] == "".join(one.symbol for one in spelled)
    assert [one["score"] for one in report["scores"]] == decoder.predict(other).score.tolist()
    words = run(tmp_path / "m.mixnorm", "--replay", tmp_path / "s.jsonl", "--spell", "6x6").stdout.splitlines()
    assert [line.split()[1] for line in words] == [one.symbol for one in spelled]


def run(*arguments):
    return CliRunner().invoke(stream, [str(argument) for argument in arguments])


def test_a_zero_phase_model_is_refused_before_streams_are_awaited(files, tmp_path):
    recording = read_recording(files / "s_raw.fif")
    save(Decoder.fit(recording, FAST.with_(phase="zero"), GroupSVC(alpha=0.05)), tmp_path / "z.mixnorm")
    done = run(tmp_path / "z.mixnorm")
    assert done.exit_code == 1
    assert "A zero-phase filter cannot run on a stream" in done.output


def test_no_stream_within_the_time_is_an_error(files, liblsl):
    done = run(files / "me.mixnorm", "--eeg", "no such stream", "--wait", 0.5)
    assert done.exit_code == 1
    assert "No stream named 'no such stream' was found within 0.5 s" in done.output


def test_no_marker_within_the_time_is_an_error(files, liblsl, tmp_path):
    from mne_lsl.lsl import StreamInfo, StreamOutlet

    name = f"mixnorm-test-{uuid.uuid4().hex[:8]}"
    info = StreamInfo(name, "EEG", 4, 256.0, "float64", name)
    info.set_channel_names(["Fz", "Cz", "Pz", "Oz"])
    info.set_channel_units("microvolts")
    outlets = [StreamOutlet(info), StreamOutlet(StreamInfo(f"{name}-m", "Markers", 1, 0.0, "string", f"{name}-m"))]
    done = run(files / "me.mixnorm", "--eeg", name, "--markers", f"{name}-m", "--wait", 3)
    assert done.exit_code == 1
    assert f"No marker arrived from stream '{name}-m' within 3 s" in done.output
    del outlets


def test_the_error_names_the_extra(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "mne_lsl.lsl", None)
    done = run(files / "me.mixnorm")
    assert done.exit_code == 1
    assert 'pip install "mixnorm[lsl]"' in done.output
