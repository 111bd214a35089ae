"""Rounds of jobs that start once and then work in turn: a start is paid once, and not in every round.

All jobs stay meanwhile, each waiting for its turn. The one process of a job that speaks for it, see
`benchmarks.workers.turn_taking`, is told by a pipe when it is its turn, and answers by another.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison.process_ending import descriptor_of
from benchmarks.comparison.process_group import Child, ContestantError, started, too_long, wait_for
from benchmarks.comparison.rounds import Processes, Record, those_left
from benchmarks.workers.turn_taking import SAID, TURN
from tfdist.errors import TfdistError

_MOST = 65536


@dataclass(frozen=True)
class Job:
    """A contestant's processes.

    Attributes:
        waiting: A descriptor that can be read from when a process has ended -> the process.
        turn, said: The pipes.
    """

    waiting: Mapping[int, Child]
    turn: int
    said: int

    def take_turn(self, seconds: float) -> dict[str, Any]:
        """Lets it work, and returns what it says.

        Raises:
            ContestantError: A process of it has ended, or it took longer.
        """
        os.write(self.turn, b"\n")
        return self.answer(seconds)

    def leave(self, seconds: float) -> None:
        """Returns when all its processes have ended, after the last turn; likewise."""
        wait_for(list(self.waiting.values()), seconds)

    def answer(self, seconds: float) -> dict[str, Any]:
        """What it says next; likewise."""
        poller, deadline, line = select.poll(), time.monotonic() + seconds, b""
        for descriptor in (self.said, *self.waiting):
            poller.register(descriptor, select.POLLIN)
        while not line.endswith(b"\n"):
            found = [descriptor for descriptor, _ in poller.poll(max(0.0, 1000 * (deadline - time.monotonic())))]
            if self.said in found:
                line += os.read(self.said, _MOST)
            elif found:
                child = self.waiting[found[0]]
                child.check_exit()
                raise ContestantError(f"It ended before its work was done. {child.ending()}")
            else:
                raise too_long(next(iter(self.waiting.values())), seconds)
        return json.loads(line)


def run_in_turns(
    contestants: Mapping[str, Processes],
    rounds: int,
    seconds: float,
    report: Callable[[int, str, Record], None],
) -> dict[str, Record]:
    """Starts all contestants, then lets each work once a round. One that fails drops out; the others go on.

    Args:
        contestants: Name -> the processes to start.
        rounds: How many.
        seconds: How long a contestant may take to start, and to work in a round.
        report: Called with the round, a name and its record when it has worked; with -1 when it has started.
    """
    records = {name: Record() for name in contestants}
    with contextlib.ExitStack() as stack:
        stacks = {name: stack.enter_context(contextlib.ExitStack()) for name in contestants}
        jobs: dict[str, Job] = {}
        for number, name, record in those_left(records, range(-1, rounds)):
            try:
                if number < 0:
                    life = lifetime(len(contestants), rounds, seconds)
                    jobs[name] = stacks[name].enter_context(_job(contestants[name], life))
                    jobs[name].answer(seconds)
                else:
                    record.said.append([jobs[name].take_turn(seconds)])
                if number == rounds - 1:
                    jobs[name].leave(seconds)
            except (ContestantError, TfdistError) as error:
                record.failure = str(error)
                stacks[name].close()
            report(number, name, record)
    return records


def run_with_starts(
    contestants: Mapping[str, Processes],
    rounds: int,
    seconds: float,
    report: Callable[[int, str, Record], None],
) -> dict[str, Record]:
    """The same with contestants that work for one turn: they start in every round, and are not there all at once."""
    records = {name: Record() for name in contestants}
    for number, name, record in those_left(records, range(rounds)):
        came = run_in_turns({name: contestants[name]}, 1, seconds, lambda number, name, record: None)[name]
        record.said += came.said
        record.failure = came.failure
        report(number, name, record)
    return records


def lifetime(contestants: int, rounds: int, seconds: float) -> float:
    """How long a job may have to wait for its next turn, and live, at most, in seconds."""
    return contestants * (rounds + 2) * seconds


@contextlib.contextmanager
def _job(processes: Processes, life: float) -> Iterator[Job]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfdist-bench-")))
        pipes = [stack.enter_context(_pipe(folder / name)) for name in (TURN, SAID)]
        commands = stack.enter_context(processes(folder))
        children = stack.enter_context(started(commands, life, folder))
        yield Job({descriptor_of(child.process.pid, stack): child for child in children}, *pipes)


@contextlib.contextmanager
def _pipe(path: Path) -> Iterator[int]:
    """A pipe that this end keeps open for both, so that no opening of it waits, and no end is missed."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
