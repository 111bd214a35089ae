"""What came of jobs of many launchers: a table, the picture and the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.spread import Spread
from benchmarks.scale.measurement import Measured

Found = Mapping[int, list[Measured]]
"""Number of launchers -> what came of each round; those that failed are not in it."""

Value = Callable[[Measured], float]

_MIB = 1 << 20

ROWS: Mapping[str, Value] = {
    "time to form, s": lambda job: job.form_seconds,
    "processor time of the chief's launcher for it, s": lambda job: job.form_cpu_seconds,
    "that of all launchers, s": lambda job: job.form_cpu_seconds_of_all,
    "messages to the chief's launcher for it": lambda job: job.form_received,
    "messages from it": lambda job: job.form_sent,
    "messages to and from another launcher": lambda job: job.form_messages_of_other,
    "what that sends, kB": lambda job: job.form_bytes_of_other / 1000,
    "while they train: the chief's launcher, % of a core": lambda job: 100 * job.train_share,
    "another launcher, % of a core": lambda job: 100 * job.train_share_of_other,
    "messages to the chief's launcher a second": lambda job: job.train_received,
    "memory of the chief's launcher, MiB": lambda job: job.peak_bytes / _MIB,
    "memory of another launcher, MiB": lambda job: job.peak_bytes_of_other / _MIB,
    "open files of the chief's launcher": lambda job: job.descriptors,
    "processor time of `tfdist status`, s": lambda job: job.status_seconds,
    "from a worker's death to the end of all, s": lambda job: job.end_seconds,
    "processor time of the chief's launcher for it, s ": lambda job: job.end_cpu_seconds,
}

_PANELS: Mapping[str, Mapping[str, str]] = {
    "seconds": {
        "to form": "time to form, s",
        "from a worker's death to the end of all": "from a worker's death to the end of all, s",
    },
    "processor time to form, s": {"the chief's launcher": "processor time of the chief's launcher for it, s"},
    "% of a core while they train": {
        "the chief's launcher": "while they train: the chief's launcher, % of a core",
        "another launcher": "another launcher, % of a core",
    },
    "memory, MiB": {
        "the chief's launcher": "memory of the chief's launcher, MiB",
        "another launcher": "memory of another launcher, MiB",
    },
    "messages to form": {
        "to the chief's launcher": "messages to the chief's launcher for it",
        "to and from another launcher": "messages to and from another launcher",
    },
}


def report(heading: Sequence[str], found: Found, failures: Sequence[str]) -> str:
    """The page of Markdown.

    Args:
        heading: Lines before the table.
        found: What was measured.
        failures: What went wrong, in words.
    """
    rows = [["launchers", *map(str, found)]]
    for name, value in ROWS.items():
        rows.append([name.strip(), *(_shown(_spread(jobs, value)) for jobs in found.values())])
    lines = [*heading, "", *markdown_table(rows, "l" + "r" * len(found))]
    if failures:
        lines += ["", "## Failed", "", *(f"- {failure}" for failure in failures)]
    return "\n".join([*lines, ""])


def picture(found: Found) -> str:
    """A panel for each kind of cost, by the number of launchers."""
    return bar_chart("Launchers by number", [_panel(title, bars, found) for title, bars in _PANELS.items()])


def _panel(title: str, bars: Mapping[str, str], found: Found) -> Panel:
    groups = {str(count): {bar: _spread(jobs, ROWS[row]) for bar, row in bars.items()} for count, jobs in found.items()}
    return Panel(title, groups)


def figures(found: Found) -> list[dict[str, Any]]:
    """All that was measured, as JSON has it."""
    return [job.to_dict() for jobs in found.values() for job in jobs]


def _spread(jobs: Sequence[Measured], value: Value) -> Spread | None:
    return Spread.of([value(job) for job in jobs]) if jobs else None


def _shown(spread: Spread | None) -> str:
    return "–" if spread is None else str(spread)
