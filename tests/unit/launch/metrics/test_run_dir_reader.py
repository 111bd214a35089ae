"""Tests of the reader of a run directory that grows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.launch.metrics.metrics_endpoint import RunDirReader
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.rundir import ledger_lines
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval, append_entry


def spent(**seconds: float) -> LedgerInterval:
    return LedgerInterval(0, 1.0, 2.0, seconds, 1, 1)


def test_it_adds_up_what_was_written(tmp_path: Path) -> None:
    run, metrics = RunDir(tmp_path), RunMetrics()
    reader = RunDirReader(run, metrics, seconds=1e6)
    reader.read()
    assert metrics.facts.seconds == {} and metrics.facts.epoch_metrics == {}
    append_entry(run.ledger_file, LedgerEvent(0, 1.0, AttemptPhase.RUNNING))
    append_entry(run.ledger_file, spent(step=1.0, input=0.5))
    with open(run.ledger_file, "ab") as half:
        half.write(b'{"who": "chief", "att')
    run.metrics_file.write_text(json.dumps({"epoch": 0, "time": 5.0, "loss": 0.5}) + "\n")
    reader.read()
    assert metrics.facts.seconds == {"step": 1.0, "input": 0.5} and metrics.facts.epoch_metrics == {"loss": 0.5}
    append_entry(run.ledger_file, spent(step=2.0, checkpoint=3.0))  # after a line that a kill has cut off
    reader.read()
    reader.read()
    assert metrics.facts.seconds == {"step": 3.0, "input": 0.5, "checkpoint": 3.0}
    reader.close()


def test_it_follows_by_itself_and_ends(tmp_path: Path) -> None:
    run, metrics = RunDir(tmp_path), RunMetrics()
    reader = RunDirReader(run, metrics, seconds=0.01)
    append_entry(run.ledger_file, spent(step=1.0))
    try:
        until(lambda: metrics.facts.seconds)
    finally:
        reader.close()
    assert metrics.facts.seconds == {"step": 1.0}


def test_what_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    run, metrics = RunDir(tmp_path), RunMetrics()
    append_entry(run.ledger_file, spent(step=1.0))
    reader = RunDirReader(run, metrics, seconds=1e6)
    reader.read()
    run.ledger_file.unlink()
    os.mkfifo(run.ledger_file)  # nobody waits for who may write into it
    reader.read()
    reader.close()
    assert metrics.facts.seconds == {"step": 1.0}


def test_a_line_without_an_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_lines, "_MOST_FURTHER_BYTES", 300)
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(b"x" * 700 + b"\n")
    append_entry(file, spent(step=1.0))
    place, found = 0, []
    for _ in range(6):
        entries, place = ledger_lines.read_further(file, place)
        found += entries
    assert found == [spent(step=1.0)] and place == file.stat().st_size
