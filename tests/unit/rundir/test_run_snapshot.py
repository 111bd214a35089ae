from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import threading
import time
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir import RunDir, State, WorkerState, create_run_dir
from tfdist.rundir.failure import Failure
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, append_entry
from tfdist.rundir.run_snapshot import read_run
from tfdist.rundir.state_records import JobState

STATE = WorkerState(
    index=0, address="h:20000", host="h", pid=12, attempt=0, state=State.STEP, epoch=2, step=30, time=5.5, busy=0.25
)
FAILURE = Failure(index=1, host="h", time=6.5, kind="exception", message="no\nsample", type="ValueError")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return create_run_dir(tmp_path / "a", name="digits")


def put(run: RunDir, *indices: int) -> None:
    for index in indices:
        dataclasses.replace(STATE, index=index).write(run.state_file(index))


def test_all_records_are_read(run: RunDir) -> None:
    put(run, 1, 0, 10)
    job = JobState("running", 2, "h", 7, 8.5)
    job.write(run.job_file)
    FAILURE.write(run.failure_file)
    FAILURE.write(run.attempt_failure_file(0))
    FAILURE.write(run.attempt_failure_file(1))
    found = read_run(run)
    assert [state.index for state in found.workers] == [0, 1, 10]
    assert found.workers[0] == STATE
    assert (found.name, found.job, found.failure) == ("digits", job, FAILURE)
    assert found.earlier == {1: FAILURE}
    assert found.created is not None and abs(found.created - time.time()) < 600
    assert found.absent == tuple(range(2, 10)) and found.unreadable == {}


def test_what_stopped_a_run_is_in_its_ledger(run: RunDir) -> None:
    why = "the terminal or the connection was closed, SIGHUP to the launcher on h"
    append_entry(run.ledger_file, LedgerEvent(0, 9.0, AttemptPhase.STOPPED, why=why, code=129))
    assert read_run(run).stopped_by == why
    append_entry(run.ledger_file, LedgerEvent(1, 10.0, AttemptPhase.RUNNING))
    assert read_run(run).stopped_by == ""


def test_a_run_that_has_just_begun(run: RunDir) -> None:
    found = read_run(run)
    assert (found.workers, found.unreadable, found.absent) == ((), {}, ())
    assert (found.job, found.failure, found.earlier) == (None, None, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"index": 1, "pid"',  # half written
        "[]",
        json.dumps({**STATE.to_dict(), "index": 1, "state": "asleep"}),
        json.dumps({**STATE.to_dict(), "index": 1, "step": "thirty"}),
        json.dumps({**STATE.to_dict(), "index": 1, "busy": None}),
        json.dumps({**STATE.to_dict(), "index": 1, "moved": -math.inf}),
        json.dumps({**STATE.to_dict(), "index": 1, "rate": math.nan}),
        json.dumps({**STATE.to_dict(), "index": 1, "time": 10**400}),
        json.dumps({**STATE.to_dict(), "index": 1, "address": 3}),
        json.dumps({**STATE.to_dict(), "index": 1, "begun": "7"}),
        100_000 * "[",
        json.dumps({**STATE.to_dict(), "index": 0}),  # somebody copied a file
    ],
)
def test_one_damaged_state_leaves_the_others(run: RunDir, text: str) -> None:
    put(run, 0, 2)
    run.state_file(1).write_text(text)
    found = read_run(run)
    assert [state.index for state in found.workers] == [0, 2]
    assert list(found.unreadable) == [1]
    assert "worker-1.json" in found.unreadable[1]


def test_a_worker_with_a_log_and_no_state(run: RunDir) -> None:
    put(run, 0)
    run.log_file(1, 0).write_text("")
    found = read_run(run)
    assert list(found.unreadable) == [1] and "is not there" in found.unreadable[1]
    assert found.absent == ()


@pytest.mark.parametrize("has_job", [True, False])
def test_workers_of_an_earlier_attempt_are_not_expected(run: RunDir, has_job: bool) -> None:
    """The run was resumed with fewer workers."""
    put(run, 0)
    for index, attempt in ((0, 0), (1, 0), (2, 0), (0, 1)):
        run.log_file(index, attempt).write_text("")
    if has_job:
        JobState("running", 1, "h", 7, 8.5).write(run.job_file)
    found = read_run(run)
    assert [state.index for state in found.workers] == [0]
    assert (found.unreadable, found.absent) == ({}, ())


@pytest.mark.parametrize("name", ["job.json", "failure.0.json", "../failure.json", "run.json"])
@pytest.mark.parametrize("text", ["{", "[]", '{"phase": 1, "index": 2}', '{"created": -Infinity}', 100_000 * "["])
def test_other_damaged_files_break_nothing(run: RunDir, name: str, text: str) -> None:
    put(run, 0)
    JobState("running", 1, "h", 7, 8.5).write(run.job_file)
    (run.state_dir / name).write_text(text)
    found = read_run(run)
    assert [state.index for state in found.workers] == [0]
    assert found.created is None or math.isfinite(found.created)


@pytest.mark.parametrize("name", ["state/worker-99999999999.json", "logs/worker-99999999999.0.log"])
def test_an_index_that_no_cluster_has_is_no_workers(run: RunDir, name: str) -> None:
    """All workers up to the greatest index would be listed as absent."""
    put(run, 0)
    (run.path / name).write_text("{}")
    found = read_run(run)
    assert ([state.index for state in found.workers], found.absent, found.unreadable) == ([0], (), {})


def test_temporary_files_are_not_read(run: RunDir) -> None:
    for name in (".worker-0.0123abcd.tmp.json", "worker-0.0.error.json", "worker-x.json", "notes.txt"):
        (run.state_dir / name).write_text("{")
    found = read_run(run)
    assert (found.workers, found.unreadable) == ((), {})


def test_files_that_are_replaced_while_they_are_read(run: RunDir) -> None:
    put(run, 0, 1)
    ended = threading.Event()

    def write() -> None:
        for step in itertools.count():
            if ended.is_set():
                return
            dataclasses.replace(STATE, index=1, step=step).write(run.state_file(1), durable=False)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            found = read_run(run)
            assert [state.index for state in found.workers] == [0, 1] and not found.unreadable
    finally:
        ended.set()
        writer.join()


def test_a_directory_that_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, received in ((tmp_path, "a directory"), (tmp_path / "file", "a file"), (tmp_path / "b", "nothing")):
        with pytest.raises(RunDirError, match=f"not a run directory. Expected .*state/run.json.*Received: {received}"):
            read_run(RunDir(path))


def test_the_directory_above_names_the_newest_run(tmp_path: Path) -> None:
    for age, name in enumerate(("a", "b")):
        made = create_run_dir(tmp_path / "runs" / name, name="digits")
        os.utime(made.run_file, (100 - age, 100 - age))
    for path in (tmp_path / "runs", tmp_path):
        with pytest.raises(RunDirError, match=f"newest run in it is {tmp_path}/runs/a"):
            read_run(RunDir(path))
