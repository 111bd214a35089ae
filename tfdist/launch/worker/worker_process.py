"""One worker process: its own session and process group, its channel, its output."""

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
from tfdist.net.line_socket import LineError, LineSocket, Message

WORKER_MODULE = "tfdist.training.worker"
_LAST_OUTPUT_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.5


class WorkerProcess:
    """A started worker.

    Args:
        assignment: What the worker must know; its channel is made here.
        log: The worker's log file.
        terminal: Where its output is shown; None when it is not.
        module: The module that the worker runs.
        environ: The environment that the worker's is made from; None for this process's.

    Raises:
        OSError: The process cannot be started or the log not be opened.
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
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=tuple(fd for fd in (theirs.fileno(), assignment.config_fd) if fd is not None),
                    # Ctrl-C at the terminal reaches the launcher alone; one signal reaches all that a worker started.
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
        """What the worker has said since the last time; the error record of a last word is kept in `told`."""
        self._channel.flush()
        try:
            messages = self._channel.receive()
        except LineError:
            self._channel.close()
            return []
        self.told = next((message["failed"] for message in messages if "failed" in message), self.told)
        return messages

    def send(self, message: Message) -> None:
        """Says something to the worker; never waits."""
        self._channel.send(message)

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the worker runs. What it started ends with it."""
        if self._exit is None and self._has_ended():
            # Not yet reaped, it still keeps its group's number from being anybody else's.
            self._signal(signal.SIGKILL)
            self._exit = self._process.wait()
        return self._exit

    def terminate(self) -> None:
        """Asks the worker and what it started to end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the worker and what it started."""
        self._end(signal.SIGKILL)

    def is_stopped(self) -> bool:
        """Whether somebody has stopped the process, with SIGSTOP or Ctrl-Z."""
        try:
            # The state comes after the name, which is in brackets and may hold any character.
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
        except (OSError, IndexError):
            return False

    def dump_natively(self) -> None:
        """Makes a worker whose interpreter does not run write its stacks into its log all the same."""
        if NATIVE_DUMP is not None and self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, NATIVE_DUMP)

    def last_lines(self) -> tuple[str, ...]:
        """The newest lines of its output; of an ended worker with the very last, though it may have no end."""
        if self.poll() is not None:
            self._pump.close(_LAST_WORDS_SECONDS)
        return self._pump.last_lines()

    def close(self) -> None:
        """Takes the last output of the ended worker and frees what it had here."""
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
        # A group whose members have all ended has nothing left to signal.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _abandon(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.communicate()
