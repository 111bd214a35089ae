"""The status of a run as people read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfdist.reports.status.run_status import RunCondition, RunStatus, WorkerStatus
from tfdist.rundir.failure import Failure

_COLUMNS: Sequence[tuple[str, Callable[[WorkerStatus], str]]] = (
    ("worker", lambda row: str(row.state.index)),
    ("host", lambda row: row.state.host),
    ("pid", lambda row: str(row.state.pid)),
    ("state", lambda row: row.state.state.value),
    ("epoch", lambda row: str(row.state.epoch + 1)),  # as Keras counts them
    ("step", lambda row: str(row.state.step)),
    ("samples/s", lambda row: f"{row.state.rate:,.0f}" if row.state.rate else "-"),
    ("last move", lambda row: f"{duration(row.quiet)} ago"),
    ("busy a step", lambda row: short(row.state.busy) if row.state.busy else "-"),
    ("", lambda row: "; ".join(row.remarks)),
)
_TEXTS = ("host", "state", "")
"""Columns that begin at the left; numbers end at the right."""

_MESSAGE_CHARACTERS = 300


def render(status: RunStatus, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        status: What is shown.
        width: Columns that there are; longer lines are cut. None for any.
        height: Lines that there are; of too many workers the fastest are left out. None for any.
    """
    head = _head(status)
    table = _table(status.rows) if status.rows else []
    notes = _notes(status)
    if height is not None and len(head) + len(table) + len(notes) > height:
        room = max(2, height - len(head) - len(notes) - 1)
        table = [*table[:room], f"and {len(table) - room} more, which are quicker"]
    return "\n".join(_plain(line)[:width].rstrip() for line in (*head, *table, *notes))


def _plain(line: str) -> str:
    """A line that does nothing to a terminal but stand there, whatever an error's message has in it."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def duration(seconds: float) -> str:
    """A length of time as people say it: `0.4 s`, `12 min`, `5 h 12 min`, `3 d 4 h`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def short(seconds: float) -> str:
    """A step's time in three digits."""
    return f"{1000 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _head(status: RunStatus) -> list[str]:
    snapshot = status.snapshot
    begun = "" if snapshot.created is None else f", begun {duration(max(0.0, status.now - snapshot.created))} ago"
    lines = [f"{snapshot.name or 'run'}: {snapshot.run}{begun}", _course(status)]
    if status.failure is not None and status.failure.log:
        lines.append(f"  its log: {status.failure.log} (on {status.failure.host})")
    return [*lines, ""]


def _course(status: RunStatus) -> str:
    what = "" if status.failure is None else _what(status.failure)
    said = status.course.value + (f": {status.reason}" if status.reason else "")
    if status.course is RunCondition.FAILED:
        return f"failed: {what}"
    if status.course is RunCondition.RESTARTING:
        return f"restarting after attempt {status.attempt}" + (f": {what}" if what else "")
    if status.attempt and not status.course.is_over:
        return f"{said}, attempt {status.attempt}" + (f" after {what}" if what else "")
    return said + (f", attempt {status.attempt}" if status.attempt else "")


def _what(failure: Failure) -> str:
    where = " ".join(filter(None, (failure.who, "failed", failure.when)))
    return f"{where}: {failure.what_in_line(_MESSAGE_CHARACTERS)}"


def _table(rows: Sequence[WorkerStatus]) -> list[str]:
    cells = [[name for name, _ in _COLUMNS], *([show(row) for _, show in _COLUMNS] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return ["  ".join(_align(*cell) for cell in zip(_COLUMNS, line, widths, strict=True)).rstrip() for line in cells]


def _align(column: tuple[str, Callable[[WorkerStatus], str]], text: str, width: int) -> str:
    return text.ljust(width) if column[0] in _TEXTS else text.rjust(width)


def _notes(status: RunStatus) -> list[str]:
    notes = [f"worker {index}: {why}" for index, why in status.snapshot.unreadable.items()]
    if status.snapshot.absent:
        workers = ranges(status.snapshot.absent)
        notes.append(f"worker(s) {workers}: nothing here; other machines may have run directories of their own")
    if not status.rows and not notes:
        notes.append("no worker has written its state yet")
    return notes


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in few characters: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
