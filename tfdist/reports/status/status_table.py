"""Terminal report of a run's status."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, metrics_text
from tfdist.reports.status.run_status import RunCondition, RunStatus, WorkerStatus
from tfdist.rundir.failure import Failure
from tfdist.text import format_duration, format_ranges, printable, table

_COLUMNS: Sequence[tuple[str, str, Callable[[WorkerStatus], str]]] = (
    ("worker", "r", lambda row: str(row.state.index)),
    ("host", "l", lambda row: row.state.host),
    ("pid", "r", lambda row: str(row.state.pid)),
    ("state", "l", lambda row: row.state.state.value),
    ("epoch", "r", lambda row: str(row.state.epoch + 1)),  # as Keras counts them
    ("step", "r", lambda row: str(row.state.step)),
    ("samples/s", "r", lambda row: f"{row.state.rate:,.0f}" if row.state.rate else "-"),
    ("last move", "r", lambda row: f"{format_duration(row.quiet)} ago"),
    ("busy a step", "r", lambda row: format_duration(row.state.busy) if row.state.busy else "-"),
    ("", "l", lambda row: "; ".join(row.remarks)),
)
"""Heading, alignment and content of each column."""

_MESSAGE_CHARACTERS = 300
_MOST_METRICS = 8


def render(status: RunStatus, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        status: The status.
        width: Columns of the terminal; longer lines are cut, but metrics and what is unusual of a worker take as many
            lines as they need. None for no limit.
        height: Lines of the terminal; the fastest workers are left out when they do not fit. None for no limit.
    """
    head = _head(status, width)
    body = _table(status.rows, width) if status.rows else []
    notes = [line for note in _notes(status) for line in _wrapped(note, width)]
    room = None if height is None else height - len(head) - len(notes)
    lines = [*head, *_fitting(body, room), *notes]
    return "\n".join(printable(line)[:width].rstrip() for line in lines)


def _head(status: RunStatus, width: int | None) -> list[str]:
    snapshot = status.snapshot
    begun = "" if snapshot.created is None else f", started {format_duration(status.now - snapshot.created)} ago"
    lines = [f"{snapshot.name or 'run'}: {snapshot.run}{begun}", _condition(status)]
    if status.failure is not None and status.failure.log:
        lines.append(f"  its log: {status.failure.log} (on {status.failure.host})")
    if status.metrics is not None:
        lines += _wrapped(_metrics(status.metrics, status.now), width)
    return [*lines, ""]


def _metrics(metrics: EpochMetrics, now: float) -> str:
    ended = "" if metrics.time is None else f", {format_duration(now - metrics.time)} ago"
    return f"after epoch {metrics.epoch + 1}{ended}: {metrics_text(metrics, _MOST_METRICS)}"


def _condition(status: RunStatus) -> str:
    what = "" if status.failure is None else _what(status.failure)
    said = status.condition.value + (f": {status.reason}" if status.reason else "")
    if status.condition is RunCondition.FAILED:
        return f"failed: {what}"
    if status.condition is RunCondition.RESTARTING:
        return f"restarting after attempt {status.attempt}" + (f": {what}" if what else "")
    if status.attempt and not status.condition.is_over:
        return f"{said}, attempt {status.attempt}" + (f" after {what}" if what else "")
    return said + (f", attempt {status.attempt}" if status.attempt else "")


def _what(failure: Failure) -> str:
    where = " ".join(filter(None, (failure.who, "failed", failure.when)))
    return f"{where}: {failure.what_in_line(_MESSAGE_CHARACTERS)}"


def _table(rows: Sequence[WorkerStatus], width: int | None) -> list[list[str]]:
    """The lines of the heading, then those of each worker: what is unusual has its own where it does not fit."""
    cells = [[name for name, _, _ in _COLUMNS], *([show(row) for _, _, show in _COLUMNS] for row in rows)]
    align = "".join(align for _, align, _ in _COLUMNS)
    lines = table(cells, align)
    if width is None or max(map(len, lines)) <= width:
        return [[line] for line in lines]
    heading, *short = table([row[:-1] for row in cells], align[:-1])
    below = [_wrapped("; ".join(row.remarks), width, indent="  ") for row in rows]
    return [[heading], *([line, *remarks] for line, remarks in zip(short, below, strict=True))]


def _fitting(blocks: Sequence[Sequence[str]], room: int | None) -> list[str]:
    """The lines of a table, without its last workers where there is no room for all: the slowest stays."""
    if room is None or sum(map(len, blocks)) <= room:
        return [line for block in blocks for line in block]
    kept = list(blocks[:2])
    for block in blocks[2:]:
        if sum(map(len, kept)) + len(block) >= room:
            break
        kept.append(block)
    left = len(blocks) - len(kept)
    return [*(line for block in kept for line in block), *([f"and {left} faster workers"] if left else [])]


def _wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    if width is None:
        return [indent + text]
    return textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _notes(status: RunStatus) -> list[str]:
    notes = [f"worker {index}: {why}" for index, why in status.snapshot.unreadable.items()]
    if status.snapshot.absent:
        workers = format_ranges(status.snapshot.absent)
        notes.append(f"worker(s) {workers}: nothing here; other machines may have run directories of their own")
    if not status.rows and not notes:
        notes.append("no worker has written its state yet")
    return notes
