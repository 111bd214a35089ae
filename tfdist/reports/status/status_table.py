"""Reports of the status of a run, and of the runs in a folder: in words, for the terminal, and as JSON."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, metrics_text
from tfdist.reports.status.run_status import RunCondition, RunStatus, WorkerStatus
from tfdist.reports.status.status_reader import RunList, epoch_of, steps_of
from tfdist.rundir.failure import Failure
from tfdist.text import format_count, format_duration, format_ranges, printable, table

COLUMNS: Sequence[tuple[str, str, Callable[[WorkerStatus], str]]] = (
    ("worker", "r", lambda row: str(row.state.index)),
    ("host", "l", lambda row: row.state.host),
    ("pid", "r", lambda row: str(row.state.pid)),
    ("state", "l", lambda row: row.state.state.value),
    ("epoch", "r", lambda row: str(row.state.epoch + 1)),  # as Keras counts them
    ("step", "r", lambda row: str(row.state.step)),
    ("samples/s", "r", lambda row: f"{row.state.rate:,.0f}" if row.state.rate else NOTHING),
    ("last move", "r", lambda row: f"{format_duration(row.quiet)} ago"),
    ("busy a step", "r", lambda row: format_duration(row.state.busy) if row.state.busy else NOTHING),
    ("", "l", lambda row: "; ".join(row.remarks)),
)
"""Of the table of workers: heading, alignment and content of each column."""

LIST_COLUMNS = (("run", "l"), ("state", "l"), ("age", "r"), ("epoch", "r"), ("step", "r"), ("last metrics", "l"))
"""Of the list of runs: heading and alignment of each column; `list_row` has their contents."""

NOTHING = "-"
"""The text of a cell that has nothing to say."""

_MESSAGE_CHARACTERS = 300
_REASON_CHARACTERS = 80
_MOST_METRICS = 8
_MOST_LISTED_METRICS = 4
_ALIGN = "".join(align for _, align in LIST_COLUMNS)
_FAILURE = ("index", "host", "time", "kind", "message", "pid", "exit_code", "type", "epoch", "step", "log")
"""The fields of a `Failure` that are shown: neither tracebacks nor the end of the log."""
_UP_AND_CLEAR = "\x1b[{lines}A\r\x1b[J"


def condition_line(status: RunStatus) -> str:
    """Returns what the run is doing or how it ended, and why, in one line."""
    what = "" if status.failure is None else _what(status.failure)
    said = status.condition.value + (f": {status.reason}" if status.reason else "")
    if status.condition is RunCondition.FAILED:
        return f"failed: {what}"
    if status.condition is RunCondition.RESTARTING:
        return f"restarting after attempt {status.attempt}" + (f": {what}" if what else "")
    if status.attempt and not status.condition.is_over:
        return f"{said}, attempt {status.attempt}" + (f" after {what}" if what else "")
    return said + (f", attempt {status.attempt}" if status.attempt else "")


def started_text(status: RunStatus) -> str:
    """`started 2 h 5 min ago`; empty where that is unknown."""
    created = status.snapshot.created
    return "" if created is None else f"started {format_duration(status.now - created)} ago"


def log_line(status: RunStatus) -> str:
    """Returns where the log of the worker that failed is; empty where none did."""
    failure = status.failure
    return f"its log: {failure.log} (on {failure.host})" if failure is not None and failure.log else ""


def metrics_line(status: RunStatus) -> str:
    """The metrics of the last epoch that ended, and when; empty where none has."""
    metrics = status.metrics
    if metrics is None:
        return ""
    ended = "" if metrics.time is None else f", {format_duration(status.now - metrics.time)} ago"
    return f"after epoch {metrics.epoch + 1}{ended}: {metrics_text(metrics, _MOST_METRICS)}"


def notes(status: RunStatus) -> list[str]:
    """Returns what stands below the table of workers: those of which nothing can be said."""
    found = [f"worker {index}: {why}" for index, why in status.snapshot.unreadable.items()]
    if status.snapshot.absent:
        workers = format_ranges(status.snapshot.absent)
        found.append(f"worker(s) {workers}: nothing here; other machines may have run directories of their own")
    if not status.rows and not found:
        found.append("no worker has written its state yet")
    return found


def list_row(now: float, run: RunStatus) -> tuple[str, ...]:
    """The cells of a run in a list of runs."""
    epoch, steps, created = epoch_of(run), steps_of(run), run.snapshot.created
    return (
        run.snapshot.run.path.name,
        run.condition.value,
        NOTHING if created is None else format_duration(now - created),
        NOTHING if epoch is None else f"{epoch + 1:,}",  # as Keras counts them
        NOTHING if steps is None else f"{steps:,}",
        "; ".join(_remarks(run)) or NOTHING,
    )


def _what(failure: Failure) -> str:
    where = " ".join(filter(None, (failure.who, "failed", failure.when)))
    return f"{where}: {failure.what_in_line(_MESSAGE_CHARACTERS)}"


def _remarks(run: RunStatus) -> Iterator[str]:
    """The metrics of the last epoch and, in short, what went wrong; `tfdist status RUN_DIR` says all."""
    if run.metrics is not None:
        yield metrics_text(run.metrics, _MOST_LISTED_METRICS)
    if run.condition is RunCondition.FAILED and run.failure is not None:
        yield f"worker {run.failure.index}: {run.failure.what_in_line(_REASON_CHARACTERS)}"
    elif run.condition is not RunCondition.STOPPED and run.reason:
        yield run.reason


def render(status: RunStatus, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        width: Columns of the terminal; longer lines are cut, but metrics and what is unusual of a worker take as many
            lines as they need. None for no limit.
        height: Lines of the terminal; the fastest workers are left out when they do not fit. None for no limit.
    """
    head = _head(status, width)
    body = _table(status.rows, width) if status.rows else []
    below = [line for note in notes(status) for line in _wrapped(note, width)]
    room = None if height is None else height - len(head) - len(below)
    lines = [*head, *_fitting(body, room, "faster workers"), *below]
    return "\n".join(printable(line)[:width].rstrip() for line in lines)


