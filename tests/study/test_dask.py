import json
import os
import signal
import subprocess
import sys
import time

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
            os.kill(killed[0], getattr(signal, "SIGKILL", signal.SIGTERM))

    run_study(plan, tmp_path / "there", Where("dask", address=cluster.scheduler_address), progress=kill)
    assert killed
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@pytest.mark.slow
def test_workers_with_other_code_are_refused(plan, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr("mixnorm.study.backends.code_version", lambda: {"mixnorm": "0.0.0 other"})
    with pytest.raises(WorkerError, match=r"worker runs other code than this study: mixnorm .* instead of 0\.0\.0"):
        run_study(plan, tmp_path, Where("dask", address=cluster.scheduler_address))


@pytest.mark.slow
def test_a_connection_that_breaks_while_a_result_is_fetched_is_a_lost_scheduler(plan, tmp_path, cluster, monkeypatch):
    def broken(_future, **_options):
        raise distributed.comm.CommClosedError("in <TCP>: ConnectionResetError: Connection reset by peer")

    monkeypatch.setattr(distributed.Future, "result", broken)
    with pytest.raises(WorkerError, match=r"connection to the dask scheduler at tcp://.* was lost"):
        run_study(plan, tmp_path, Where("dask", address=cluster.scheduler_address))


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_said_in_one_sentence_and_the_study_can_go_on(plan, tmp_path, caplog):
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler_file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [*command, "--no-dashboard", "--scheduler-file", str(scheduler_file)], stderr=subprocess.DEVNULL
    )
    worker = None
    try:
        deadline = time.monotonic() + 60
        while not scheduler_file.is_file() and time.monotonic() < deadline:
            time.sleep(0.1)
        address = json.loads(scheduler_file.read_text())["address"]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
        worker = subprocess.Popen([*command, "--local-directory", str(tmp_path / "worker")], stderr=subprocess.DEVNULL)

        def kill(done, _total):
            if done == 3:
                scheduler.kill()

        with pytest.raises(
            WorkerError, match=r"connection to the dask scheduler at tcp://.* was lost.*run the same comm"
        ):
            run_study(plan.with_(splits=40), tmp_path / "out", Where("dask", address=address), progress=kill)
    finally:
        for process in (scheduler, worker):
            if process is not None:
                process.kill()
                process.wait()
    assert "Traceback" not in caplog.text
    assert len(contents(tmp_path / "out")) >= 3
    with distributed_timeout(), pytest.raises(WorkerError, match=rf"No dask scheduler answers at {address}"):
        run_study(plan, tmp_path / "new", Where("dask", address=address))
    assert not (tmp_path / "new").exists()


def distributed_timeout():
    import dask

    return dask.config.set({"distributed.comm.timeouts.connect": "0.5s"})


def test_without_an_address_or_dask_it_says_what_to_do(plan, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"needs the address of a scheduler: --address tcp://HOST:PORT"):
        run_study(plan, tmp_path / "out", Where("dask"))
    with pytest.raises(ValueError, match=r"Invalid address 'localhost' of a dask scheduler: .* tcp://HOST:PORT"):
        run_study(plan, tmp_path / "out", Where("dask", address="localhost"))
    assert not (tmp_path / "out").exists()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"mixnorm\[dask\]"):
        run_study(plan, tmp_path, Where("dask", address="tcp://127.0.0.1:1"))
    with pytest.raises(ValueError, match=r"Unknown backend 'dusk': did you mean 'dask'"):
        run_study(plan, tmp_path, Where("dusk"))
