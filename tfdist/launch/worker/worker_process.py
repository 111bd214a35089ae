"""One worker process: starts it in a session of its own, with its channel and its output, and ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfdist.launch.environment import Assignment
from tfdist.launch.logs.output_pump import OutputPump
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal
from tfdist.launch.worker.channel_protocol import NATIVE_DUMP
from tfdist.launch.worker.process_sample import ProcessSample
from tfdist.net.line_socket import LineError, LineSocket, Message

WORKER_MODULE = "tfdist.training.worker"
_LAST_OUTPUT_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.5


class WorkerProcess:
    """A started worker.

    Args:
        assignment: What the worker must know; its channel is added here.
        log: The worker's log file.
        terminal: Shows its output; None when that is not shown.
        module: The module that the worker runs.
        environ: The environment that the worker's is made from; None for this process's.

    Raises:
        OSError: The process cannot be started, or the log cannot be opened.
    """

    def __init__(
        self,
        assignment: Assignment,
        log: Path,
        terminal: Terminal | None = None,
        module: str = WORKER_MODULE,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.index = assignment.index
        self.attempt = assignment.attempt
        self.address = assignment.address
        self.log = log
        self.ended_by_launcher = False
        self.told: dict[str, Any] | None = None
        self._exit: int | None = None
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", module],
                    env=replace(assignment, channel_fd=theirs.fileno()).to_environ(environ),
                    stdin=None if assignment.reads_input else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(theirs.fileno(), *assignment.inherited_fds),
                    # Ctrl-C at the terminal reaches the launcher alone; a signal to the group reaches the worker's
                    # children too.
                    start_new_session=True,
                )
            undo.callback(self._abandon)
            pipes = {STDOUT: cast(BinaryIO, self._process.stdout), STDERR: cast(BinaryIO, self._process.stderr)}
            self._pump = OutputPump(self.index, pipes, log, terminal, quiet=not assignment.verbose)
            undo.pop_all()
        self._channel = LineSocket(ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        """The channel's descriptor, to select on; -1 when it is closed."""
        return self._channel.fileno()

    def receive(self) -> list[Message]:
        """The messages that have come since the last call. The error of a last one is kept in `told`."""
        self._channel.flush()
        try:
            messages = self._channel.receive()
        except LineError:
            self._channel.close()
            return []
        self.told = next((message["failed"] for message in messages if "failed" in message), self.told)
        return messages

    def send(self, message: Message) -> None:
        """Sends a message to the worker; never waits."""
        self._channel.send(message)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the worker runs. Processes that it started end with it."""
        if self._exit is None and self._has_ended():
            # Until it is reaped, no other process group can get its number.
            self._signal(signal.SIGKILL)
            self._exit = self._process.wait()
        return self._exit

    def terminate(self) -> None:
        """Sends SIGTERM to the worker and the processes that it started."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to the worker and the processes that it started."""
        self._end(signal.SIGKILL)

    def sample(self) -> ProcessSample | None:
        """Returns what the system knows of the process now; None where it has ended."""
        return ProcessSample.of(self.pid)

    def dump_natively(self) -> None:
        """Makes the worker write its stacks into its log, even while native code holds the GIL."""
        if NATIVE_DUMP is not None and self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, NATIVE_DUMP)

    def last_lines(self) -> tuple[str, ...]:
        """The newest lines of its output. An ended worker's include the last one, whole or not."""
        if self.poll() is not None:
            self._pump.close(_LAST_WORDS_SECONDS)
        return self._pump.last_lines()

    def close(self) -> None:
        """Reads the last output of the ended worker, and closes its log and channel."""
        self._pump.close(_LAST_OUTPUT_SECONDS)
        self._channel.close()

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _end(self, number: signal.Signals) -> None:
        if self.poll() is None:
            self.ended_by_launcher = True
            self._signal(number)

    def _signal(self, number: signal.Signals) -> None:
        # The group may have no process left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _abandon(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.communicate()