def _head(status: RunStatus, width: int | None) -> list[str]:
    snapshot, begun = status.snapshot, started_text(status)
    lines = [", ".join(filter(None, (f"{snapshot.name or 'run'}: {snapshot.run}", begun))), condition_line(status)]
    lines += [f"  {line}" for line in (log_line(status),) if line]
    lines += [line for text in (metrics_line(status),) if text for line in _wrapped(text, width)]
    return [*lines, ""]


def _table(rows: Sequence[WorkerStatus], width: int | None) -> list[list[str]]:
    """The lines of the heading, then those of each worker: what is unusual has its own where it does not fit."""
    cells = [[name for name, _, _ in COLUMNS], *([show(row) for _, _, show in COLUMNS] for row in rows)]
    align = "".join(align for _, align, _ in COLUMNS)
    lines = table(cells, align)
    if width is None or max(map(len, lines)) <= width:
        return [[line] for line in lines]
    heading, *short = table([row[:-1] for row in cells], align[:-1])
    below = [_wrapped("; ".join(row.remarks), width, indent="  ") for row in rows]
    return [[heading], *([line, *remarks] for line, remarks in zip(short, below, strict=True))]


def _fitting(blocks: Sequence[Sequence[str]], room: int | None, left_out: str) -> list[str]:
    """The lines of a table, without its last blocks where there is no room for all: the first stays."""
    if room is None or sum(map(len, blocks)) <= room:
        return [line for block in blocks for line in block]
    kept = list(blocks[:2])
    for block in blocks[2:]:
        if sum(map(len, kept)) + len(block) >= room:
            break
        kept.append(block)
    left = len(blocks) - len(kept)
    return [*(line for block in kept for line in block), *([f"and {left} {left_out}"] if left else [])]


def _wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    if width is None:
        return [indent + text]
    return textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ")


