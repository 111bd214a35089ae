from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdist.launch.requeues import run_starts
from tfdist.launch.requeues.requeue_policy import RunStart
from tfdist.rundir import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval, append_entry

RUNNING, RESTARTING, STOPPED = AttemptPhase.RUNNING, AttemptPhase.RESTARTING, AttemptPhase.STOPPED


def write(run: RunDir, *entries: LedgerEvent | LedgerInterval) -> None:
    for entry in entries:
        append_entry(run.ledger_file, entry)


def test_starts_have_what_their_attempts_did(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    write(
        run,
        LedgerEvent(0, 11.0, RUNNING, since=10.0),
        LedgerInterval(0, 11.0, 20.0, {"step": 9.0}, 7, 7),
        LedgerEvent(0, 21.0, RESTARTING, why="worker 1", step=8),
        LedgerEvent(1, 22.0, RUNNING),
        LedgerEvent(1, 30.0, STOPPED, why="SIGTERM", step=8, code=143),
        LedgerEvent(2, 41.0, RUNNING, since=40.0),
        LedgerEvent(2, 45.0, STOPPED, why="SIGTERM", step=8, code=143),
        LedgerEvent(3, 51.0, RUNNING, since=50.0),
    )
    lines = [{"attempt": 1, "total": 5}, {"attempt": 2, "total": 8}, {"attempt": 2, "total": 6}, {"attempt": "x"}]
    run.resumes_file.write_text("\n".join([*map(json.dumps, lines), "[", ""]))
    assert run_starts.read_starts(run) == (
        RunStart(143, 8, 5, has_trained=True, seconds=20.0),
        RunStart(143, 8, 8, seconds=5.0),
        RunStart(None, seconds=1.0),
    )


def test_a_run_without_records_has_no_starts(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "new")
    assert run_starts.read_starts(run) == ()
    assert not run_starts.is_saved(run)


def test_the_end_of_a_long_ledger_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(tmp_path)
    write(run, LedgerEvent(0, 11.0, RUNNING, since=10.0))
    write(run, *(LedgerInterval(0, 11.0 + i, 12.0 + i, {"step": 1.0}, 1, 1 + i) for i in range(50)))
    monkeypatch.setattr(run_starts, "_MOST_BYTES", 1000)
    [start] = run_starts.read_starts(run)
    assert (start.step, start.has_trained, start.code) == (50, True, None)


def test_a_run_is_saved_where_it_has_checkpoints_or_has_resumed(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.checkpoints_dir.mkdir()
    assert run_starts.is_saved(run)
    run.checkpoints_dir.rmdir()
    run.resumes_file.touch()
    assert run_starts.is_saved(run)
