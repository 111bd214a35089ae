"""Command with a bound: it is ended when its time is up, with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LEAVE_SECONDS = 2.0
"""How long a killed command may take to be gone."""


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended, or was ended.

    Attributes:
        out: Its standard output.
        err: Its standard error.
        code: Its exit code, negative for a signal; None when its time was up.
    """

    out: str
    err: str
    code: int | None


def run(
    command: Sequence[str],
    seconds: float,
    stdin: int = subprocess.DEVNULL,
    environ: Mapping[str, str] | None = None,
) -> CommandResult:
    """Runs a command in a session of its own; when its time is up, ends it with everything that it started there.

    Args:
        command: What to run.
        seconds: How long it may take.
        stdin: The descriptor of its standard input.
        environ: Its environment; None for this process's.

    Raises:
        OSError: It cannot be started.
    """
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        out, err = _end(process)
        code = None
    except BaseException:
        # Interrupted: nothing is left behind.
        _end(process)
        raise
    return CommandResult(out.decode(errors="replace"), err.decode(errors="replace"), code)


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kills the command; returns its output so far."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_LEAVE_SECONDS)
    except subprocess.TimeoutExpired as expired:
        # A process that waits in the kernel for a driver cannot be killed, and one that has left the session may keep
        # the pipes open: neither is waited for.
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.poll()
        return expired.output or b"", expired.stderr or b""
