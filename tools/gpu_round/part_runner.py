"""Runs the parts of a round, side by side and alone, each within its bound; none of them ends the round."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.comparison.process_ending import descriptor_of
from benchmarks.comparison.process_group import Child, Command, started

Verdict = Literal["passed", "failed", "cut", "not run"]

GRACE_SECONDS = 8.0
"""How long a part that is over its bound may take to end by itself, with what it has started and written."""


@dataclass(frozen=True)
class Found:
    """What a part has left.

    Attributes:
        result: Figures, as JSON has them.
        problems: What is wrong with them, one text each.
    """

    result: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One part of a round.

    Attributes:
        name: Its own, of its folder, too.
        about: What it shows.
        command: What it runs, given an empty folder.
        read: What it has left there; also where it was ended at its bound.
        seconds: Its bound.
        least: Seconds with less than which it does not begin.
        absent: Why it cannot be run here; empty where it can.
    """

    name: str
    about: str
    command: Callable[[Path], tuple[str, ...]]
    read: Callable[[Path], Found]
    seconds: float
    least: float = 15.0
    absent: str = ""


@dataclass(frozen=True)
class PartOutcome:
    """What came of a part.

    Attributes:
        part: Its name.
        about: What it shows.
        verdict: `cut` where it was ended at its bound, with what it had found by then.
        seconds: How long it ran.
        reason: Why it is not `passed`.
        result: What it found.
    """

    part: str
    about: str
    verdict: Verdict
    seconds: float = 0.0
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


class PartRunner:
    """Runs parts until a deadline.

    Args:
        folder: Where each part has a folder.
        deadline: By the clock of `time.monotonic`.
        environment: Variables that every part gets besides this process's.
        ended: Called with each outcome as it comes, by one thread at a time.
    """

    def __init__(
        self, folder: Path, deadline: float, environment: Mapping[str, str], ended: Callable[[PartOutcome], None]
    ) -> None:
        self._folder, self._deadline, self._environment, self._ended = folder, deadline, environment, ended
        self._lock = threading.Lock()
        self._stop = os.eventfd(0)

    def run_together(self, parts: Sequence[Part], at_once: int, until: float) -> None:
        """Runs parts side by side.

        Args:
            parts: In the order in which they begin.
            at_once: How many at a time.
            until: When the last of them ends, by the clock of `time.monotonic`.
        """
        with ThreadPoolExecutor(at_once) as threads:
            running = [threads.submit(self._run_and_tell, part, min(until, self._deadline)) for part in parts]
            try:
                for done in running:
                    done.result()
            except BaseException:  # an interrupt: what runs is ended, and what waits does not begin
                os.eventfd_write(self._stop, 1)
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def run_alone(self, parts: Sequence[Part]) -> None:
        """Runs parts one after another, while there is time."""
        for part in parts:
            self._run_and_tell(part, self._deadline)

    def _run_and_tell(self, part: Part, deadline: float) -> None:
        begun = time.monotonic()
        left = deadline - begun - GRACE_SECONDS
        if part.absent:
            outcome = PartOutcome(part.name, part.about, "not run", reason=part.absent)
        elif left < part.least:
            reason = f"for lack of time: {max(0.0, left):.0f} s were left, and it begins with {part.least:g} s or more"
            outcome = PartOutcome(part.name, part.about, "not run", reason=reason)
        else:
            try:
                outcome = self._run(part, min(part.seconds, left))
            except Exception as error:  # One part must not end the round.
                took, reason = time.monotonic() - begun, f"{type(error).__name__}: {error}"
                outcome = PartOutcome(part.name, part.about, "failed", took, reason)
        with self._lock:
            self._ended(outcome)

    def _run(self, part: Part, seconds: float) -> PartOutcome:
        folder = self._folder / part.name
        folder.mkdir()
        begun = time.monotonic()
        command = Command(part.command(folder), tuple(sorted(os.sched_getaffinity(0))), self._environment)
        with started([command], seconds + GRACE_SECONDS, folder) as (child,):
            code = _wait(child, seconds, self._stop)
        took, found = time.monotonic() - begun, part.read(folder)
        if found.problems:
            return PartOutcome(part.name, part.about, "failed", took, "; ".join(found.problems), found.result)
        if code is None:
            reason = f"it was ended at its bound of {seconds:.0f} s"
            return PartOutcome(part.name, part.about, "cut", took, reason, found.result)
        if code:
            reason = f"it ended with code {code}. {child.ending()}"
            return PartOutcome(part.name, part.about, "failed", took, reason, found.result)
        return PartOutcome(part.name, part.about, "passed", took, result=found.result)


def _wait(child: Child, seconds: float, stop: int) -> int | None:
    """The exit code of a process, minus the signal that ended it; None where it was told to end, after some time or as
    all is to stop, which the descriptor `stop` says.

    It is not reaped: until it is, no other process can have its number.
    """
    pid = child.process.pid
    with contextlib.ExitStack() as open_files:
        descriptor = descriptor_of(pid, open_files)
        if descriptor not in select.select([descriptor, stop], (), (), seconds)[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            select.select([descriptor], (), (), GRACE_SECONDS)
            return None
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert status is not None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
