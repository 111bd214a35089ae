from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.comparison.process_group import Command
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.turns import Job, lifetime, run_in_turns, run_with_starts
from benchmarks.workers.turn_taking import TurnTaking
from tests.helpers.process_states import is_running

SECONDS = 30
LOOP = """
import os, sys
from benchmarks.workers.turn_taking import TurnTaking
turns = TurnTaking(sys.argv[1], 30)
turns.say()
for number in range(3):
    turns.await_turn()
    turns.say(pid=os.getpid(), number=number)
"""


def contestant(code: str, pids: list[Path] | None = None):  # noqa: ANN201
    """Its processes: the one that speaks for it, which runs the code."""

    @contextlib.contextmanager
    def processes(folder: Path) -> Iterator[list[Command]]:
        if pids is not None:
            pids.append(folder)
        yield [Command((sys.executable, "-c", code, str(folder)), tuple(os.sched_getaffinity(0)))]

    return processes


@pytest.fixture
def noted() -> tuple[list[tuple[int, str, str | None]], Callable[[int, str, Record], None]]:
    reports: list[tuple[int, str, str | None]] = []
    return reports, lambda number, name, record: reports.append((number, name, record.failure))


def test_jobs_start_once_and_work_in_turn(noted: tuple) -> None:
    reports, report = noted
    folders: list[Path] = []
    both = {"a": contestant(LOOP, folders), "b": contestant(LOOP, folders)}
    records = run_in_turns(both, 3, SECONDS, report)
    assert reports == [
        (number, name, None) for number, name in zip((-1, -1, 0, 0, 1, 1, 2, 2), "ababbaab", strict=True)
    ]
    for record in records.values():
        assert [said["number"] for (said,) in record.said] == [0, 1, 2]
        assert len({said["pid"] for (said,) in record.said}) == 1
    assert records["a"].said[0][0]["pid"] != records["b"].said[0][0]["pid"]
    assert len(folders) == 2 and not any(folder.exists() for folder in folders)


@pytest.mark.parametrize(
    ("change", "turns", "said"),
    [
        (("turns.say()", "raise ValueError('boom')"), 0, "exit code 1. Its last lines:"),
        (("range(3)", "range(1)"), 1, "It ended before its work was done"),
        (("turns.say(pid", "if number == 1: os.kill(os.getpid(), 9)\n    turns.say(pid"), 1, "ended by SIGKILL"),
        (("turns.say(pid", "if number == 2: __import__('time').sleep(90)\n    turns.say(pid"), 2, "longer than 8 s"),
    ],
)
def test_one_that_fails_drops_out_and_the_others_go_on(
    change: tuple[str, str], turns: int, said: str, noted: tuple
) -> None:
    assert change[0] in LOOP
    bad = LOOP.replace(*change)
    records = run_in_turns(
        {"bad": contestant(bad), "good": contestant(LOOP)}, 3, 8 if turns == 2 else SECONDS, noted[1]
    )
    assert len(records["good"].said) == 3 and records["good"].failure is None
    assert len(records["bad"].said) == turns
    assert said in records["bad"].failure


def test_one_that_fails_at_its_end_has_failed(noted: tuple) -> None:
    records = run_in_turns({"bad": contestant(f"{LOOP}\nsys.exit(3)")}, 3, SECONDS, noted[1])
    assert len(records["bad"].said) == 3
    assert "exit code 3" in records["bad"].failure
    assert noted[0][-1][2] is not None


def test_an_interrupt_ends_all(noted: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    pids: list[int] = []
    answer = Job.answer

    def interrupted(job: Job, seconds: float) -> dict:
        said = answer(job, seconds)
        pids.extend(child.process.pid for child in job.waiting.values())
        if said:
            raise KeyboardInterrupt
        return said

    monkeypatch.setattr(Job, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_turns({"a": contestant(LOOP, folders), "b": contestant(LOOP, folders)}, 3, SECONDS, noted[1])
    assert len(set(pids)) == 2 and not any(map(is_running, pids))
    assert not any(folder.exists() for folder in folders)


def test_jobs_that_do_not_fit_together_start_in_every_round(noted: tuple) -> None:
    reports, report = noted
    once, bad = LOOP.replace("range(3)", "range(1)"), "raise SystemExit(2)"
    records = run_with_starts({"a": contestant(once), "bad": contestant(bad)}, 2, SECONDS, report)
    assert [(number, name) for number, name, _ in reports] == [(0, "a"), (0, "bad"), (1, "a")]
    assert len({said["pid"] for (said,) in records["a"].said}) == 2
    assert records["a"].failure is None and "exit code 2" in records["bad"].failure


def test_a_turn_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    for name in ("turn", "said"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(TimeoutError, match="turn has not come within 0.01 s"):
        TurnTaking(str(tmp_path), 0.01).await_turn()


def test_a_job_lives_long_enough_for_all_turns() -> None:
    assert lifetime(3, 5, 10.0) == 3 * (5 + 2) * 10.0
