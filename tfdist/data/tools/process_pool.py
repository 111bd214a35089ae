"""Pool of processes, each of which takes the next task until none is left.

The death of a process is noticed at once and raised, with its last words. When the caller stops, for whatever reason,
no process is left; when the caller itself is killed, each process ends with the next message that it sends.

Stderr of a process of the pool: passed on without TensorFlow's own lines, and kept for the error if it dies.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import sys
import textwrap
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from tfdist.config.dotted_path import search_in
from tfdist.errors import DataError, TfdistError, UsageError, WorkerFailedError
from tfdist.text import printable
from tfdist.tf_log_filter import TfLogFilter

ReportProgress = Callable[[int], None]
TaskFunction = Callable[[Any, ReportProgress], Any]

END_SECONDS = 5.0
"""Seconds that a process that is told to end may take before it is killed."""

_LOOK_SECONDS = 1.0
_BLOCK_BYTES = 1 << 16
_KEPT_LINES = 100
_SHOWN_LINES = 12
_LINE_CHARACTERS = 300
_CRASH = "Fatal Python error"
"""The words with which `faulthandler` begins; the frame that crashed is among its first lines."""


@dataclass(frozen=True)
class TaskProgress:
    """A task has advanced by an amount."""

    amount: int


@dataclass(frozen=True)
class TaskResult:
    """A task is done."""

    task: Any
    result: Any


@dataclass(frozen=True)
class _Failed:
    code: int
    text: str


def run_in_processes(
    make_work: Callable[[Any], TaskFunction], argument: Any, tasks: Sequence[Any], processes: int
) -> Generator[TaskProgress | TaskResult, None, None]:
    """Yields the progress and the results of tasks that several processes work on.

    Args:
        make_work: Called in each process with `argument`; returns the function that does a task. It is a function of a
            module, which the processes find by its name: what it imports is not imported here.
        argument: Anything that can be pickled.
        tasks: Anything that can be pickled. They are started in this order.
        processes: How many work at once, at least 1.

    Raises:
        DataError: A process raised it; the text is its own.
        UsageError: The same.
        WorkerFailedError: A process died, or raised something else. Its last lines on stderr are in the text.
    """
    waiting, members = deque(tasks), list[_Member]()
    try:
        for _ in range(min(processes, len(waiting))):
            members.append(_Member(make_work, argument))
            members[-1].give(waiting.popleft())
        while busy := {member.connection: member for member in members if member.task is not None}:
            awaited: list[Any] = [*busy, *(member.stderr for member in members if member.stderr.is_open)]
            for ready in wait(awaited, _LOOK_SECONDS):
                if isinstance(ready, ProcessStderr):
                    ready.pass_on()
                    continue
                member = busy[ready]  # type: ignore[index]
                message = member.receive()
                if isinstance(message, TaskResult):
                    member.give(waiting.popleft() if waiting else None)
                yield message
    finally:
        for member in members:
            member.terminate()
        for member in members:
            member.end()


class _Member:
    """One process, as the caller sees it."""

    def __init__(self, make_work: Callable[[Any], TaskFunction], argument: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        reader, stderr = context.Pipe(duplex=False)
        self.stderr = ProcessStderr(reader)
        self.task: Any = None
        self._process: BaseProcess = context.Process(
            target=_serve, args=(theirs, stderr, make_work, argument, os.getcwd()), daemon=True
        )
        with _interrupts_ignored():
            self._process.start()
        theirs.close()
        stderr.close()

    def give(self, task: Any) -> None:
        """Hands over a task; None ends the process."""
        self.task = task
        # A process that is gone is noticed where its answer is awaited.
        with contextlib.suppress(BrokenPipeError):
            self.connection.send(task)

    def receive(self) -> TaskProgress | TaskResult:
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        if isinstance(message, _Failed):
            kind = next((kind for kind in (DataError, UsageError) if kind.exit_code == message.code), WorkerFailedError)
            raise kind(message.text)
        return message

    def _died(self) -> WorkerFailedError:
        self._process.join(END_SECONDS)
        self.stderr.pass_on()
        code, words = self._process.exitcode, self.stderr.last_words()
        by_signal = code is not None and code < 0
        how = f"was ended by {signal.Signals(-(code or 0)).name}" if by_signal else f"died with exit code {code}"
        hint = " Too little memory is a usual cause: try fewer --processes." if code == -signal.SIGKILL else ""
        said = f" Its last words:\n{textwrap.indent(words, '  ')}" if words else " It said nothing."
        return WorkerFailedError(f"A process {how} at {self.task}.{hint}{said}")

    def terminate(self) -> None:
        if self.task is not None:
            self._process.terminate()

    def end(self) -> None:
        self.connection.close()
        self._process.join(END_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(END_SECONDS)
        self.stderr.close()
        self._process.close()


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that start in this block ignore Ctrl-C, which goes to all of a terminal: the caller ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(
    connection: Connection,
    stderr: Connection,
    make_work: Callable[[Any], TaskFunction],
    argument: Any,
    directory: str,
) -> None:
    """Runs in each process: takes tasks until there are no more."""
    os.dup2(stderr.fileno(), 2)
    stderr.close()
    # A crash in a library's code says where it was.
    faulthandler.enable()
    search_in(directory)

    # An orderly exit: what is open is closed, and unfinished files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(signal.SIGTERM))

    def report(amount: int) -> None:
        connection.send(TaskProgress(amount))

    try:
        work = make_work(argument)
        while (task := connection.recv()) is not None:
            connection.send(TaskResult(task, work(task, report)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the caller is gone
    except TfdistError as error:
        failed = _Failed(error.exit_code, str(error))
    except Exception:
        failed = _Failed(WorkerFailedError.exit_code, traceback.format_exc())
    else:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.send(failed)


class ProcessStderr:
    """The end that the caller reads; `multiprocessing.connection.wait` takes it.

    Args:
        reader: Where the bytes arrive.
    """

    def __init__(self, reader: Connection) -> None:
        self._reader = reader
        self._filter = TfLogFilter()
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._unfinished = ""
        self._has_crashed = False
        self.is_open = True
        """True if the process may write more."""
        os.set_blocking(reader.fileno(), False)

    def fileno(self) -> int:
        """The file descriptor to wait for."""
        return self._reader.fileno()

    def pass_on(self) -> None:
        """Writes what has arrived to this process's stderr; does not wait for more."""
        while self.is_open:
            try:
                data = os.read(self._reader.fileno(), _BLOCK_BYTES)
            except BlockingIOError:
                return
            self.is_open = bool(data)
            self._show(self._filter.feed(data) if data else self._filter.rest())

    def last_words(self) -> str:
        """The last lines, a crash from its beginning on; empty when nothing was written."""
        lines = [line for line in [*self._lines, self._unfinished] if line.strip()]
        crashes = [place for place, line in enumerate(lines) if line.startswith(_CRASH)]
        shown = lines[crashes[-1] :][:_SHOWN_LINES] if crashes else lines[-_SHOWN_LINES:]
        return "\n".join(printable(line)[:_LINE_CHARACTERS] for line in shown)

    def close(self) -> None:
        """Passes on what is left, and closes the pipe."""
        self.pass_on()
        self.is_open = False
        self._reader.close()

    def _show(self, shown: bytes) -> None:
        text = shown.decode(errors="replace")
        *ended, self._unfinished = (self._unfinished + text).split("\n")
        self._lines.extend(ended)
        if not self._has_crashed:
            # Where it crashed is in the error, which is shown as well.
            before, crash, _ = text.partition(_CRASH)
            self._has_crashed = bool(crash)
            sys.stderr.write(before)
            sys.stderr.flush()
