"""Rows over as many jobs as they take: the row that ends a job has failed, and a new job takes the rest; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.training.probes.probe_files import Recording


@dataclass(frozen=True)
class RowRun:
    """The outcome of a row in one job.

    Attributes:
        problem: Why it did not finish; empty where it did.
        detail: The end of the traceback or of the log.
        seconds: How long it took.
        recordings: One a worker, the chief's first, where it was recorded.
        found: What the workers have found, the chief's first, where it measures.
        saved: Where a row of its job saved a model.
    """

    problem: str = ""
    detail: str = ""
    seconds: float = 0.0
    recordings: tuple[Recording, ...] = ()
    found: tuple[Mapping[str, Any], ...] = ()
    saved: str = ""


@dataclass(frozen=True)
class JobEnd:
    """The outcome of one job.

    Attributes:
        rows: What came of the rows that it finished.
        begun: The row that it was in; None where it was in none.
        problem: Why it ended before its last row; empty where it did not.
        detail: The end of the traceback or of the log.
    """

    rows: Mapping[str, RowRun]
    begun: str | None = None
    problem: str = ""
    detail: str = ""


def run_through(names: Sequence[str], run: Callable[[Sequence[str]], JobEnd]) -> dict[str, RowRun]:
    """Runs all rows, with as many jobs as that takes.

    Args:
        names: The rows, in order.
        run: Runs one job of some rows.

    Returns:
        Name -> how the row ended.
    """
    left, ended = list(names), dict[str, RowRun]()
    while left:
        end = run(left)
        ended |= end.rows
        left = [name for name in left if name not in ended]
        if left and end.begun in left:
            # The chief may have finished rows before the one that it was in, while a worker that was gone by then had
            # not: they have failed, too.
            place = left.index(end.begun) + 1
            ended |= {name: RowRun(end.problem or "it did not come to its end", end.detail) for name in left[:place]}
            left = left[place:]
        elif left:
            # Not a row's fault: another job would end the same way.
            ended |= {name: RowRun(end.problem or "it was never begun", end.detail) for name in left}
            left = []
    return ended
