"""Real launchers that restart, find out who hangs and stop at one step; the workers are stand-ins."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until
from tests.workers.launcher_processes import Launcher, Launchers, left_behind, write_config
from tfdist.rundir import RunDir, State, WorkerState
from tfdist.rundir.state_records import JobState

RESTARTS = 20 if os.environ.get("TFDIST_SLOW_TESTS") else 4


def start(launchers: Launchers, *args: str, **options: Any) -> Launcher:
    return launchers.start(**{"nproc": 2, "run_dir": "r", "show": "all", **options}, args=list(args))


def run_of(launcher: Launcher) -> RunDir:
    return RunDir(launcher.folder / "r")


def meet(launchers: Launchers) -> str:
    """The action of workers that wait for all others first."""
    return f"*:meet:{launchers.folder}"


def blamed_first(launcher: Launcher) -> str:
    """The first line of its report, before which a slow one says for whom it waits."""
    return next(line for line in launcher.err.splitlines() if line.startswith("error: "))


def test_all_workers_are_restarted(launchers: Launchers) -> None:
    launcher = start(launchers, "1@0:step:5", "1@0:signal:9", "*@0:hang", "*@1:environ:TFDIST_ATTEMPT", max_restarts=1)
    assert launcher.end() == 0, launcher.err
    assert launcher.out.splitlines() == ["TFDIST_ATTEMPT=1"] * 2
    assert "worker 1 (" in launcher.err and "in epoch 1 after step 5: killed by SIGKILL" in launcher.err
    assert "all workers start again in 1 s (restart 1 of 1; progress resets the count)" in launcher.err
    run = run_of(launcher)
    assert {path.name for path in run.logs_dir.iterdir()} == {f"worker-{i}.{n}.log" for i in (0, 1) for n in (0, 1)}
    assert json.loads(run.attempt_failure_file(0).read_text())["index"] == 1
    assert not run.failure_file.exists()
    job = JobState.read(run.job_file)
    assert job is not None and (job.phase, job.attempt) == ("done", 1)


@pytest.mark.bound(60 + 5 * RESTARTS)
def test_many_restarts_leave_nothing_behind(launchers: Launchers) -> None:
    counted = launchers.folder / "counted"
    # Before the other one dies, in the first attempt; in the last nobody does.
    args = [f"0@{RESTARTS}:descriptors", "0@0:descriptors", f"0@0:touch:{counted}", f"1@0:await:{counted}"]
    for attempt in range(RESTARTS):
        args += [f"1@{attempt}:step:{attempt + 1}", f"1@{attempt}:child:{launchers.folder}/child", "*:swallow"]
        args += [f"1@{attempt}:signal:9", f"0@{attempt}:hang"]
    launcher = start(launchers, *args, max_restarts=1)
    assert launcher.end(30 + 5 * RESTARTS) == 0, launcher.err
    first, last = map(int, launcher.out.split())
    assert first == last  # descriptors of the launcher
    assert left_behind(launcher.mark) == []
    assert not [path for path in launcher.folder.rglob("*") if ".tmp" in path.name]
    assert len(list(run_of(launcher).logs_dir.iterdir())) == 2 * (RESTARTS + 1)


def test_a_restart_takes_the_config_that_was_read(launchers: Launchers) -> None:
    edited = launchers.folder / "edited"
    args = ["*:config", f"1@0:await:{edited}", "1@0:step:5", "1@0:signal:9", "*@0:hang"]
    launcher = start(launchers, *args, config=write_config(launchers.folder, 3), max_restarts=1)
    log = run_of(launcher).log_file(0, 0)
    until(lambda: log.exists() and "epochs" in log.read_text())
    write_config(launchers.folder, 4)
    edited.touch()
    assert launcher.end() == 0, launcher.err
    assert launcher.out.splitlines() == [f"3 epochs of {launchers.folder}/x.npz"] * 4


def test_restarts_without_progress_end(launchers: Launchers) -> None:
    launcher = start(launchers, "1:step:5", "1:signal:9", "*:hang", max_restarts=1)
    assert launcher.end() == 4
    assert "not restarted: it was restarted once without any progress (--max-restarts 1)" in launcher.err
    assert run_of(launcher).failure_file.exists()


@pytest.mark.parametrize(("action", "code"), [("data:No samples.", 5), ("tell:No such key.", 2)])
def test_failures_that_would_come_again_are_not_restarted(launchers: Launchers, action: str, code: int) -> None:
    launcher = start(launchers, f"1:{action}", "*:hang", max_restarts=3)
    assert launcher.end() == code
    assert "not restarted: it would fail in the same way again" in launcher.err


def test_the_worker_that_is_behind_is_named(launchers: Launchers) -> None:
    launcher = start(launchers, meet(launchers), "*:limit:2", "0:step:418", "1:step:417", "*:hang")
    assert launcher.end() == 4
    first = launcher.err.splitlines()[0]
    assert first.startswith("error: worker 1 (") and "has not reached step 419" in first
    assert "stand_in.py line 417" in first
    failure = json.loads(run_of(launcher).failure_file.read_text())
    assert (failure["index"], failure["kind"], failure["step"]) == (1, "hang", 417)
    assert [other["index"] for other in failure["consequences"]] == [0]


def test_a_stopped_process_is_named_and_ended(launchers: Launchers) -> None:
    launcher = start(launchers, meet(launchers), "*:limit:2", "*:step:5", "1:stop", "0:hang")
    assert launcher.end() == 4
    assert "worker 1 (" in launcher.err.splitlines()[0] and "SIGSTOP" in launcher.err
    assert left_behind(launcher.mark) == []


def test_a_stopped_process_is_the_cause_of_what_broke_off_on_others(launchers: Launchers) -> None:
    """TensorFlow gives a worker up that says nothing for 10 s, long before tfdist calls that a hang."""
    there = launchers.folder / "there"
    stops = [f"1:touch:{there}", "1:stop", f"0:await:{there}", "0:raise:WorkerFailedError it broke off"]
    launcher = start(launchers, meet(launchers), "*:limit:600", "*:step:5", *stops)
    assert launcher.end() == 4
    first, *rest = launcher.err.splitlines()
    assert "worker 1 (" in first and "SIGSTOP" in first and "in step 6" in first
    assert any("worker 0 (" in line and "it broke off" in line for line in rest)
    assert left_behind(launcher.mark) == []


def test_a_hang_is_restarted(launchers: Launchers) -> None:
    launcher = start(launchers, "*@0:limit:1", "*@0:step:5", "*@0:hang", max_restarts=1)
    assert launcher.end() == 0, launcher.err
    assert "hangs: " in launcher.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_workers_stop_after_the_same_step(launchers: Launchers, number: int, code: int) -> None:
    touched = launchers.folder / "touched"
    launcher = start(launchers, meet(launchers), "*:step:3", f"1:touch:{touched}", "0:train:0.01", "1:train:0.003")
    until(touched.exists)
    launcher.send(number)
    assert launcher.end() == code, launcher.err
    first, second = launcher.out.splitlines()
    assert first == second and first.startswith("stopped after ")
    assert launcher.err.startswith("stopped: ")


def test_a_signal_to_a_worker_stops_the_job(launchers: Launchers) -> None:
    launcher = start(launchers, meet(launchers), "*:step:3", "1:relay:15", "*:train:0.01")
    assert launcher.end() == 143, launcher.err
    assert "SIGTERM to worker 1" in launcher.err
    assert len(set(launcher.out.splitlines())) == 1


def test_workers_that_do_not_answer_are_ended_within_the_grace(launchers: Launchers) -> None:
    touched = launchers.folder / "touched"
    launcher = start(launchers, "*:step:3", "1:deaf", "1:swallow", f"1:touch:{touched}", "*:train:0.01", grace=1.0)
    until(touched.exists)
    launcher.send(signal.SIGTERM)
    assert launcher.end() == 143
    assert left_behind(launcher.mark) == []


@pytest.fixture
def workers(two_ports: tuple[int, int]) -> str:
    first, second = two_ports
    return f"127.0.0.1:{first},127.0.0.2:{second}"


def both(launchers: Launchers, workers: str, *args: str, **options: Any) -> list[Launcher]:
    return [
        start(launchers, *args, folder=folder, workers=workers, index=index, nproc=None, **options)
        for index, folder in enumerate(("first", "second"))
    ]


@pytest.mark.parametrize("culprit", [0, 1])
def test_launchers_restart_together(launchers: Launchers, workers: str, culprit: int) -> None:
    args = [f"{culprit}@{n}:{action}" for n in (0, 1) for action in (f"step:{n + 1}", "signal:9")]
    jobs = both(launchers, workers, *args, "*@0:hang", "*@1:hang", "*:listen", max_restarts=1)
    assert [job.end(60) for job in jobs] == [0, 0], [job.err for job in jobs]
    for index, job in enumerate(jobs):
        assert f"worker {culprit} (" in blamed_first(job)
        assert job.err.count("all workers start again") == 2
        assert {path.name for path in run_of(job).logs_dir.iterdir()} == {f"worker-{index}.{n}.log" for n in range(3)}


def test_the_leader_knows_remote_workers(launchers: Launchers, workers: str) -> None:
    jobs = both(launchers, workers, meet(launchers), "*:limit:2", "0:step:8", "1:step:7", "*:hang")
    assert [job.end(60) for job in jobs] == [4, 4]
    for job in jobs:
        assert "worker 1 (" in blamed_first(job) and "stand_in.py line 7" in job.err
    state = WorkerState.read(run_of(jobs[0]).state_file(1))
    assert state is not None and (state.step, state.state) == (7, State.STEP)


@pytest.mark.parametrize("asked", [0, 1])
def test_launchers_stop_their_workers_after_the_same_step(launchers: Launchers, workers: str, asked: int) -> None:
    touched = [launchers.folder / f"touched-{index}" for index in (0, 1)]
    marks = [f"{index}:touch:{path}" for index, path in enumerate(touched)]
    jobs = both(launchers, workers, "*:step:3", *marks, "0:train:0.01", "1:train:0.003")
    until(lambda: all(path.exists() for path in touched))
    jobs[asked].send(signal.SIGTERM)
    assert [job.end() for job in jobs] == [143, 143], [job.err for job in jobs]
    first, second = (job.out.splitlines()[-1] for job in jobs)
    assert first == second and first.startswith("stopped after ")


def test_a_launcher_that_is_gone_is_not_waited_for(launchers: Launchers, workers: str) -> None:
    touched = [launchers.folder / f"touched-{index}" for index in (0, 1)]
    marks = [f"{index}:touch:{path}" for index, path in enumerate(touched)]
    jobs = both(launchers, workers, *marks, "*:hang", max_restarts=3)
    until(lambda: all(path.exists() for path in touched))
    jobs[1].process.kill()
    assert jobs[0].end() == 4
    assert "not restarted: a launcher is gone" in jobs[0].err


def test_a_stop_during_the_delay_of_a_restart(launchers: Launchers) -> None:
    restarts = [f"1@{n}:signal:9" for n in range(9)]
    launcher = start(launchers, *restarts, "0:hang", max_restarts=9)
    job_file: Path = run_of(launcher).job_file
    # From the third on the delay is long enough to be met.
    until(lambda: job_file.exists() and json.loads(job_file.read_text())["attempt"] >= 2)
    until(lambda: json.loads(job_file.read_text())["phase"] == "restarting")
    launcher.send(signal.SIGTERM)
    assert launcher.end() == 143
    assert left_behind(launcher.mark) == []
