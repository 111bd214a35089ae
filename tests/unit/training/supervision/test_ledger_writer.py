from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from tests.unit.training.supervision.clock import Clock
from tfdist.launch.environment import Assignment
from tfdist.rundir import create_run_dir, ledger_lines
from tfdist.rundir.ledger_lines import LedgerInterval, TimeKind
from tfdist.training.supervision import heartbeat
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import LedgerWriter
from tfdist.training.supervision.launcher_link import link_of


@pytest.fixture
def activity(clock: Clock) -> ActivityTracker:
    return ActivityTracker(Limits(600.0, 60.0), clock)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def intervals(file: Path) -> list[LedgerInterval]:
    return [entry for entry in ledger_lines.read_ledger(file).entries if isinstance(entry, LedgerInterval)]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Counts the lines that were written."""
    count = threading.Semaphore(0)
    append = ledger_lines.append_entry

    def note(file: Path, entry: ledger_lines.LedgerEntry) -> None:
        append(file, entry)
        count.release()

    monkeypatch.setattr(ledger_lines, "append_entry", note)
    return count


def test_the_chief_writes_what_its_time_was_spent_on(
    file: Path, activity: ActivityTracker, clock: Clock, written: threading.Semaphore
) -> None:
    """A first line as soon as a step is done."""
    ledger = LedgerWriter(file, 2, activity)
    activity.resume(epoch=0, step=30)
    clock.now = 103.0
    with activity.calling("fit"):
        activity.begin_batches()
        clock.now = 104.0
        activity.end_batches(3)
        assert written.acquire(timeout=20)
        with activity.spending(TimeKind.CHECKPOINT):
            clock.now = 106.0
    ledger.close()
    ledger.close()
    assert intervals(file) == [
        LedgerInterval(2, 100.0, 104.0, {"start-up": 3.0, "compile": 1.0}, steps=3, step=33),
        LedgerInterval(2, 104.0, 106.0, {"checkpoint": 2.0}, steps=0, step=33),
    ]


def test_an_interval_ends_with_the_last_step_that_it_counts(
    file: Path, activity: ActivityTracker, clock: Clock, written: threading.Semaphore
) -> None:
    """Where another `fit` of a script resumes at a later step."""
    ledger = LedgerWriter(file, 0, activity)
    with activity.calling("fit"):
        activity.begin_batches()
        activity.end_batches(1)
        assert written.acquire(timeout=20)
        activity.begin_batches()
        clock.now = 101.0
        activity.end_batches(2)
    activity.resume(epoch=0, step=50)
    ledger.close()
    assert [(line.steps, line.step) for line in intervals(file)] == [(1, 1), (2, 3)]


def test_lines_come_while_the_main_thread_is_busy(
    file: Path, written: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "LEAST_INTERVAL", 0.01)
    ledger = LedgerWriter(file, 0, ActivityTracker(Limits(600.0, 60.0)))
    for _ in range(3):
        assert written.acquire(timeout=20)
    ledger.close()
    lines = intervals(file)
    assert [line.at for line in lines[:-1]] == [line.since for line in lines[1:]]
    assert all(sum(line.seconds.values()) == pytest.approx(line.at - line.since, abs=1e-5) for line in lines)


@pytest.mark.parametrize(("age", "seconds"), [(0, 5), (3600, 5), (36_000, 36), (1e6, 60), (-3, 5)])
def test_lines_become_fewer_as_an_attempt_gets_old(age: float, seconds: float) -> None:
    assert heartbeat.interval(age) == seconds


@pytest.mark.parametrize(("index", "writes"), [(0, True), (1, False)])
def test_the_chief_alone_writes(tmp_path: Path, index: int, writes: bool) -> None:
    run = create_run_dir(tmp_path / "run", name="n")
    link = link_of(Assignment(str(run.path), 7, index, 2, "script", "x.py", cluster="a:1,b:1"))
    with link.activity.calling("fit"):
        link.activity.end_batches(1)
    if link.ledger is not None:
        link.ledger.close()
    assert run.ledger_file.exists() == writes


def test_a_disk_that_takes_nothing_is_said_once(
    tmp_path: Path, activity: ActivityTracker, caplog: pytest.LogCaptureFixture
) -> None:
    warned = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warned.set()

    logger, handler = logging.getLogger("tfdist"), Handler()
    logger.addHandler(handler)
    try:
        ledger = LedgerWriter(tmp_path / "absent" / "ledger.jsonl", 0, activity)
        activity.end_batches(1)  # has the thread write a line
        assert warned.wait(timeout=20)
        ledger.close()
    finally:
        logger.removeHandler(handler)
    assert caplog.text.count("The ledger of the run's time cannot be written") == 1
