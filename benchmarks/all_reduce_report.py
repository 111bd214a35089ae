"""What came of sums over workers that were timed: tables, the picture and the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.failure_section import failure_section
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.spread import Spread, digits, ratios
from tfdist.text import format_bytes, format_count

_ABSENT = "–"


@dataclass(frozen=True)
class Place:
    """Where workers sum.

    Attributes:
        hosts: Network namespaces with a worker list; 1 is the machine itself.
        workers: How many there are on each.
    """

    hosts: int
    workers: int

    @property
    def total(self) -> int:
        """The workers of all hosts."""
        return self.hosts * self.workers

    def __str__(self) -> str:
        workers = format_count(self.workers, "worker")
        return workers if self.hosts == 1 else f"{self.hosts} hosts, {workers} on each"


Found = Mapping[Place, Mapping[str, Record]]
"""What came of each contestant at each place; one that cannot sum there is not in it."""


def report(heading: Sequence[str], sizes: Sequence[int], found: Found) -> str:
    """The page of Markdown.

    Args:
        heading: Lines before the tables.
        sizes: Bytes that were summed.
        found: At least one place, whose first contestant is the one that the others are compared with.
    """
    names, lines = _names(found), list(heading)
    first, others = names[0], names[1:]
    for size in sizes:
        lines += ["", f"## {format_bytes(size)}", "", "Milliseconds:", ""]
        lines += _grid(found, names, lambda place, name, size=size: _milliseconds(found[place], name, size))
        if others:
            lines += ["", f"Times as long as {first} takes, round by round:", ""]
            lines += _grid(found, others, lambda place, name, size=size: _ratio(found[place], name, first, size))
    grown = {place: records for place, records in found.items() if place.total > 1}
    if len(grown) > 1:
        lines += ["", "## How they grow", "", f"The medians, divided by that of {next(iter(grown))}:", ""]
        lines += _growth(grown, names, sizes)
    lines += failure_section((str(place), dict(records)) for place, records in found.items())
    return "\n".join([*lines, ""])


def picture(sizes: Sequence[int], found: Found) -> str:
    """Milliseconds by place, a panel for each size."""
    panels = []
    for size in sizes:
        groups = {
            str(place): {name: _milliseconds(records, name, size) for name in records}
            for place, records in found.items()
        }
        panels.append(Panel(f"{format_bytes(size)}: ms", groups))
    return bar_chart("All-reduce alone", panels)


def figures(found: Found) -> list[dict[str, Any]]:
    """All that was measured, as JSON has it."""
    return [
        {
            "hosts": place.hosts,
            "workers": place.workers,
            "contestant": name,
            "failure": record.failure,
            "said": record.said,
        }
        for place, records in found.items()
        for name, record in records.items()
    ]


def _names(found: Found) -> list[str]:
    """Who took part anywhere, in the order of the place where most did."""
    most = max(found.values(), key=len)
    return list(dict.fromkeys([*most, *(name for records in found.values() for name in records)]))


def _grid(found: Found, names: Sequence[str], value: Callable[[Place, str], Spread | None]) -> list[str]:
    several = any(place.hosts > 1 for place in found)
    rows = [[*(["hosts", "workers on each"] if several else ["workers"]), *names]]
    for place, records in found.items():
        where = [str(place.hosts), str(place.workers)] if several else [str(place.workers)]
        rows.append([*where, *(_shown(records, name, value(place, name)) for name in names)])
    return markdown_table(rows, "r" * len(rows[0]))


def _growth(found: Found, names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    rows = [["size", "contestant", *map(str, found)]]
    for size in sizes:
        for name in names:
            spreads = [_milliseconds(records, name, size) for records in found.values()]
            base = spreads[0]
            shares = [_ABSENT if None in (spread, base) else digits(spread.median / base.median) for spread in spreads]
            rows.append([format_bytes(size), name, *shares])
    return markdown_table(rows, "rl" + "r" * len(found))


def _shown(records: Mapping[str, Record], name: str, spread: Spread | None) -> str:
    if name not in records:
        return _ABSENT
    return "failed" if spread is None else str(spread)


def _times(records: Mapping[str, Record], name: str, size: int) -> list[float] | None:
    """Milliseconds round by round, those of the slowest worker; None if it failed or took no part."""
    record = records.get(name)
    if record is None or record.failure is not None or not record.said:
        return None
    return [1000 * max(process["seconds"][str(size)] for process in said) for said in record.said]


def _milliseconds(records: Mapping[str, Record], name: str, size: int) -> Spread | None:
    times = _times(records, name, size)
    return None if times is None else Spread.of(times)


def _ratio(records: Mapping[str, Record], name: str, other: str, size: int) -> Spread | None:
    times, others = _times(records, name, size), _times(records, other, size)
    return None if times is None or others is None else Spread.of(ratios(times, others))
