"""Where units run: in processes on this machine, or on a dask cluster."""

from __future__ import annotations

import multiprocessing
import signal
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from mixnorm import use_device
from mixnorm.eeg.readers.guard import require
from mixnorm.study.data import Data
from mixnorm.study.units import Unit, Work, code_version
from mixnorm.study.work import run_together, run_unit

BACKENDS = ("joblib", "dask")
#: Units whose fits go to a device together, and bytes of trials; they are kept when all of them are done.
_UNITS_AT_ONCE, _BYTES_AT_ONCE = 400, 2 * 2**30


class WorkerError(ValueError):
    """A process that was computing is lost, or runs other code than the study."""


def run_joblib(work: Work, units: Iterable[Unit], jobs: int) -> Iterator[dict[str, Any]]:
    """Results in the order in which they are ready, from ``jobs`` processes (−1: one per core)."""
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    results = parallel(delayed(_in_process)(unit, work.data_of(unit)) for unit in units)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close it before the warning is muted
            yield result
    except TerminatedWorkerError as error:
        raise WorkerError(
            "A process that was computing died, perhaps for want of memory (use fewer --jobs); what was done is kept, "
            "and the same command continues from it."
        ) from error
    finally:
        with warnings.catch_warnings():
            # a run that is stopped leaves units undone, and means to
            warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
            results.close()


def run_device(work: Work, units: Iterable[Unit], device: str) -> Iterator[dict[str, Any]]:
    """Results from this process, the fits of many units solved as few batches on a device.

    Units of several methods go together: what they have in common (the first stage of the adaptive norm is GSVM-2)
    makes one batch.
    """
    waiting = [(unit, work.data_of(unit)) for unit in units]
    while waiting:
        number = max(1, min(_UNITS_AT_ONCE, _BYTES_AT_ONCE // waiting[0][1].first().X.nbytes))
        now, waiting = waiting[:number], waiting[number:]
        with use_device(device):
            results = run_together(now)
        yield from results


def run_dask(work: Work, units: Iterable[Unit], address: str | None) -> Iterator[dict[str, Any]]:
    """Results in the order in which they are ready, from the workers of a dask scheduler.

    The trials travel once per subject, as tasks of their own: when a worker dies the scheduler makes them, and the
    units that were on it, again elsewhere.
    """
    distributed = require("distributed", "dask")
    if not address:
        raise ValueError("The dask backend needs the address of a scheduler: --address tcp://HOST:PORT.")
    with distributed.Client(address, set_as_default=False) as client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        trials = {}
        for unit in (units := list(units)):
            place = (unit.dataset, unit.subject)
            if place not in trials:
                trials[place] = client.submit(_same, work.data_of(unit), pure=False)
        futures = [
            client.submit(_on_worker, unit, trials[unit.dataset, unit.subject], code_version(), pure=False)
            for unit in units
        ]
        try:
            yield from (future.result() for future in distributed.as_completed(futures, loop=client.loop))
        finally:
            client.cancel(futures)


def _in_process(unit: Unit, data: Data) -> dict[str, Any]:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C reaches every process of the terminal; only the first one shall speak of it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return run_unit(unit, data)


def _on_worker(unit: Unit, data: Data, code: dict[str, str]) -> dict[str, Any]:
    mine = code_version()
    if mine != code:
        odd = ", ".join(
            f"{name} {mine.get(name)} instead of {version}"
            for name, version in code.items()
            if mine.get(name) != version
        )
        raise WorkerError(f"A dask worker runs other code than this study: {odd}. Install the same versions there.")
    return run_unit(unit, data)


def _same(data: Data) -> Data:
    return data
