import os
import signal
import sys

import pytest

from mixnorm.study import Where, run_study
from mixnorm.study.backends import WorkerError
from study_folders import contents

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """A scheduler and two worker processes on loopback."""
    # spawned interpreters find the package as this one does
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_cluster_gives_the_same_files_and_a_killed_worker_loses_nothing(plan, tmp_path, cluster):
    plan = plan.with_(splits=8)
    run_study(plan, tmp_path / "here")
    killed = []

    def kill(done, _total):
        if done == 5:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    run_study(plan, tmp_path / "there", Where("dask", address=cluster.scheduler_address), progress=kill)
    assert killed
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.slow
def test_workers_with_other_code_are_refused(plan, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr("mixnorm.study.backends.code_version", lambda: {"mixnorm": "0.0.0 other"})
    with pytest.raises(WorkerError, match=r"worker runs other code than this study: mixnorm .* instead of 0\.0\.0"):
        run_study(plan, tmp_path, Where("dask", address=cluster.scheduler_address))


def test_without_an_address_or_dask_it_says_what_to_do(plan, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"needs the address of a scheduler: --address tcp://HOST:PORT"):
        run_study(plan, tmp_path, Where("dask"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"mixnorm\[dask\]"):
        run_study(plan, tmp_path, Where("dask", address="tcp://127.0.0.1:1"))
    with pytest.raises(ValueError, match=r"Unknown backend 'dusk': did you mean 'dask'"):
        run_study(plan, tmp_path, Where("dusk"))
