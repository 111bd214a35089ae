"""Terminal report of the runs in a folder."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.reports.epoch_metrics import metrics_text
from tfdist.reports.status.run_list import RunList, epoch_of, steps_of
from tfdist.reports.status.run_status import RunCondition, RunStatus
from tfdist.text import format_count, format_duration, printable, table

_HEAD = ("run", "state", "age", "epoch", "step", "last metrics")
_ALIGN = "llrrrl"
_MOST_METRICS = 4
_REASON_CHARACTERS = 80


def render(found: RunList, width: int | None = None, height: int | None = None) -> str:
    """The whole picture, without a newline at its end.

    Args:
        found: The runs.
        width: Columns of the terminal; longer lines are cut. None for no limit.
        height: Lines of the terminal; the oldest runs are left out when they do not fit. None for no limit.
    """
    head = [f"{found.folder}: {format_count(len(found.runs) + len(found.unreadable), 'run')}", ""]
    body = table([_HEAD, *(_row(found, run) for run in found.runs)], _ALIGN) if found.runs else []
    notes = [f"{path.name} cannot be read: {why}" for path, why in found.unreadable.items()]
    if height is not None and len(head) + len(body) + len(notes) > height:
        room = max(2, height - len(head) - len(notes) - 1)
        body = [*body[:room], f"and {len(body) - room} older"]
    return "\n".join(printable(line)[:width].rstrip() for line in (*head, *body, *notes))


def _row(found: RunList, run: RunStatus) -> tuple[str, ...]:
    epoch, steps, created = epoch_of(run), steps_of(run), run.snapshot.created
    return (
        run.snapshot.run.path.name,
        run.condition.value,
        "-" if created is None else format_duration(found.now - created),
        "-" if epoch is None else f"{epoch + 1:,}",  # as Keras counts them
        "-" if steps is None else f"{steps:,}",
        "; ".join(_remarks(run)) or "-",
    )


def _remarks(run: RunStatus) -> Iterator[str]:
    """The metrics of the last epoch and, in short, what went wrong; `tfdist status RUN_DIR` says all."""
    if run.metrics is not None:
        yield metrics_text(run.metrics, _MOST_METRICS)
    if run.condition is RunCondition.FAILED and run.failure is not None:
        yield f"worker {run.failure.index}: {run.failure.what_in_line(_REASON_CHARACTERS)}"
    elif run.condition is not RunCondition.STOPPED and run.reason:
        yield run.reason
