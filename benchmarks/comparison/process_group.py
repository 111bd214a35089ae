"""Starts processes that work together, bounds them, and leaves none behind."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison.process_ending import descriptor_of, end
from tfdist.text import printable

ROOT = Path(__file__).resolve().parents[2]
"""The repository's root, from which every process imports."""

_GRACE_SECONDS = 30.0
_LAST_LINES = 20
_LAST_WIDTH = 300
_PR_SET_PDEATHSIG = 1
"""Linux: sets the signal that a process gets when the thread that started it ends; it outlasts an exec."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class ContestantError(Exception):
    """A contestant failed, or took too long; the text has its last lines."""


@dataclass(frozen=True)
class Command:
    """One process.

    Attributes:
        arguments: What it runs.
        cores: The cores that it, and what it starts, may run on.
        environment: Variables that it gets besides this process's; None for one that it does not get.
        afterwards: Facts to add to those that it printed, read when all have ended.
    """

    arguments: tuple[str, ...]
    cores: tuple[int, ...]
    environment: Mapping[str, str | None] = field(default_factory=dict)
    afterwards: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True)
class Child:
    """A process that was started.

    Attributes:
        process: The process.
        log: Its output.
        moment: When it was started, in seconds since 1970.
    """

    process: subprocess.Popen[bytes]
    log: Path
    moment: float

    def check_exit(self) -> None:
        """Raises if it has failed. It has ended.

        Raises:
            ContestantError: It has, with its last lines.
        """
        status = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        assert status is not None
        if status.si_code != os.CLD_EXITED:
            raise ContestantError(f"It was ended by {signal.Signals(status.si_status).name}. {self.ending()}")
        if status.si_status != 0:
            raise ContestantError(f"It failed with exit code {status.si_status}. {self.ending()}")

    def ending(self) -> str:
        """Its last lines, for an error."""
        return _ending(self.log)


def run_together(commands: Sequence[Command], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Runs all at once until each has ended by itself.

    Args:
        commands: What to start. Each prints a line of JSON.
        seconds: How long they may take.
        folder: Where their outputs are written.

    Returns:
        The last line of JSON that each printed, with `started`: when it was started, in seconds since 1970.

    Raises:
        ContestantError: One failed, printed no such line, or they took too long. All are killed then.
    """
    with started(commands, seconds, folder) as children:
        wait_for(children, seconds)
    return [
        {"started": child.moment, **last_json(child.log), **command.afterwards()}
        for child, command in zip(children, commands, strict=True)
    ]


@contextlib.contextmanager
def started(commands: Sequence[Command], seconds: float, folder: Path) -> Iterator[list[Child]]:
    """Starts all at once; at the end none of them, nor of what they have started, is left.

    Args:
        commands: What to start.
        seconds: How long they may live.
        folder: Where their outputs are written.
    """
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(_child(command, folder / f"{number}.log", seconds))
            for number, command in enumerate(commands)
        ]


def last_json(log: Path) -> dict[str, Any]:
    """The last line of an output that is a JSON object.

    Raises:
        ContestantError: There is none.
    """
    for line in reversed(log.read_text(errors="replace").splitlines()):
        with contextlib.suppress(ValueError):
            found = json.loads(line) if line.startswith("{") else None
            if isinstance(found, dict):
                return found
    raise ContestantError(f"It ended without a line of JSON. {_ending(log)}")


@contextlib.contextmanager
def _child(command: Command, log: Path, seconds: float) -> Iterator[Child]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # Installed packages have their bytecode; without any, modules of this repository would be compiled at every start.
    changed = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": None, **command.environment}
    environment = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    moment = time.time()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command.arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=functools.partial(_confine, command.cores, math.ceil(seconds + _GRACE_SECONDS)),
        )
    try:
        yield Child(process, log, moment)
    finally:
        end(process)


def _confine(cores: Sequence[int], seconds: int) -> None:
    """In a process that is about to become a contestant: its cores, and its end if nobody is left who would end it."""
    os.sched_setaffinity(0, cores)
    signal.alarm(seconds)
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def wait_for(children: Sequence[Child], seconds: float) -> None:
    """Returns when all have ended by themselves.

    It takes no time from the cores that are measured: the kernel says when a process has ended.

    Raises:
        ContestantError: One failed, or they took too long.
    """
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as open_files:
        poller, waiting = select.poll(), {}
        for child in children:
            descriptor = descriptor_of(child.process.pid, open_files)
            poller.register(descriptor, select.POLLIN)
            waiting[descriptor] = child
        while waiting:
            ended = poller.poll(max(0.0, 1000 * (deadline - time.monotonic())))
            if not ended:
                raise too_long(next(iter(waiting.values())), seconds)
            for descriptor, _ in ended:
                poller.unregister(descriptor)
                waiting.pop(descriptor).check_exit()


def too_long(child: Child, seconds: float) -> ContestantError:
    """The error of one that has not done its work in time."""
    return ContestantError(f"It took longer than {seconds:g} s (--limit) and was ended. {child.ending()}")


def _ending(log: Path) -> str:
    lines = [printable(line)[:_LAST_WIDTH] for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if not lines:
        return "It printed nothing."
    return "\n".join(["Its last lines:", *(f"    {line}" for line in lines[-_LAST_LINES:])])
