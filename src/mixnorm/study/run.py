"""Run a plan: units without a result are computed and written one by one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixnorm import use_device
from mixnorm.study.backends import BACKENDS, check_dask, run_dask, run_device, run_joblib
from mixnorm.study.canonical import known
from mixnorm.study.data import Data
from mixnorm.study.plan import Plan
from mixnorm.study.store import Store
from mixnorm.study.units import Unit, Work, code_version, expand


@dataclass(frozen=True)
class Where:
    """Where the units of a study run: in processes, on a cluster, or on a device.

    Attributes
    ----------
    backend : {"joblib", "dask"}
        What runs them.
    jobs : int
        Number of processes of "joblib".
    address : str or None
        Address of the scheduler of "dask".
    device : str or None
        "cuda" …, as in `mixnorm.use_device`; all units are then fitted from this process.

    See Also
    --------
    run_study : Takes it.
    mixnorm.use_device : The device of single fits.

    Examples
    --------
    >>> from mixnorm.study import Where
    >>> Where(jobs=4)
    Where(backend='joblib', jobs=4, address=None, device=None)
    """

    backend: str = "joblib"
    jobs: int = 1
    address: str | None = None
    device: str | None = None


def run_study(
    plan: Plan,
    folder: str | Path,
    where: Where | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Compute the units of a plan that have no result in a folder yet.

    Parameters
    ----------
    plan : Plan
        Data, splits, methods and grids.
    folder : path
        Folder of the results. After an interruption, the same call continues.
    where : Where, optional
        One process by default.
    progress : callable, optional
        Called with the number of units done and their total number, at the start and after each unit.

    Returns
    -------
    Store
        The folder; `read_results` reads it.

    See Also
    --------
    load_plan : A plan by name or from a file.
    read_results : The results of the folder.
    mixnorm.report.write_report : Tables and figures.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.study import DatasetPlan, Plan, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> counts = []
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = run_study(plan, folder, progress=lambda done, total: counts.append((done, total)))
    >>> counts[0], counts[-1]
    ((0, 4), (4, 4))
    """
    where = where or Where()
    # before the folder is created: an invalid command leaves nothing behind
    _check(where)
    store = Store(folder)
    work = expand(plan)
    with store.locked():
        store.write_study(_study(work))
        # Units that failed because of their data fail again and are kept; those with other errors are tried again.
        missing = [unit for unit in work.units if (found := store.read(unit.key)) is None or found["retry"]]
        done = len(work.units) - len(missing)
        tell = progress or (lambda _done, _total: None)
        tell(done, len(work.units))
        # closed also after an error or Ctrl-C, which ends the worker processes
        with closing(_results(work, missing, where)) as results:
            for result in results:
                # One by one, so that an interruption loses at most what is being computed.
                store.write(result["unit"]["key"], result)
                done += 1
                tell(done, len(work.units))
    return store


def _check(where: Where) -> None:
    """Refuse a backend or device that cannot be used, before data are read or a folder is created."""
    known(where.backend, BACKENDS, "backend")
    if where.device is not None and (where.backend != "joblib" or where.jobs != 1):
        raise ValueError("A device is used by one process only: leave out --jobs and --backend dask, or --device.")
    if where.backend == "dask":
        check_dask(where.address)
    if where.device is not None:
        with use_device(where.device):
            pass


def _results(work: Work, missing: list[Unit], where: Where) -> Generator[dict[str, Any], None, None]:
    if not missing:
        return (nothing for nothing in ())
    if where.device is not None:
        return run_device(work, missing, where.device)
    if where.backend == "dask":
        return run_dask(work, missing, where.address)
    return run_joblib(work, missing, where.jobs)


def _study(work: Work) -> dict[str, Any]:
    return {
        "plan": work.plan.to_dict(),
        "identity": work.plan.identity(),
        "code": code_version(),
        "datasets": {name: _about(data) for name, data in work.data.items()},
        "units": [unit.to_dict() for unit in work.units],
    }


def _about(data: Data) -> dict[str, Any]:
    """Description of a data set for reports."""
    design = data.first()
    # NaN, which JSON does not have, is the only number that differs from itself.
    placed = [None if any(p != p for p in place) else place for place in design.positions.tolist()]
    return {
        "hash": data.hash,
        "subjects": list(data.subjects),
        "ch_names": list(design.ch_names),
        "positions": placed,
        "times": design.times.tolist(),
    }
