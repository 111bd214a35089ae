"""Remote end of `tfdist launch` on one host: `python -m tfdist.multihost.remote.remote_end`, started by ssh.

Reads a `HostSpec` from stdin, answers what it has found, waits for the order to start, and runs `tfdist train`, whose
output is its own. Killing an ssh client leaves what it has started, so stdin is the life line: when that ends, or stays
silent for too long, the run is stopped, and killed where it does not stop. A detached run is left to itself once it has
started.

Control input: lines that the launching host writes to a remote end, and when they have ended.

The process of `tfdist train` on a host, and the end of it and of all that it has started.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tfdist.bounded_json import parse
from tfdist.cluster.environment_variables import environment_with, ssh_server_address
from tfdist.errors import TfdistError, UsageError
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.signals import Signals
from tfdist.launch.worker.process_termination import adopt_orphans, end_children, reap
from tfdist.multihost.launching.protocol import (
    MOST_ANSWER_BYTES,
    MOST_SPEC_BYTES,
    SILENCE_SECONDS,
    HostFacts,
    HostSpec,
    StartOrder,
    answer,
    parse_message,
)
from tfdist.multihost.remote.host_checks import find_facts, refusal
from tfdist.net.bounded_wait import wait_for
from tfdist.net.port_reservation import PortReservation
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import open_regular, read_json

_PR_SET_PDEATHSIG = 1
_EXTRA_SECONDS = 15.0
"""Seconds beyond its grace that `tfdist train` may take to end before it is killed."""


class RemoteChild:
    """A started `tfdist train`.

    Args:
        arguments: Of `tfdist`.
        grace: Seconds in which it may stop at a step boundary.
        output: Its stdout and stderr; None for this process's own.
        is_detached: Whether it outlives this process.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self,
        arguments: list[str],
        environ: Mapping[str, str],
        grace: float,
        output: IO[bytes] | None = None,
        *,
        is_detached: bool = False,
    ) -> None:
        self._grace = grace
        self._deadline: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tfdist", *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=None if is_detached else _end_with_parent,  # noqa: PLW1509  this process has one thread
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, 128 + N after signal N; None while it runs. Kills it where it has not stopped in time."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            end_children(own={self.pid})
        reap({self.pid})
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Sends it a signal to stop by, and sets the time by which it must have."""
        self.expect_end()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def expect_end(self) -> None:
        """Sets the time by which it must have ended, by itself or not."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace + _EXTRA_SECONDS


def _end_with_parent() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


_READ_BYTES = 65536


class ControlInput:
    """A pipe with messages, one a line; an empty line is a sign of life.

    Args:
        silence: Seconds without any byte after which it counts as ended.
    """

    def __init__(self, descriptor: int, silence: float = SILENCE_SECONDS) -> None:
        self._descriptor = descriptor
        self._silence = silence
        self._heard = time.monotonic()
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.end: str | None = None
        """The reason why nothing comes any more; None while something may."""

    def fileno(self) -> int:
        """The descriptor, to wait on; -1 when it has ended."""
        return self._descriptor if self.end is None else -1

    def next_line(self) -> bytes | None:
        """The next line that has come; None while there is none."""
        self._read()
        return self._lines.popleft() if self._lines else None

    def messages(self) -> list[dict[str, Any]]:
        """The messages that have come; a line that is none ends it."""
        self._read()
        found = []
        while self._lines:
            try:
                found.append(parse_message(self._lines.popleft()))
            except ValueError as error:
                self.end = f"it sent something else than a message: {error}"
        return found

    def _read(self) -> None:
        if self.end is not None:
            return
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        if not poller.poll(0):
            if time.monotonic() - self._heard > self._silence:
                self.end = f"nothing has come from it for {self._silence:g} s"
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except OSError as error:
            self.end = f"its connection failed: {error.strerror}"
            return
        if not data:
            self.end = "its connection has ended"
            return
        self._heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += [line for line in lines if line.strip()]
        if len(self._rest) > MOST_SPEC_BYTES:
            self.end = "it sent a line without an end"


_PAUSE = 0.5
_STDOUT = 1
_LOST = 4
_LAST_BYTES = 4096


