"""Columns of a chart: the wall time of a run cut into slices of one width."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.reports.ledger.account import Account
from tfdist.rundir.ledger_lines import TimeKind

MAX_COLUMNS = 160

Column = Mapping[TimeKind, float]


def columns(account: Account, most: int = MAX_COLUMNS) -> list[Column]:
    """Seconds of each kind of time in each column; they add up to the run's.

    A span that lies in several columns gives each its part, as if its kinds were spread evenly.

    Args:
        account: The account; time between jobs is not in the chart.
        most: Number of columns.
    """
    if not account.wall:
        return []
    width = account.wall / most
    cut: list[dict[TimeKind, float]] = [{} for _ in range(most)]
    done = 0.0
    for span in (span for attempt in account.attempts for span in attempt.spans):
        length = span.at - span.since
        for place in _places(done, length, width, most):
            inside = min(done + length, (place + 1) * width) - max(done, place * width)
            for kind, seconds in span.seconds.items():
                cut[place][kind] = cut[place].get(kind, 0.0) + seconds * max(0.0, inside) / length
        done += length
    return [*cut]


def _places(begun: float, length: float, width: float, most: int) -> range:
    """The columns that a span lies in."""
    if length <= 0:
        return range(0)
    return range(min(most - 1, int(begun / width)), min(most - 1, int((begun + length) / width)) + 1)