def render_list(found: RunList, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        width: Columns of the terminal; where the last column does not fit, it is below each run. None for no limit.
        height: Lines of the terminal; the oldest runs are left out when they do not fit, and longer lines are cut. None
            for no limit.
    """
    head = [f"{found.folder}: {format_count(len(found.runs) + len(found.unreadable), 'run')}", ""]
    notes = [f"{path.name} cannot be read: {why}" for path, why in found.unreadable.items()]
    body = _fitting(_blocks(found, width), None if height is None else height - len(head) - len(notes), "older")
    most = None if height is None else width
    return "\n".join(printable(line)[:most].rstrip() for line in (*head, *body, *notes))


def _blocks(found: RunList, width: int | None) -> list[list[str]]:
    """The lines of the heading, then those of each run."""
    if not found.runs:
        return []
    cells = [tuple(name for name, _ in LIST_COLUMNS), *(list_row(found.now, run) for run in found.runs)]
    lines = table(cells, _ALIGN)
    if width is None or max(map(len, lines)) <= width:
        return [[line] for line in lines]
    heading, *short = table([row[:-1] for row in cells], _ALIGN[:-1])
    return [[heading], *([line, *_below(row[-1], width)] for line, row in zip(short, cells[1:], strict=True))]


def _below(last: str, width: int) -> list[str]:
    """The last column, in lines of its own."""
    if last == NOTHING:
        return []
    return textwrap.wrap(printable(last), width, initial_indent="  ", subsequent_indent="    ")


def to_json(status: RunStatus) -> dict[str, Any]:
    """A value that `json.dumps` takes. Times are seconds since 1970 (UTC), durations seconds; epochs count from 0."""
    snapshot = status.snapshot
    return {
        "run_dir": str(snapshot.run),
        "name": snapshot.name,
        "created": snapshot.created,
        "time": status.now,
        "status": status.condition.value,
        "over": status.condition.is_over,
        "attempt": status.attempt,
        "reason": status.reason,
        "failure": None if status.failure is None else {name: getattr(status.failure, name) for name in _FAILURE},
        "metrics": metrics_json(status.metrics),
        "workers": [_worker(row) for row in status.rows],
        "unreadable": [{"index": index, "why": why} for index, why in snapshot.unreadable.items()],
        "absent": list(snapshot.absent),
    }


def list_to_json(found: RunList) -> dict[str, Any]:
    """The runs of a folder, the newest first, as `to_json` has each, without its workers."""
    return {
        "folder": str(found.folder),
        "time": found.now,
        "over": found.is_over,
        "runs": [_listed(run) for run in found.runs],
        "unreadable": [{"run_dir": str(path), "why": why} for path, why in found.unreadable.items()],
    }


def _listed(run: RunStatus) -> dict[str, Any]:
    document = to_json(run)
    left = {name: value for name, value in document.items() if name not in ("time", "workers", "unreadable", "absent")}
    return {**left, "epoch": epoch_of(run), "step": steps_of(run)}


def metrics_json(metrics: EpochMetrics | None) -> dict[str, Any] | None:
    """The metrics of an epoch; null for what is no finite number, which JSON lacks."""
    if metrics is None:
        return None
    values = {name: value if math.isfinite(value) else None for name, value in metrics.values.items()}
    return {"epoch": metrics.epoch, "time": metrics.time, "values": values}


def _worker(row: WorkerStatus) -> dict[str, Any]:
    lag = row.lag if row.is_straggling else None
    return {
        **row.state.to_dict(),
        "process": row.presence.value,
        "quiet": row.quiet,
        "silent": row.silent,
        "straggler": None if lag is None else {"slower": lag.slower, "cost": lag.cost, "others": lag.others},
        "remarks": list(row.remarks),
    }


class LiveDisplay:
    """Shows pictures of several lines, each in place of the one before.

    On a terminal the picture is redrawn in place and nothing else is changed: however the program ends, the terminal is
    as it was, with the last picture on it.

    Args:
        stream: The terminal, file or pipe to write to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: list[str] = []
        self._is_first = True

    def size(self) -> tuple[int | None, int | None]:
        """The columns and lines that a picture may have; None for any number, when this is no terminal."""
        columns, lines = self._terminal_size()
        # The cursor stands in the line below the picture. The last column wraps on some terminals.
        return (columns and max(1, columns - 1)), (lines and max(1, lines - 1))

    def show(self, picture: str) -> None:
        """Replaces the picture before."""
        columns, _ = self._terminal_size()
        begin = ""
        if columns and self._shown:
            begin = _UP_AND_CLEAR.format(lines=sum(_rows(line, columns) for line in self._shown))
        elif not self._is_first and not columns and "\n" in picture:
            begin = "\n"
        self._is_first = False
        self._shown = picture.split("\n")
        self._stream.write(f"{begin}{picture}\n")
        self._stream.flush()

    def _terminal_size(self) -> tuple[int | None, int | None]:
        try:
            if not self._stream.isatty():
                return None, None
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return None, None
        return size.columns or None, size.lines or None


def _rows(line: str, columns: int) -> int:
    """Rows of the screen that a line takes; the screen may have become narrower since."""
    return max(1, -(-len(line) // columns))
