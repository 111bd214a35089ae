"""What a worker writes of the error that ends it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfdist.errors import DataError
from tfdist.launch.environment import Assignment
from tfdist.rundir import Failure, RunDir, State, WorkerState, create_run_dir
from tfdist.training.supervision.error_report import report
from tfdist.training.supervision.launcher_link import link_of


@pytest.fixture
def assignment(tmp_path: Path) -> Assignment:
    run = create_run_dir(tmp_path / "run", name="reporting")
    return Assignment(str(run.path), 7, index=0, num_workers=1, target_kind="script", target="x.py")


def left_of(error: Exception, assignment: Assignment) -> tuple[int, Failure, WorkerState]:
    """The exit code, the error file and the last state of a worker that raises an error."""
    try:
        raise error
    except type(error) as raised:
        code = report(raised, assignment)
    run = RunDir(assignment.run_dir)
    record, state = Failure.read(run.error_file(0, 0)), WorkerState.read(run.state_file(0))
    assert record is not None and state is not None
    assert run.log_file(0, 0).read_text() == record.traceback
    return code, record, state


def test_an_error_before_any_step_has_none(assignment: Assignment) -> None:
    code, record, state = left_of(ValueError("early"), assignment)
    assert (code, record.exit_code, record.type, record.message) == (4, 4, "ValueError", "early")
    assert (record.epoch, record.step) == (None, None)
    assert state.state is State.FAILED
    assert 'raise error\nValueError: early\n' in record.traceback


def test_an_error_says_at_which_step(assignment: Assignment) -> None:
    activity = link_of(assignment).activity
    with activity.calling("fit"):
        activity.begin_epoch(1)
        activity.begin_batches()
        activity.end_batches(trained=14)
    code, record, state = left_of(DataError("record 3 is damaged"), assignment)
    assert (code, record.type) == (5, "tfdist.errors.DataError")
    assert (record.epoch, record.step) == (state.epoch, state.step) == (1, 14)


class Unprintable(Exception):
    """One whose texts raise, as those of a class do that looks at an attribute which it does not have."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Nameless(RuntimeError):
    """One of a class that does not say its module, as a class made at run time may not."""

    __module__ = None  # type: ignore[assignment]


def test_an_error_without_a_text_is_named_all_the_same(assignment: Assignment) -> None:
    code, record, _ = left_of(Unprintable(), assignment)
    assert (code, record.type) == (4, f"{__name__}.Unprintable")
    assert record.message == "<Unprintable without a text: its __str__ raises RuntimeError>"
    assert "raise error" in record.traceback


def test_an_error_of_a_class_unlike_others_is_named_all_the_same(assignment: Assignment) -> None:
    code, record, _ = left_of(Nameless("why"), assignment)
    assert (code, record.type, record.message) == (4, "None.Nameless", "why")


@pytest.mark.parametrize(("index", "advises"), [(None, True), (0, False)])
def test_input_without_a_terminal_says_how_a_worker_gets_it(
    assignment: Assignment, index: int | None, advises: bool
) -> None:
    _, record, _ = left_of(EOFError("EOF when reading a line"), dataclasses.replace(assignment, debug_worker=index))
    assert record.message.startswith("EOF when reading a line") and record.type == "EOFError"
    assert ("--debug-worker 0" in record.message) == advises


def test_another_end_of_a_file_is_left_as_it_is(assignment: Assignment) -> None:
    assert left_of(EOFError("the file ends"), assignment)[1].message == "the file ends"
