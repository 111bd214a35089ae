"""One worker process: starts it in a session of its own, with its channel and its output, and ends it.

`Worker` is what its group uses of it, for which tests have fakes; a `ProcessSample` is what the system knows of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from tfdist.launch.environment import Assignment
from tfdist.launch.logs.output_pump import OutputPump
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal
from tfdist.launch.worker.channel_protocol import NATIVE_DUMP
from tfdist.net.line_socket import LineError, LineSocket, Message

STOPPED = "its process is stopped (SIGSTOP, Ctrl-Z, a debugger)"
SILENT = "it does not answer: its machine is out of reach, or native code does not let Python run"
NATIVE = "it does not answer: native code does not let Python run"
_PROC = Path("/proc")
_SHARED_MAP = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r.-s ([0-9a-f]+) \S+ \d+ +(/(?!dev/|memfd:).*)$", re.MULTILINE)
"""A line of /proc/PID/maps: of a file whose changes are seen, which no library is."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_BUSY = 0.05
"""Part of a processor that a process uses that runs at all."""
WORKER_MODULE = "tfdist.training.worker"
_LAST_OUTPUT_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.5


@dataclass(frozen=True)
class ProcessSample:
    """A process at a moment.

    Attributes:
        states: The states of its threads, the main one's first, by the system's letters, such as `S` and `T`.
        processor_seconds: What all of its threads have computed.
        swapped: The part of its memory that is swapped out, from 0 to 1.
    """

    states: str
    processor_seconds: float
    swapped: float

    @classmethod
    def of(cls, pid: int, proc: Path = _PROC) -> ProcessSample | None:
        """The sample of a process of this machine; None where there is none."""
        try:
            # The state comes after the name, which is in brackets and may hold any character.
            fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            return cls(
                fields[0] + _other_states(proc / str(pid), pid),
                (int(fields[11]) + int(fields[12])) / _TICKS,
                _swapped(proc / str(pid) / "status"),
            )
        except (OSError, IndexError, ValueError):
            return None

    @property
    def is_stopped(self) -> bool:
        """True if it is stopped, by SIGSTOP, Ctrl-Z or a debugger."""
        return self.states[0] in "Tt"


def why_silent(before: ProcessSample | None, after: ProcessSample | None, seconds: float) -> str:
    """Returns why a process of this machine does not answer, in words.

    Args:
        seconds: The time between them.
    """
    if before is None or after is None:
        return SILENT
    if after.is_stopped:
        return STOPPED
    if after.states[0] == "D":
        return "it waits in the kernel for a disk or a file system that does not answer"
    if after.swapped > 0.5:
        return "most of its memory is swapped out: its machine has too little"
    if "R" in after.states and after.processor_seconds - before.processor_seconds < _BUSY * seconds:
        return "it gets no processor: other processes, or the limit of its control group, keep it waiting"
    return NATIVE


def mapped_files(pid: int, proc: Path = _PROC) -> dict[str, int]:
    """Files that a process of this machine has mapped into its memory -> the bytes that each has at least, about.

    Empty where there is no such process.
    """
    try:
        maps = (proc / str(pid) / "maps").read_text(errors="surrogateescape")
    except OSError:
        return {}
    found: dict[str, int] = {}
    for begin, end, offset, path in _SHARED_MAP.findall(maps):
        # The last page need not be full.
        size = int(offset, 16) + int(end, 16) - int(begin, 16) - _PAGE + 1
        found[path] = max(found.get(path, 0), size)
    return found


def shrunk_file(files: Mapping[str, int]) -> str:
    """Returns which of some files is smaller than it was, in words; empty where none is."""
    for path, size in files.items():
        try:
            now = os.stat(path).st_size
        except OSError:
            continue
        if now < size:
            return f"{path} had {size:,} bytes or more when it was mapped into memory, and has {now:,}"
    return ""


def _other_states(process: Path, pid: int) -> str:
    """The states of the threads beside the main one; one that ends meanwhile is left out."""
    states = ""
    for thread in sorted((process / "task").iterdir()):
        if thread.name != str(pid):
            with contextlib.suppress(OSError, IndexError):
                states += (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return states


def _swapped(status: Path) -> float:
    sizes = {"VmRSS": 0, "VmSwap": 0}
    for line in status.read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in sizes:
            sizes[name] = int(value.split()[0])
    return sizes["VmSwap"] / max(sum(sizes.values()), 1)


class WorkerProcess:
    """A started worker.

    Args:
        assignment: What the worker must know; its channel is added here.
        terminal: Shows its output; None when that is not shown.
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


class Worker(Protocol):
    """A worker, as its group uses it. `WorkerProcess` documents the methods.

    Attributes:
        told: The error that the worker sent because it could not write its error file; None without one.
    """

    index: int
    attempt: int
    address: str | None
    log: Path
    ended_by_launcher: bool
    told: dict[str, Any] | None

    @property
    def pid(self) -> int: ...
    def fileno(self) -> int: ...
    def receive(self) -> list[Message]: ...
    def send(self, message: Message) -> None: ...
    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def sample(self) -> ProcessSample | None: ...
    def dump_natively(self) -> None: ...
    def last_lines(self) -> tuple[str, ...]: ...
    def close(self) -> None: ...


def process_facts(worker: Worker) -> dict[str, Any]:
    """The fields of a `Failure` that describe the worker's process."""
    return {
        "address": worker.address,
        "pid": worker.pid,
        "log": str(worker.log),
        "last_lines": worker.last_lines(),
    }
