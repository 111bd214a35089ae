"""Runs whose launcher is a process of the test's."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.errors import RunDirError, UsageError
from tfdist.launch.run_dir import run_stop
from tfdist.launch.run_dir.run_stop import StopMeans, stop_run
from tfdist.rundir import RunDir, create_run_dir
from tfdist.rundir.process_presence import start_ticks
from tfdist.rundir.state_records import JobState

_OBEYS = "import signal, sys; print(flush=True); signal.sigwait([signal.SIGUSR1])"
_IGNORES = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.sigwait([signal.SIGUSR1])"
_OBEYS_THE_SECOND = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True)
signal.sigwait([15]); signal.sigwait([15])
"""


@pytest.fixture
def launchers() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def job_of(run: RunDir, pid: int, **changed: object) -> JobState:
    job = JobState("running", 0, socket.gethostname(), pid, time.time(), start_ticks(pid))
    job = dataclasses.replace(job, **changed)  # type: ignore[arg-type]
    job.write(run.job_file)
    return job


@pytest.mark.parametrize(
    ("script", "seconds", "how"),
    [
        (_OBEYS, 30.0, StopMeans.ASKED),
        (_OBEYS_THE_SECOND, 0.2, StopMeans.ASKED_AGAIN),
        (_IGNORES, 0.2, StopMeans.KILLED),
    ],
)
def test_a_launcher_of_this_host_is_stopped(
    tmp_path: Path,
    launchers: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    seconds: float,
    how: StopMeans,
) -> None:
    monkeypatch.setattr(run_stop, "AT_ONCE_SECONDS", 0.5 if how is StopMeans.KILLED else 20.0)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    launchers.append(process)
    assert process.stdout is not None and process.stdout.readline() == "\n"
    run = create_run_dir(tmp_path / "a", name="a")
    job_of(run, process.pid)
    stopped = stop_run(str(run), seconds)
    assert (stopped.run, stopped.how, stopped.has_checkpoints) == (run, how, False)
    until(lambda: process.poll() is not None)


def test_what_cannot_be_stopped(tmp_path: Path, launchers: list[subprocess.Popen[str]]) -> None:
    run = create_run_dir(tmp_path / "a", name="a")
    with pytest.raises(UsageError, match="does not say which launcher runs it"):
        stop_run(str(run), 1)
    for phase in ("done", "failed"):
        job_of(run, os.getpid(), phase=phase)
        with pytest.raises(UsageError, match=rf"is over \({phase}\)"):
            stop_run(str(run), 1)
    job_of(run, os.getpid(), host="elsewhere")
    with pytest.raises(UsageError, match="runs on elsewhere, .*: ssh elsewhere tfdist stop"):
        stop_run(str(run), 1)
    # This process has another start than the launcher of that number had.
    job_of(run, os.getpid(), started=1)
    with pytest.raises(RunDirError, match="is gone without having said"):
        stop_run(str(run), 1)
    ended = subprocess.Popen(["true"])
    ended.wait()
    job_of(run, ended.pid, started=1)
    with pytest.raises(RunDirError, match="is gone without having said"):
        stop_run(str(run), 1)
    with pytest.raises(RunDirError, match="is not a run directory"):
        stop_run(str(tmp_path / "none"), 1)
