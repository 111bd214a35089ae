"""What the launcher prints of a job that failed or was stopped.

What the launcher prints last of a script that ended by itself.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tfdist.launch.agent.exit_diagnosis import from_exit, from_signal
from tfdist.launch.peers.messages import Stop
from tfdist.launch.run_dir.closing_report import closing_line, render_report, saved_line
from tfdist.launch.run_result import RunResult
from tfdist.rundir import RunDir
from tfdist.rundir.failure import Failure, FailureKind

HEAD = "Traceback (most recent call last):\n"


def failure(index: int, time: float, type: str = "ValueError", **fields: object) -> Failure:
    return Failure(index, "h", time, "exception", "boom", type=type, **fields)  # type: ignore[arg-type]


def test_the_first_failure_is_blamed_and_the_others_are_listed() -> None:
    first = failure(1, 1.0, address="h:2", pid=7, log="/r/logs/worker-1.0.log", traceback="Traceback\n  here\n")
    other = failure(0, 2.0, "UnavailableError", traceback="Traceback\n  elsewhere\n")
    report = render_report(RunResult(4, (first, other)))
    assert report.splitlines()[0] == "error: worker 1 (h, h:2, pid 7) failed: ValueError: boom"
    assert "  here" in report and "elsewhere" not in report
    assert "/r/logs/worker-1.0.log (on h)" in report
    assert "worker 0 (h): UnavailableError: boom" in report


USERS = '  File "/home/u/train.py", line 8, in <module>\n    model.fit(x)\n'
KERAS = '  File "/venv/lib/python3.11/site-packages/keras/src/t.py", line 122, in fit\n    raise e\n    ^^^^^^^\n'


@pytest.mark.parametrize("kind", ["exception", "hang"])
def test_of_a_traceback_the_users_frames_are_shown_unless_verbose(kind: FailureKind) -> None:
    head, said = ("Thread MainThread:\n", "") if kind == "hang" else (HEAD, "ValueError: boom\n")
    first = replace(failure(1, 1.0, traceback=f"{head}{USERS}{KERAS}{said}"), kind=kind)
    report, whole = render_report(RunResult(4, (first,))), render_report(RunResult(4, (first,)), verbose=True)
    assert 'train.py", line 8' in report and "keras" not in report.replace(", Keras and", "")
    assert report.count("boom") == 1 and "shown with --verbose" in report
    assert textwrap.indent(first.traceback.rstrip(), "  ") in whole


def test_a_traceback_without_frames_of_the_users_is_shown_whole_and_what_led_to_it_without_an_empty_part() -> None:
    bare = failure(1, 1.0, traceback=f"{HEAD}{KERAS}ValueError: boom\n")
    assert 'keras/src/t.py", line 122' in render_report(RunResult(4, (bare,)))
    led = f"{HEAD}{KERAS}OSError: no disk\n\nThe above exception was the direct cause of this:\n\n"
    report = render_report(RunResult(4, (failure(1, 1.0, traceback=f"{led}{HEAD}{USERS}ValueError: boom\n"),)))
    assert report.count("Traceback") == 1 and "OSError: no disk" in report and "keras/" not in report


def test_an_error_of_tfdist_has_a_traceback_only_if_verbose() -> None:
    error = Failure(
        0, "h", 1.0, "data", "No samples.", exit_code=5, type="tfdist.errors.DataError", traceback="Traceback"
    )
    result = RunResult(5, (error,))
    assert "Traceback" not in render_report(result)
    assert "failed: No samples." in render_report(result)
    assert "Traceback" in render_report(result, verbose=True)


@pytest.mark.parametrize(("kind", "said"), [("usage", True), ("data", False), ("exception", False), ("exit", False)])
def test_a_refusal_of_workers_that_nobody_asked_for_names_the_way_around(kind: FailureKind, said: bool) -> None:
    result = RunResult(2, (Failure(0, "h", 1.0, kind, "No such policy.", exit_code=2),))
    hint = "  one worker was started for each GPU; --nproc 1 runs one process on all of them"
    assert render_report(result, worker_per_gpu=True).endswith(hint) == said
    assert hint not in render_report(result)


def test_without_a_traceback_the_end_of_the_log_is_shown() -> None:
    report = render_report(RunResult(4, (from_exit(0, 3, last_lines=("one", "two")),)))
    assert "exited with code 3" in report and "    two" in report


def test_a_stop_is_reported_and_success_is_not() -> None:
    stop = Stop(143, "SIGTERM to h")
    assert render_report(RunResult(143, stop=stop)) == "stopped: SIGTERM to h; all workers have ended"
    abrupt = render_report(
        RunResult(143, (from_signal(1, 15), from_signal(0, 9)), stop, advice="none was inside of fit")
    )
    assert "ended where they were, not after the same step: none was inside of fit" in abrupt
    # The worker that got the signal did not fail.
    assert "worker 0 (" in abrupt and "worker 1 (" not in abrupt
    assert render_report(RunResult(0)) == render_report(RunResult(7)) == ""


@pytest.mark.parametrize("type_of_others", ["ValueError", "UnavailableError"])
def test_of_hundreds_of_failures_a_few_are_told_and_the_others_counted(type_of_others: str) -> None:
    others = [failure(index, 2.0 + index, type_of_others) for index in range(1, 500)]
    report = render_report(RunResult(4, (failure(0, 1.0), *others)))
    assert len(report) < 4000 and len(report.splitlines()) < 30
    assert "more: workers " in report and "-499" in report


RUN = RunDir(Path("/r"))


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (RunResult(0, step=1200), "tfdist: done in 72 s, 1,200 steps; logs in /r/logs"),
        (RunResult(0), "tfdist: done in 72 s; logs in /r/logs"),
        (RunResult(3, step=1), "tfdist: the script ended with exit code 3 after 72 s, 1 step; logs in /r/logs"),
        (RunResult(4, (Failure(0, "h", 1.0, "exception", "boom"),), step=9), ""),
        (RunResult(130, stop=Stop(130, "Ctrl-C")), ""),
    ],
)
def test_closing_line(result: RunResult, line: str) -> None:
    assert closing_line(result, 72.0, RUN) == line


def checkpoint(folder: Path, name: str, *, is_whole: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    if is_whole:
        (folder / name / "checkpoint.json").touch()


@pytest.mark.parametrize(("is_kept", "said"), [(True, "came to no checkpoint; --checkpoint-"), (False, "a script is")])
def test_nothing_is_saved(is_kept: bool, said: str, tmp_path: Path) -> None:
    checkpoint(tmp_path / "checkpoints", "step-00000100", is_whole=False)
    line = saved_line(RunDir(tmp_path), 82, is_kept=is_kept)
    assert line.startswith("nothing of its 82 steps is saved: ") and said in line


def test_the_newest_whole_checkpoint_of_the_last_fit_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    checkpoint(folder, "step-00000100")
    checkpoint(folder, "step-00000400.1")
    checkpoint(folder, "step-00000500", is_whole=False)
    line = saved_line(RunDir(tmp_path), 520, is_kept=True)
    assert line == f"saved: step 400, in {folder}; --run-dir {tmp_path} --resume auto goes on there"
    checkpoint(folder / "fit-2", "step-00000020")
    (folder / "fit-3").mkdir()
    assert saved_line(RunDir(tmp_path), 560, is_kept=True).startswith("saved: step 20 of fit 2, in ")
