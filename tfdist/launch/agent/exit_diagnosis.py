"""Diagnosis of an exit: what ended a worker, from its error file, its signal, its exit code or the error at its start.

Detection of the kernel's out-of-memory kills, whose SIGKILL looks like anybody else's.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfdist.errors import ClusterError, DataError, FormingError, RunDirError, TfdistError, WorkerFailedError
from tfdist.launch.signals import signal_name
from tfdist.launch.worker.worker_process import Worker, mapped_files, process_facts, shrunk_file
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import Failure, FailureKind
from tfdist.rundir.layout import RunDir

_BUS_ERROR = (
    "a file that it had mapped into memory, as large arrays are, became smaller or cannot be read any more, or native "
    "code crashed: its last lines may say why"
)
_NEW_DATA = "Write new data into another file, and give that the name when it is whole"
_LOOK_SECONDS = 10.0

_OWN_CODES = (ClusterError.exit_code, FormingError.exit_code, DataError.exit_code)
_ROOT = Path("/")


@dataclass(frozen=True)
class OomKillCount:
    """The number of processes killed by the kernel because memory was full, on this machine and in this control group.

    Attributes:
        machine: Since the machine started; None where the kernel does not count them.
        group: In this process's control group since it was made; None likewise.
    """

    machine: int | None
    group: int | None

    @classmethod
    def now(cls, root: Path = _ROOT) -> OomKillCount:
        """The counts now; `root` is the directory of `proc` and `sys`."""
        return cls(_counter(root / "proc/vmstat"), _counter(_events_file(root)))

    def grew(self, later: OomKillCount) -> bool | None:
        """Returns whether there were kills between this count and a later one; None when that is unknown.

        The group's count includes kills because the whole machine's memory was full, and only of this job's processes:
        where it is known, the machine's count, which includes other jobs, is not looked at.
        """
        if self.group is not None and later.group is not None:
            return later.group > self.group
        if self.machine is not None and later.machine is not None:
            return later.machine > self.machine
        return None


def _events_file(root: Path) -> Path | None:
    """The file of this process's control group (version 2) that counts the kills."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("0::"):
            # In a container the path may be the host's, which cannot be seen: then the group is at the root.
            inside = root / "sys/fs/cgroup" / line.removeprefix("0::").lstrip("/") / "memory.events"
            return inside if inside.exists() else root / "sys/fs/cgroup/memory.events"
    return None


def _counter(file: Path | None) -> int | None:
    if file is None:
        return None
    try:
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        return None
    return None


class ExitDiagnosis:
    """Diagnoses the workers that have ended, from what they left.

    Args:
        run: Where workers write their error files.
        count: Counts the processes that the kernel has killed because memory was full.
    """

    def __init__(self, run: RunDir, disk: BoundedDisk, count: Callable[[], OomKillCount] = OomKillCount.now) -> None:
        self._run = run
        self._disk = disk
        self._count = count
        self._kills: dict[int, OomKillCount] = {}
        self._mapped: dict[int, dict[str, int]] = {}
        self._first_look = self._next_look = 0.0

    def start(self, index: int) -> None:
        """A worker is about to start: only kills from now on can be its end."""
        self._kills[index] = self._count()
        self._mapped.pop(index, None)
        self._first_look = 0.0

    def look(self, pids: Mapping[int, int], now: float) -> None:
        """Notes now and then which files workers have mapped: of one that has ended, the system does not know.

        Args:
            pids: The process of each worker of this machine.
            now: Seconds of a clock.
        """
        if now >= self._next_look:
            # Files are mapped at the beginning, mostly.
            self._first_look = self._first_look or now
            self._next_look = now + min(_LOOK_SECONDS, max(1.0, (now - self._first_look) / 10))
            for index, pid in pids.items():
                self._mapped[index] = mapped_files(pid) or self._mapped.get(index, {})

    def __call__(self, worker: Worker, code: int) -> Failure | None:
        """The failure of a worker that ended with `code`; None when it left by itself or the launcher ended it."""
        error = self._error(worker)
        if error is not None:
            # Whatever the file says, it is this worker's.
            return from_error(replace(error, index=worker.index), **process_facts(worker))
        if code < 0 and not worker.ended_by_launcher:
            killed = self._kills[worker.index].grew(self._count())
            shrunk = self._shrunk(worker.index) if code == -signal.SIGBUS else ""
            return from_signal(worker.index, -code, out_of_memory=killed, shrunk=shrunk, **process_facts(worker))
        return None

    def _shrunk(self, index: int) -> str:
        """Returns which file became smaller that a worker had mapped, in words; empty where none is known."""
        try:
            return self._disk.call(lambda: shrunk_file(self._mapped.get(index, {})))
        except RunDirError:
            return ""

    def _error(self, worker: Worker) -> Failure | None:
        try:
            if worker.told is not None:
                return Failure.from_dict(worker.told)
            return self._disk.call(lambda: Failure.read(self._run.error_file(worker.index, worker.attempt)))
        except RunDirError:
            # A full disk may have cut it short, or the disk is silent: then only the exit code tells what happened.
            return None


def from_error(error: Failure, **process: Any) -> Failure:
    """The failure of a worker that an exception ended.

    Args:
        error: What the worker's error file says.
        **process: What is known of its process: `address`, `pid`, `log` and `last_lines`.
    """
    code = error.exit_code if error.exit_code in _OWN_CODES else WorkerFailedError.exit_code
    return replace(error, exit_code=code, **process)


def from_signal(
    index: int, number: int, *, out_of_memory: bool | None = None, shrunk: str = "", **process: Any
) -> Failure:
    """The failure of a worker that a signal ended.

    Args:
        out_of_memory: Whether the kernel has killed a process since because memory was full; None when unknown.
        shrunk: Which file became smaller that it had mapped, in words.
        **process: What is known of its process: `address`, `pid`, `log` and `last_lines`.
    """
    name, hint = signal_name(number), ""
    if number == signal.SIGKILL and out_of_memory:
        return _seen_now(
            index,
            "memory",
            "killed by the kernel, because the memory of its machine (or of its control group) was full. Use a smaller "
            "batch, fewer workers on this machine, smaller shuffle and prefetch buffers, or more memory",
            type=name,
            **process,
        )
    if number == signal.SIGKILL:
        hint = " (by somebody on purpose: the kernel has killed no process for lack of memory)"
        if out_of_memory is None:
            hint = " (if nobody did so on purpose, the machine may have run out of memory: see `dmesg`)"
    elif number == signal.SIGBUS:
        hint = f": {shrunk}. {_NEW_DATA}" if shrunk else f" ({_BUS_ERROR})"
    elif number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE):
        hint = " (native code crashed: its last lines may say why)"
    return _seen_now(index, "signal", f"killed by {name}{hint}", type=name, **process)


def from_exit(index: int, code: int, **process: Any) -> Failure:
    """The failure of a worker that left with `code` while the others did not."""
    rule = "all workers of a job must finish together and with the same code"
    return _seen_now(index, "exit", f"exited with code {code} when the other workers did not; {rule}", **process)


def from_start(index: int, error: Exception, **process: Any) -> Failure:
    """The failure of a worker whose process was not to be started, or could not be."""
    if isinstance(error, TfdistError):
        return _seen_now(index, "start", f"was not started: {error}", exit_code=error.exit_code, **process)
    said = f"its process could not be started: {error}"
    return _seen_now(index, "start", said, exit_code=WorkerFailedError.exit_code, **process)


def _seen_now(index: int, kind: FailureKind, message: str, **process: Any) -> Failure:
    return Failure(index=index, host=socket.gethostname(), time=time.time(), kind=kind, message=message, **process)
