from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.launch.fakes import state
from tests.unit.reports.ledger.lines import did, over, running
from tfdist.launch.run_dir.killed_launcher import lines_of_killed
from tfdist.launch.run_dir.run_location import create_run_location
from tfdist.rundir import RunDir, State
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval, append_entry, read_ledger

FIRST = did(0, 2.0, 9.0, step=1, steps=(0, 1))


def left(run: RunDir, *lines: Any, **fields: Any) -> RunDir:
    """A run whose launcher has written these lines, and whose chief this state."""
    run.state_dir.mkdir(parents=True, exist_ok=True)
    for line in lines:
        append_entry(run.ledger_file, line)
    state(0, 408, **{"moved": 12.0, **fields}).write(run.state_file(0))
    return run


def test_the_steps_since_the_last_line_are_those_of_the_state(tmp_path: Path) -> None:
    interval, end = lines_of_killed(left(RunDir(tmp_path), running(0, 1.0, 0.0), FIRST))
    assert interval == LedgerInterval(0, 9.0, 12.0, {"step": 3.0}, 407, 408)
    assert end == LedgerEvent(0, 12.0, AttemptPhase.FAILED, why="its launcher was killed", step=408)


@pytest.mark.parametrize(
    ("lines", "fields"),
    [
        ([running(0, 1.0, 0.0), FIRST, over(0, 10.0)], {}),
        ([running(0, 1.0, 0.0), FIRST], {"attempt": 1}),
        ([running(0, 1.0, 0.0), FIRST], {"state": State.FINISHED}),
        ([], {}),
    ],
)
def test_nothing_is_added_to_what_is_whole_or_unknown(
    lines: list[Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    assert lines_of_killed(left(RunDir(tmp_path), *lines, **fields)) == []


def test_a_start_that_resumes_adds_them_before_the_states_go(tmp_path: Path) -> None:
    made = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=1)
    left(made.run_dir, running(0, 1.0, 0.0), FIRST)
    again = create_run_location(str(tmp_path / "r"), name="n", overwrite=False, seed=1, resume="auto")
    assert read_ledger(again.run_dir.ledger_file).entries[-1].step == 408
    assert not again.run_dir.state_file(0).exists()
