"""Terminal and JSON reports of a comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist.reports.comparison.run_comparison import Comparison, Row
from tfdist.text import printable, table

_BEST = "*"
_WIDEST = 40
"""Letters of a cell; longer ones end with an ellipsis. JSON has all."""


def render(names: Sequence[str], found: Comparison) -> str:
    """A column for each run, without a newline at the end; the best value of a metric has a star.

    Args:
        names: Of the runs, in their order.
        found: What they did.
    """
    parts = [("", found.facts), ("metrics", found.metrics), ("configs", found.settings)]
    lines = _lines([("", *names), *(cells for heading, rows in parts for cells in _cells(heading, rows))])
    if not found.settings:
        lines.append("\nTheir configs do not differ, as far as they have any.")
    return "\n".join(printable(line).rstrip() for line in lines)


def to_json(names: Sequence[str], found: Comparison) -> dict[str, Any]:
    """The same for programs: label -> run -> text, with the runs that have the best value of a metric."""

    def rows(rows: Sequence[Row]) -> dict[str, Any]:
        return {
            row.label: {
                "values": dict(zip(names, row.cells, strict=True)),
                "best": [names[place] for place in sorted(row.best)],
            }
            for row in rows
        }

    return {"facts": rows(found.facts), "metrics": rows(found.metrics), "configs": rows(found.settings)}


def _cells(heading: str, rows: Sequence[Row]) -> list[tuple[str, ...]]:
    marked = [
        (row.label, *(cell + (_BEST if place in row.best else "") for place, cell in enumerate(row.cells)))
        for row in rows
    ]
    if not heading or not rows:
        return marked
    empty = ("",) * len(rows[0].cells)
    return [("", *empty), (f"{heading}:", *empty), *marked]


def _lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    return table([[_cut(cell) for cell in row] for row in rows], "l" * len(rows[0]))


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…"
