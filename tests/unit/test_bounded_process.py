"""Commands that end, and commands that do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.bounded_process import CommandResult, run

LEAVES_ONE = ("sh", "-c", "setsid sleep 60 & echo $!; sleep 60")
"""What it leaves is in a session of its own, so that it is not killed with the command, and has the command's pipes."""


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def test_output_and_exit_code() -> None:
    ran = run(python("import sys; print('said'); sys.stderr.buffer.write(b'\\xff'); sys.exit(3)"), 20)
    assert ran == CommandResult("said\n", "\ufffd", 3)


def test_a_command_that_takes_too_long_is_ended_and_its_output_kept() -> None:
    assert run(("sh", "-c", "echo said; sleep 60"), 3) == CommandResult("said\n", "", None)


def test_processes_that_keep_the_pipes_open_are_not_waited_for() -> None:
    ran = run(LEAVES_ONE, 3)
    left = int(ran.out)
    try:
        assert ran.code is None
        os.kill(left, 0)
    finally:
        os.kill(left, signal.SIGKILL)


def test_an_interruption_ends_the_command_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    communicate = subprocess.Popen.communicate

    def interrupted(process: subprocess.Popen[bytes], *args: object, **options: object) -> object:
        if started:
            return communicate(process, *args, **options)  # type: ignore[arg-type]
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(python("import time; time.sleep(60)"), 20)
    assert started[0].returncode == -signal.SIGKILL


ASKS = """
import os, sys
from tfdist.bounded_process import run
child = "import time; from tfdist.bounded_process import question_of_parent as q; q(); time.sleep(60)"
run(["sh", "-c", f"echo $$ > {sys.argv[1]}; exec {sys.executable} -c '{child}'"], 60, question=b"asked" * 50_000)
"""


def test_a_process_that_was_asked_ends_with_the_one_that_asks(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    asks = subprocess.Popen([*python(ASKS), str(pid_file)], start_new_session=True)
    try:
        until(lambda: pid_file.exists() and pid_file.read_text(), 20)
    finally:
        asks.kill()
        asks.wait()
    pid = int(pid_file.read_text())
    until(lambda: not Path(f"/proc/{pid}").exists() or "(zombie)" in Path(f"/proc/{pid}/status").read_text(), 20)


def test_a_question_arrives() -> None:
    answer = "from tfdist.bounded_process import question_of_parent as q; print(len(q()))"
    assert run(python(answer), 20, question=b"x" * 300_000) == CommandResult("300000\n", "", 0)
