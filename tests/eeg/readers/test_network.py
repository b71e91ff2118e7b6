import socket
import threading

import pytest

from mixnorm.eeg import RecordingError
from mixnorm.eeg.readers import network
from mixnorm.eeg.readers.network import downloading


@pytest.fixture
def no_names(monkeypatch):
    """A machine that finds no host; the hosts that were asked for."""
    asked = []

    def fails(host, *_, **__):
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    return asked


def stubborn(attempts=1000):
    """A library that tries again after every error."""
    for _ in range(attempts):
        try:
            return socket.create_connection(("data.example.org", 443))
        except Exception:
            continue
    raise ConnectionError("all attempts failed")


def test_without_a_network_the_third_attempt_is_the_last(no_names):
    with (
        pytest.raises(
            RecordingError,
            match=r"^moabb:X: its data are not on this computer, and there is no network \(data\.example\.org cannot be",
        ),
        downloading("moabb:X"),
    ):
        stubborn()
    assert sorted(no_names) == sorted(["data.example.org", *network.WELL_KNOWN])  # every host is asked once


def test_the_look_up_is_put_back(no_names):
    before = socket.getaddrinfo
    with pytest.raises(RecordingError), downloading("moabb:X"):
        stubborn()
    assert socket.getaddrinfo is before


def test_a_host_that_answers_is_used_as_ever(monkeypatch):
    server = socket.create_server(("127.0.0.1", 0))
    with server, downloading("moabb:X"), socket.create_connection(server.getsockname()) as connection:
        assert connection.getpeername() == server.getsockname()


def test_one_host_that_is_down_does_not_end_a_download_while_there_is_a_network(monkeypatch):
    """The mirror of a data set is down: its own host must still be tried."""
    server = socket.create_server(("127.0.0.1", 0))
    real = socket.getaddrinfo

    def look_up(host, port, *rest, **options):
        if host == "mirror.example.org":
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real("127.0.0.1", server.getsockname()[1], *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with server, downloading("moabb:X"):
        for _ in range(5):
            with pytest.raises(socket.gaierror, match=r"mirror\.example\.org cannot be reached"):
                socket.create_connection(("mirror.example.org", 443))
        socket.create_connection(("data.example.org", 443)).close()


def test_a_look_up_that_never_ends_is_not_waited_for(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(network, "SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [release.wait(60)][:0])
    try:
        with pytest.raises(RecordingError, match="there is no network"), downloading("moabb:X"):
            stubborn()
    finally:
        release.set()


# MOABB's own, of its mirror and of packages that it imports
@pytest.mark.filterwarnings("ignore")
def test_a_moabb_data_set_without_a_network_says_so(no_names, monkeypatch, tmp_path):
    pytest.importorskip("moabb")
    from mixnorm.eeg import read_recordings

    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    monkeypatch.setenv("MNE_DATASETS_BNCI_PATH", str(tmp_path))
    with pytest.raises(
        RecordingError, match=r"^moabb:BNCI2014_008/1: its data are not on this computer, and there is no"
    ):
        read_recordings("moabb:BNCI2014_008/1")
