"""Runs the command line as a user does: a process of its own, bounded, with everything it started ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.helpers.waiting import PATIENCE
from tests.helpers.warm_workers import warm

ROOT = Path(__file__).resolve().parents[2]
UNCHECKED = () if os.environ.get("TFDIST_SLOW_TESTS") else ("--check", "off")
"""Options of `tfdist train` for tests of something else than the check of first steps, which takes as long as those."""

_PUBLIC = "warning: this machine has a public address"


def tfdist_with_closed_streams(*arguments: object, timeout: float, cwd: Path) -> int:
    """`tfdist ARGUMENTS` without stdin, stdout and stderr, as cron may start it; returns its exit code."""
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *_command(arguments)]
    process = _started(command, cwd, None, subprocess.DEVNULL)
    try:
        return process.wait(timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def begun(
    *arguments: object,
    environ: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    output: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[str]]:
    """`tfdist ARGUMENTS` as it runs, below a command such as `ip netns`; it is ended at the end."""
    process = _started([*prefix, *_command(arguments)], ROOT, environ, output)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tfdist(
    *arguments: object,
    timeout: float = 60,
    cwd: Path = ROOT,
    environ: Mapping[str, str] | None = None,
    are_warm: bool = True,
) -> subprocess.CompletedProcess[str]:
    """`tfdist ARGUMENTS`, with its output as text; raises `subprocess.TimeoutExpired` after `timeout` seconds,
    times `PATIENCE`.

    What it says of this machine's addresses is left out. Workers begin with TensorFlow imported, see `warm_workers`,
    unless a test is of how they start or of what the system knows of them.
    """
    command = _command(arguments)
    if are_warm:
        environ = warm({**os.environ, **(environ or {})})
    process = _started(command, cwd, environ, subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=timeout * PATIENCE)
    except BaseException:
        # Workers have process groups of their own; they end when their launcher is gone.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    err = "".join(line for line in err.splitlines(keepends=True) if not line.startswith(_PUBLIC))
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _command(arguments: Sequence[object]) -> list[str]:
    return [sys.executable, "-m", "tfdist", *map(str, arguments)]


def _started(
    command: Sequence[str], cwd: Path, environ: Mapping[str, str] | None, output: int
) -> subprocess.Popen[str]:
    """A process in a session of its own, which a signal to its group ends whole; `output` is for both its streams."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdout=output,
        stderr=output,
        text=True,
        start_new_session=True,
    )
