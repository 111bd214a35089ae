"""What a page says of contestants that failed."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.comparison.rounds import Record

Place = tuple[str, dict[str, Record]]
"""Where contestants met, such as `2 workers`, and what came of each."""


def failure_section(places: Iterable[Place]) -> list[str]:
    """Its lines, with why each failed; none where nobody did."""
    failures = [
        f"{place}, {name}: {record.failure}"
        for place, records in places
        for name, record in records.items()
        if record.failure is not None
    ]
    return ["", "## What failed", "", "```", *failures, "```"] if failures else []


def exit_code(places: Iterable[dict[str, Record]]) -> int:
    """1 if a contestant failed, else 0."""
    return int(any(record.failure is not None for records in places for record in records.values()))
