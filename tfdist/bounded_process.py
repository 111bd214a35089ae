"""Process with a bound: it ends with its time or with this process, and so does everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

_LENGTH_BYTES = 8
"""Of the length of a question, which stands before it."""

_LEAVE_SECONDS = 2.0
"""Seconds that a killed process may take to be gone."""


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


@contextlib.contextmanager
def started(
    command: Sequence[str],
    *,
    question: bytes | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, which ends with the block, with everything that it has started there.

    Args:
        question: What its standard input brings, for `question_of_parent` there, by which it ends with this process;
            None for `stdin`.
        stdin: As for `Popen`.
        stdout: As for `Popen`.
        stderr: As for `Popen`.

    Raises:
        OSError: It cannot be started.
    """
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(contextlib.ExitStack())
        if question is not None:
            stdin, write = os.pipe()
            theirs.callback(os.close, stdin)
            held = stack.enter_context(open(write, "wb", buffering=0))
        process = subprocess.Popen(
            command, env=environ, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, start_new_session=True
        )
        stack.callback(end, process)
        theirs.close()
        if question is not None:
            # It may never read: then the pipe is full, and whoever has asked waits no longer than it wants to.
            content = len(question).to_bytes(_LENGTH_BYTES, "big") + question
            threading.Thread(target=_write, args=(held, content), name="tfdist-question", daemon=True).start()
        yield process


def run(
    command: Sequence[str],
    seconds: float,
    *,
    question: bytes | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> CommandResult:
    """Runs a command; when its time is up, ends it.

    Args:
        question: As for `started`; None for `stdin`.
        stdin: As for `Popen`.

    Raises:
        OSError: It cannot be started.
    """
    with started(command, question=question, environ=environ, stdin=stdin) as process:
        try:
            out, err = process.communicate(timeout=seconds)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            out, err = end(process)
            code = None
    return CommandResult(out.decode(errors="replace"), err.decode(errors="replace"), code)


def end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kills a process that leads a group, with that; returns its output so far."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_LEAVE_SECONDS)
    except ValueError:  # its pipes are closed: it was ended before
        return b"", b""
    except subprocess.TimeoutExpired as expired:
        # A process that waits in the kernel for a driver cannot be killed, and one that has left the session may keep
        # the pipes open: neither is waited for.
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.poll()
        return expired.output or b"", expired.stderr or b""


def how_ended(code: int) -> str:
    """An exit code in words, or the signal that it stands for: `SIGKILL`."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def question_of_parent() -> bytes:
    """The question of the process that has `started` this one, which ends with it from then on."""
    length = int.from_bytes(os.read(0, _LENGTH_BYTES), "big")
    question = b""
    while len(question) < length and (part := os.read(0, length - len(question))):
        question += part
    threading.Thread(target=_end_with_parent, name="tfdist-parent", daemon=True).start()
    return question


def _end_with_parent() -> None:
    """Waits for the end of standard input, which comes when the parent process is gone."""
    # Not through sys.stdin, whose lock an ending interpreter may not get from a thread that waits in it.
    os.read(0, 1)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _write(file: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # it has ended, or was
        while content:
            content = content[file.write(content) :]
