"""Rounds: each contestant once a round, in one order and then the other, so that what drifts meets all alike."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison.process_group import Command, ContestantError, run_together
from tfdist.errors import TfdistError

Processes = Callable[[Path], AbstractContextManager[list[Command]]]
"""Gives the processes to start, given an empty folder for them."""


@dataclass
class Record:
    """What came of one contestant.

    Attributes:
        said: For each round that it ended, what each of its processes printed.
        failure: Why it dropped out; None if it did not.
    """

    said: list[list[dict[str, Any]]] = field(default_factory=list)
    failure: str | None = None


def run_rounds(
    contestants: Mapping[str, Processes],
    rounds: int,
    seconds: float,
    report: Callable[[int, str, Record], None],
) -> dict[str, Record]:
    """Runs all contestants in every round. One that fails drops out; the others go on.

    Args:
        contestants: Name -> the processes to start.
        rounds: How many.
        seconds: How long a contestant may take in a round.
        report: Called with the round, a name and its record after each run.
    """
    records = {name: Record() for name in contestants}
    for number, name, record in those_left(records, range(rounds)):
        with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as scratch:
            folder = Path(scratch)
            try:
                with contestants[name](folder) as commands:
                    record.said.append(run_together(commands, seconds, folder))
            except (ContestantError, TfdistError) as error:
                record.failure = str(error)
        report(number, name, record)
    return records


def those_left(records: Mapping[str, Record], numbers: Iterable[int]) -> Iterator[tuple[int, str, Record]]:
    """For each round its number, and each contestant that has not dropped out by then, in the order of that round."""
    for number in numbers:
        for name in order(list(records), max(0, number)):
            if records[name].failure is None:
                yield number, name, records[name]


def order(names: Sequence[str], number: int) -> list[str]:
    """The order of a round, the other way round in every other one."""
    return list(names if number % 2 == 0 else reversed(names))
