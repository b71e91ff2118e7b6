"""Where units run: in processes on this machine, or on a dask cluster."""

from __future__ import annotations

import logging
import multiprocessing
import re
import signal
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from mixnorm import use_device
from mixnorm.eeg.readers.guard import require
from mixnorm.study.data import Data
from mixnorm.study.units import Unit, Work, code_version
from mixnorm.study.work import run_together, run_unit

BACKENDS = ("joblib", "dask")
#: Maximum number of units, and of bytes of trials, that are fitted on a device at once and written together.
_UNITS_AT_ONCE, _BYTES_AT_ONCE = 400, 2 * 2**30
_CONTINUE = "Finished results are kept; run the same command again to continue."


class WorkerError(ValueError):
    """A worker process or a scheduler is lost, or runs other code than the study."""


def run_joblib(work: Work, units: Iterable[Unit], jobs: int) -> Iterator[dict[str, Any]]:
    """Results in the order in which they are ready, from `jobs` processes (−1: one per core)."""
    # Batches of one: a unit takes seconds, and each result is written as soon as it is there.
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    results = parallel(delayed(_in_process)(unit, work.data_of(unit)) for unit in units)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close it before the warning is muted
            yield result
    except TerminatedWorkerError as error:
        raise WorkerError(
            f"A worker process died, possibly because memory ran out (try fewer --jobs). {_CONTINUE}"
        ) from error
    finally:
        with warnings.catch_warnings():
            # joblib warns of units that were not computed, which is what stopping a run means
            warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
            results.close()


def run_device(work: Work, units: Iterable[Unit], device: str) -> Iterator[dict[str, Any]]:
    """Results from this process, the fits of many units solved as few batches on a device.

    Units of several methods are fitted together: common problems (the first stage of the adaptive norm is GSVM-2) form
    one batch.
    """
    # Many units at once fill a device, but their trials must fit into memory, and all of a batch are lost with a
    # crash.
    waiting = [(unit, work.data_of(unit)) for unit in units]
    while waiting:
        number = max(1, min(_UNITS_AT_ONCE, _BYTES_AT_ONCE // waiting[0][1].first().X.nbytes))
        now, waiting = waiting[:number], waiting[number:]
        with use_device(device):
            results = run_together(now)
        yield from results


def check_dask(address: str | None) -> None:
    """Raise an error where no dask scheduler can be reached at an address."""
    with _client(address):
        pass


def run_dask(work: Work, units: Iterable[Unit], address: str | None) -> Iterator[dict[str, Any]]:
    """Results in the order in which they are ready, from the workers of a dask scheduler.

    The trials are sent once per subject, as separate tasks: when a worker is lost, the scheduler runs them, and the
    units that were on it, on another worker.
    """
    distributed = require("distributed", "dask")
    with _client(address) as client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        trials = {}
        for unit in (units := list(units)):
            place = (unit.dataset, unit.subject)
            if place not in trials:
                # As a task and not by `scatter`: scattered data are lost with their worker, a task is run again.
                trials[place] = client.submit(_same, work.data_of(unit), pure=False)
        futures = [
            client.submit(_on_worker, unit, trials[unit.dataset, unit.subject], code_version(), pure=False)
            for unit in units
        ]
        try:
            yield from (future.result() for future in distributed.as_completed(futures, loop=client.loop))
        except (CancelledError, distributed.comm.CommClosedError) as error:
            # Cancelled where the client noticed first, closed where a result was just being fetched.
            raise WorkerError(f"The connection to the dask scheduler at {address} was lost. {_CONTINUE}") from error
        except distributed.KilledWorker as error:
            raise WorkerError(f"Dask workers died repeatedly ({error}). {_CONTINUE}") from error
        finally:
            if client.status == "running":  # a lost scheduler has nothing left to cancel
                client.cancel(futures)


@contextmanager
def _client(address: str | None) -> Iterator[Any]:
    """A connection to a dask scheduler."""
    distributed = require("distributed", "dask")
    if not address:
        raise ValueError("The dask backend needs the address of a scheduler: --address tcp://HOST:PORT.")
    if not re.fullmatch(r"\w+://.+:\d+", address):
        raise ValueError(f"Invalid address {address!r} of a dask scheduler: it must have the form tcp://HOST:PORT.")
    # `set_as_default=False`: a study must not change which client the rest of the user's session uses.
    log = logging.getLogger("distributed.client")
    try:
        client = distributed.Client(address, set_as_default=False)
    except OSError as error:
        raise WorkerError(
            f"No dask scheduler answers at {address} ({error}). Start one with `dask scheduler`, or check the address."
        ) from error
    level = log.level
    # A lost scheduler is reported by our own error; the client would log a traceback as well.
    log.setLevel(logging.CRITICAL)
    try:
        with client:
            yield client
    finally:
        log.setLevel(level)


def _in_process(unit: Unit, data: Data) -> dict[str, Any]:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C reaches every process of the terminal; only the main process reports it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return run_unit(unit, data)


def _on_worker(unit: Unit, data: Data, code: dict[str, str]) -> dict[str, Any]:
    # The key of a result names the code; a worker of another version would write wrong results under it.
    mine = code_version()
    if mine != code:
        differences = ", ".join(
            f"{name} {mine.get(name)} instead of {version}"
            for name, version in code.items()
            if mine.get(name) != version
        )
        raise WorkerError(
            f"A dask worker runs other code than this study: {differences}. Install the same versions there."
        )
    return run_unit(unit, data)


def _same(data: Data) -> Data:
    return data
