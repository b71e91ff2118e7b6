"""Downloads that give up at once where there is no network.

The libraries that download data sets try a host many times and wait longer after each time, a minute in all. Here
every host is asked once; where none answers, the download ends with a `RecordingError`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mixnorm.eeg.recording import RecordingError

#: Seconds in which a host must answer.
SECONDS = 3.0
#: Hosts that have most of the data sets: where none of them answers, there is no network.
WELL_KNOWN = ("zenodo.org", "github.com", "doi.org")
#: A library may try so often before the question is asked whether there is a network at all.
ATTEMPTS = 2


class _NoNetwork(BaseException):
    """Not an `Exception`, which the libraries would answer with another attempt."""


@contextmanager
def downloading(source: str) -> Iterator[None]:
    """Turn the lack of a network into one error, within some ten seconds.

    All names of hosts are looked up by `socket.getaddrinfo`, whatever the library and the proxy. It is replaced for
    the time of the download, in all threads; for hosts that can be reached it does what it always does.
    """
    look_up = socket.getaddrinfo
    reachable: dict[tuple[Any, Any], bool] = {}
    failures = 0

    def careful(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal failures
        if (host, port) not in reachable:
            reachable[host, port] = _answers(look_up, host, port)
        if reachable[host, port]:
            return look_up(host, port, *arguments, **options)
        failures += 1
        # One host may be down; there is no network only if none of them answers.
        if failures > ATTEMPTS and not any(reachable.values()) and not _network(look_up):
            raise _NoNetwork(host)
        raise socket.gaierror(socket.EAI_NONAME, f"{host} cannot be reached")

    socket.getaddrinfo = careful
    try:
        yield
    except _NoNetwork as error:
        raise _unreachable(source, str(error)) from None
    except RecordingError:
        if reachable and not any(reachable.values()):
            raise _unreachable(source, next(iter(reachable))[0]) from None
        raise
    finally:
        socket.getaddrinfo = look_up


def _unreachable(source: str, host: Any) -> RecordingError:
    return RecordingError(
        source,
        f"its data are not on this computer, and there is no network ({host} cannot be reached)",
        "connect to the network, or copy the data into the folder of MNE_DATA",
    )


def _network(look_up: Callable) -> bool:
    """Whether any of the well-known hosts answers; they are asked at the same time."""
    found: list[bool] = []
    threads = [threading.Thread(target=lambda h=host: found.append(_answers(look_up, h, 443))) for host in WELL_KNOWN]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(2 * SECONDS)
    return any(found)


def _answers(look_up: Callable, host: Any, port: Any) -> bool:
    """Whether a connection can be made; a look-up cannot be interrupted, so that it gets a thread."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.extend(look_up(host, port, type=socket.SOCK_STREAM))
        except OSError:
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    # two addresses: where there is no IPv6, the first one may not answer
    for family, kind, protocol, _, address in found[:2]:
        with socket.socket(family, kind, protocol) as connection:
            connection.settimeout(SECONDS / 2)
            try:
                connection.connect(address)
            except OSError:
                continue
            return True
    return False
