from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdist.errors import RunDirError
from tfdist.rundir import ledger_lines
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval

TURN = LedgerEvent(0, 10.0, AttemptPhase.RUNNING, since=9.0)
STRETCH = LedgerInterval(0, 10.0, 15.0, {"step": 4.0, "input": 1.0}, steps=8, step=8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def test_round_trip(file: Path) -> None:
    for entry in (TURN, STRETCH):
        ledger_lines.append_entry(file, entry)
    assert ledger_lines.read_ledger(file) == ledger_lines.Ledger((TURN, STRETCH))
    assert [json.loads(line)["who"] for line in file.read_text().splitlines()] == ["launcher", "chief"]


def test_a_kill_at_any_byte_costs_one_line(file: Path) -> None:
    ledger_lines.append_entry(file, TURN)
    whole = file.read_bytes()
    ledger_lines.append_entry(file, STRETCH)
    both = file.read_bytes()
    for size in range(len(whole), len(both)):
        file.write_bytes(both[:size])
        assert TURN in ledger_lines.read_ledger(file).entries
        ledger_lines.append_entry(file, STRETCH)
        read = ledger_lines.read_ledger(file)
        # The last byte is the newline: without it, the line is whole.
        lost = not len(whole) < size < len(both) - 1
        assert read.entries == ((TURN, STRETCH) if size != len(both) - 1 else (TURN, STRETCH, STRETCH))
        assert read.damaged == (0 if lost else 1)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "3",
        '{"who": "somebody"}',
        '{"who": "chief", "attempt": 0}',
        '{"who": "launcher", "attempt": 0, "at": "x", "phase": "running"}',
        '{"who": "launcher", "attempt": 0, "at": 1, "phase": "of a later version"}',
        '{"who": "chief", "attempt": 0, "since": 2, "at": 1, "seconds": {}, "steps": 0, "step": 0}',
        '{"who": "chief", "attempt": 0, "since": 0, "at": 1, "seconds": {"naps": 1}, "steps": 0, "step": 0}',
        '{"who": "chief", "attempt": 0, "since": 0, "at": NaN, "seconds": {}, "steps": 0, "step": 0}',
        '{"who": "chief", "attempt": 0, "since": 0, "at": 1e300, "seconds": {}, "steps": 0, "step": 0}',
        '{"who": "chief", "attempt": 0, "since": 0, "at": 1, "seconds": [], "steps": 0, "step": 0}',
        pytest.param('{"who": "launcher", "attempt": 0, "at": ' + 400 * "9" + ', "phase": "running"}', id="huge"),
        pytest.param(100_000 * "[", id="deep"),
    ],
)
def test_damaged_lines_are_counted(file: Path, line: str) -> None:
    file.write_text(line + "\n")
    assert ledger_lines.read_ledger(file) == ledger_lines.Ledger((), 1)


def test_no_ledger(file: Path) -> None:
    with pytest.raises(RunDirError, match="There is no ledger .* Expected "):
        ledger_lines.read_ledger(file)


def test_a_ledger_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="absent"):
        ledger_lines.append_entry(tmp_path / "absent" / "ledger.jsonl", TURN)


def test_a_full_disk() -> None:
    with pytest.raises(RunDirError, match="The disk is full"):
        ledger_lines.append_entry(Path("/dev/full"), TURN)


def test_a_link_is_neither_followed_nor_appended_to(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "ledger.jsonl"
    elsewhere.write_text("mine\n")
    link.symlink_to(elsewhere)
    with pytest.raises(RunDirError, match="ledger.jsonl"):
        ledger_lines.append_entry(link, TURN)
    with pytest.raises(RunDirError, match="symbolic link"):
        ledger_lines.read_ledger(link)
    assert elsewhere.read_text() == "mine\n"


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    with file.open("wb") as content:
        content.truncate(1 << 32)  # of zeros, that take no room on the disk
    lines = ledger_lines.scan_ledger(file)
    assert [next(lines), next(lines)] == [None, None]
