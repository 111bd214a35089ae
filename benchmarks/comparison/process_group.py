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
    logs = [folder / f"{number}.log" for number in range(len(commands))]
    with contextlib.ExitStack() as children:
        moments, started = [], []
        for command, log in zip(commands, logs, strict=True):
            moments.append(time.time())
            started.append(children.enter_context(_child(command, log, seconds)))
        _wait(started, logs, seconds)
    return [
        {"started": moment, **last_json(log), **command.afterwards()}
        for moment, log, command in zip(moments, logs, commands, strict=True)
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
def _child(command: Command, log: Path, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    changed = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **command.environment}
    environment = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
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
        yield process
    finally:
        end(process)


def _confine(cores: Sequence[int], seconds: int) -> None:
    """In a process that is about to become a contestant: its cores, and its end if nobody is left who would end it."""
    os.sched_setaffinity(0, cores)
    signal.alarm(seconds)
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _wait(started: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], seconds: float) -> None:
    """Waits without taking time from the cores that are measured: the kernel says when a process has ended."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as open_files:
        poller, waiting = select.poll(), {}
        for process, log in zip(started, logs, strict=True):
            descriptor = descriptor_of(process.pid, open_files)
            poller.register(descriptor, select.POLLIN)
            waiting[descriptor] = (process, log)
        while waiting:
            ended = poller.poll(max(0.0, 1000 * (deadline - time.monotonic())))
            if not ended:
                log = next(iter(waiting.values()))[1]
                raise ContestantError(f"It took longer than {seconds:g} s (--limit) and was ended. {_ending(log)}")
            for descriptor, _ in ended:
                poller.unregister(descriptor)
                _check_exit(*waiting.pop(descriptor))


def _check_exit(process: subprocess.Popen[bytes], log: Path) -> None:
    status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert status is not None
    if status.si_code != os.CLD_EXITED:
        raise ContestantError(f"It was ended by {signal.Signals(status.si_status).name}. {_ending(log)}")
    if status.si_status != 0:
        raise ContestantError(f"It failed with exit code {status.si_status}. {_ending(log)}")


def _ending(log: Path) -> str:
    lines = [printable(line)[:_LAST_WIDTH] for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if not lines:
        return "It printed nothing."
    return "\n".join(["Its last lines:", *(f"    {line}" for line in lines[-_LAST_LINES:])])
