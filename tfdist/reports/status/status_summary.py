"""Summary of a run's status in words: headlines, columns, notes and rows of lists, which all renderers share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfdist.launch.run_dir.epoch_metrics import metrics_text
from tfdist.reports.status.run_list import epoch_of, steps_of
from tfdist.reports.status.run_status import RunCondition, RunStatus, WorkerStatus
from tfdist.rundir.failure import Failure
from tfdist.text import format_duration, format_ranges

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
