from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tfdist.rundir import ledger_lines
from tfdist.rundir.ledger_lines import LedgerInterval, TimeKind
from tfdist.training.supervision import ledger_writer
from tfdist.training.supervision.ledger_writer import LedgerWriter


class Clock:
    """A clock that moves when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def stretches(file: Path) -> list[LedgerInterval]:
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


def test_the_chief_writes_what_its_time_went_to(file: Path, written: threading.Semaphore) -> None:
    """A first line as soon as a step is done."""
    clock = Clock()
    account = LedgerWriter(file, 2, clock)
    clock.now = 103.0
    with account.calling(trains=True):
        account.begin_batches()
        clock.now = 104.0
        account.end_batches(3, 33)
        assert written.acquire(timeout=20)
        with account.spending(TimeKind.CHECKPOINT):
            clock.now = 106.0
    account.close()
    account.close()
    assert stretches(file) == [
        LedgerInterval(2, 100.0, 104.0, {"start-up": 3.0, "compile": 1.0}, steps=3, step=33),
        LedgerInterval(2, 104.0, 106.0, {"checkpoint": 2.0}, steps=0, step=33),
    ]


def test_lines_come_while_the_main_thread_is_busy(
    file: Path, written: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_writer, "INTERVAL", 0.01)
    account = LedgerWriter(file, 0)
    for _ in range(3):
        assert written.acquire(timeout=20)
    account.close()
    lines = stretches(file)
    assert [line.at for line in lines[:-1]] == [line.since for line in lines[1:]]
    assert all(sum(line.seconds.values()) == pytest.approx(line.at - line.since, abs=1e-5) for line in lines)


@pytest.mark.parametrize(("age", "seconds"), [(0, 5), (3600, 5), (36_000, 36), (1e6, 60), (-3, 5)])
def test_lines_become_fewer_as_an_attempt_gets_old(age: float, seconds: float) -> None:
    assert ledger_writer.interval(age) == seconds


def test_other_workers_write_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # some of which may be about to end
    account = LedgerWriter(None, 0)
    with account.calling(trains=True):
        account.end_batches(1, 1)
    assert set(threading.enumerate()) <= before
    account.close()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    account = LedgerWriter(tmp_path / "absent" / "ledger.jsonl", 0)
    account._write()
    account.close()
    assert caplog.text.count("The ledger of the run's time cannot be written") == 1
