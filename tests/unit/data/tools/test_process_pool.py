from __future__ import annotations

import contextlib
import multiprocessing
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.data.work import make_work
from tfdist.data.tools import process_pool
from tfdist.data.tools.process_pool import TaskProgress, TaskResult, run_in_processes
from tfdist.errors import DataError, UsageError, WorkerFailedError


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy enough a process may take longer to end than its caller waits for."""
    monkeypatch.setattr(process_pool, "END_SECONDS", 60.0)


def test_each_task_is_done_once() -> None:
    events = list(run_in_processes(make_work, 10, range(1, 8), processes=2))
    assert sorted((e.task, e.result) for e in events if isinstance(e, TaskResult)) == [(n, 10 * n) for n in range(1, 8)]
    assert sum(event.amount for event in events if isinstance(event, TaskProgress)) == 28 + 7
    assert not multiprocessing.active_children()


def test_nothing_to_do_starts_nothing() -> None:
    assert list(run_in_processes(make_work, 10, [], processes=2)) == []


@pytest.mark.parametrize(
    ("tasks", "argument", "kind", "text"),
    [
        ([1, "data"], 1, DataError, "^record 3 is damaged$"),
        ([1], -1, UsageError, "^no such argument$"),
        (["bug"], 1, WorkerFailedError, "(?s)Traceback.*KeyError: 'a key'"),
        (["die"], 1, WorkerFailedError, "^A process was ended by SIGKILL at die. .*fewer --processes"),
        (["leave"], 1, WorkerFailedError, "^A process died with exit code 3 at leave. It said nothing.$"),
        (["complain"], 1, WorkerFailedError, r"^A process died .* Its last words:\n  no licence\? for this library$"),
        (["crash"], 1, WorkerFailedError, "(?s)^A process was ended by SIGSEGV at crash.*Fatal Python error.* in work"),
    ],
)
def test_what_goes_wrong_in_a_process_ends_all(
    tasks: list[Any], argument: int, kind: type[Exception], text: str
) -> None:
    """The one that stays where it is, too."""
    with pytest.raises(kind, match=text):
        list(run_in_processes(make_work, argument, ["stay", *tasks], processes=2))
    assert not multiprocessing.active_children()


def test_what_processes_say_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    """More than a pipe holds, from a process that goes on."""
    [result] = [event for event in run_in_processes(make_work, 1, ["warn"], processes=1)]
    assert result == TaskResult("warn", 0)
    assert capsys.readouterr().err == "a warning\n" * 20_000


def test_where_a_process_crashed_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkerFailedError, match="Fatal Python error"):
        list(run_in_processes(make_work, 1, ["crash"], processes=1))
    assert capsys.readouterr().err == ""


def test_a_caller_that_stops_ends_all() -> None:
    with contextlib.closing(run_in_processes(make_work, 1, ["stay", "stay"], processes=2)) as events:
        assert next(events) == TaskProgress(1)
        assert len(multiprocessing.active_children()) == 2
    assert not multiprocessing.active_children()


def test_a_process_that_is_stopped_tidies_up(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with contextlib.closing(run_in_processes(make_work, 1, [begun], processes=1)) as events:
        next(events)
        assert begun.exists()
    assert not begun.exists()


def test_processes_leave_an_interrupt_to_who_started_them() -> None:
    with contextlib.closing(run_in_processes(make_work, 1, ["stay"], processes=1)) as events:
        next(events)
        [process] = multiprocessing.active_children()
        with open(f"/proc/{process.pid}/status") as status:
            [ignored] = [int(line.split()[1], 16) for line in status if line.startswith("SigIgn")]
        assert ignored & 1 << (signal.SIGINT - 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
