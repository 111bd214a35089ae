"""Commands that end, and commands that do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tfdist.bounded_command import CommandResult, run

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