class RemoteEnd:
    """One launch, as this host sees it.

    Args:
        control: What the launching host says.
        reached: The address of this host at which the launching host knows it; None where that is not known.
    """

    def __init__(self, control: ControlInput, signals: Signals, reached: str | None) -> None:
        self._reached = reached
        self._control = control
        self._signals = signals
        self._nonce = ""

    def run(self) -> int:
        """Sees the launch to its end; returns the exit code of `tfdist train`."""
        with PortReservation() as ports:
            spec = self._read_spec()
            if spec is None:
                return _LOST
            self._nonce = spec.nonce
            # What a check takes is no part of the time to answer.
            self._answer(here=True)
            try:
                facts = find_facts(spec, ports, self._reached)
            except TfdistError as error:
                self._answer(refused=refusal(error))
                return error.exit_code
            self._answer(checked=dataclasses.asdict(facts))
            order = self._read_order()
        if order is None:
            return _LOST
        return self._run_child(spec, order, facts)

    def _read_spec(self) -> HostSpec | None:
        line = self._next_line()
        try:
            return None if line is None else HostSpec.of(line)
        except ValueError as error:
            print(f"tfdist: what came on stdin is not for this version: {error}", file=sys.stderr, flush=True)
            return None

    def _read_order(self) -> StartOrder | None:
        line = self._next_line()
        try:
            return None if line is None else StartOrder.of(parse(line, MOST_ANSWER_BYTES)["start"])
        except (ValueError, KeyError, TypeError):
            return None

    def _next_line(self) -> bytes | None:
        """The next line; None where none will come."""
        while self._control.end is None and not self._signals.received:
            wait_for([self._control, self._signals], _PAUSE)
            line = self._control.next_line()
            if line is not None:
                return line
        return None

    def _run_child(self, spec: HostSpec, order: StartOrder, facts: HostFacts) -> int:
        adopt_orphans()
        try:
            with _output_of(spec) as output:
                arguments = train_arguments(spec, order, facts)
                environ = environment_with({**spec.variables, "PWD": str(Path.cwd())})
                child = RemoteChild(arguments, environ, spec.grace, output, is_detached=spec.is_detached)
        except OSError as error:
            self._answer(refused=refusal(UsageError(f"cannot start `tfdist train`: {error}")))
            return UsageError.exit_code
        code = self._watch(child, spec)
        if code is None:
            return 0
        end_children()
        self._answer(ended=code, output=_last_output(spec))
        return code

    def _watch(self, child: RemoteChild, spec: HostSpec) -> int | None:
        """Watches the child until it has ended, or until it is left to itself: None."""
        is_told = has_formed = False
        seen = 0
        while (code := child.poll()) is None:
            wait_for([self._control, self._signals], _PAUSE)
            self._signals.drain()
            for said in self._control.messages():
                if said.get("leave") is True and spec.is_detached:
                    return None
                if "signal" in said:
                    child.stop(signal.SIGINT if said["signal"] == signal.SIGINT else signal.SIGTERM)
            for _ in self._signals.received[seen:]:
                child.stop()
            seen = len(self._signals.received)
            if self._control.end is not None and not is_told:
                is_told = True
                # Who is asked to stop takes the whole job along.
                child.expect_end() if spec.is_expendable else child.stop()
            if spec.run_dir is not None and not has_formed and is_running(RunDir(Path(spec.run_dir)), child.pid):
                has_formed = True
                self._answer(formed=str(Path(spec.run_dir).absolute()))
        return code

    def _answer(self, **said: object) -> None:
        data = memoryview(answer(self._nonce, **said))
        # A connection that is gone takes nothing; its stdin says so, too.
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(_STDOUT, data) :]


def train_arguments(spec: HostSpec, order: StartOrder, facts: HostFacts) -> list[str]:
    """The arguments of `tfdist` on this host.

    Args:
        spec: What the host was told first.
        order: What it was told last.
    """
    devices = []
    if order.use_slots and spec.slots and facts.gpus:
        devices = [f"--devices={','.join(map(str, spec.slots))}"]
    return ["train", f"--workers={order.workers}", *devices, *spec.arguments]


def is_running(run: RunDir, pid: int) -> bool:
    """Returns whether a launcher of this host has formed its job, and runs it in this directory."""
    try:
        job = read_json(run.job_file, MOST_ANSWER_BYTES)
    except (OSError, ValueError):
        return False
    return isinstance(job, dict) and job.get("pid") == pid and job.get("phase") == JobPhase.RUNNING.value


def _output_of(spec: HostSpec) -> contextlib.AbstractContextManager[IO[bytes] | None]:
    if spec.output is None:
        return contextlib.nullcontext(None)
    Path(spec.output).parent.mkdir(parents=True, exist_ok=True)
    return open(spec.output, "ab")


def _last_output(spec: HostSpec) -> str:
    """The end of the output of a run that nobody watches; empty for others."""
    if spec.output is None:
        return ""
    try:
        with open_regular(spec.output, follows_link=True) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def main() -> int:
    """Runs the remote end; returns its exit code, which is 0 for a rank of mpirun (`--rank-at ADDRESS`) that has begun.

    With another one mpirun would end all others at once.
    """
    is_rank = sys.argv[1:2] == ["--rank-at"]
    reached = sys.argv[2] if is_rank else ssh_server_address()
    with Signals() as signals:
        code = RemoteEnd(ControlInput(sys.stdin.fileno()), signals, reached).run()
    return 0 if is_rank else code


if __name__ == "__main__":
    sys.exit(main())
