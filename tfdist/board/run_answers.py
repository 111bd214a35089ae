"""Answers about one run: what it does, its curves, where its time went, what failed, and its logs; all bounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tfdist.board.board_folder import UnknownRunError, key_of
from tfdist.errors import RunDirError
from tfdist.launch.run_dir.closing_report import render_failures
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, read_metrics
from tfdist.launch.run_dir.run_records import read_failures
from tfdist.reports.comparison import best_epoch
from tfdist.reports.ledger import loss_chart
from tfdist.reports.ledger.account import LABELS, PARTS, Account, endings, headlines, percent, recoveries, steps_of
from tfdist.reports.ledger.account_reader import read_account
from tfdist.reports.ledger.html_chart import COLOURS, HATCHED, columns
from tfdist.reports.status.run_status import RunCondition, RunStatus
from tfdist.reports.status.status_reader import read_status
from tfdist.reports.status.status_table import COLUMNS, condition_line, log_line, metrics_line, notes, started_text
from tfdist.rundir.layout import RunDir
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.rundir.regular_files import read_tail, regular_size
from tfdist.text import format_bytes, format_clock, format_time, printable
from tfdist.tf_log_filter import is_tf_log_line

MOST_LETTERS = 300
"""Of a name or a sentence."""

_MOST_LINE_LETTERS = 2000
_Any = TypeVar("_Any")
MOST_POINTS = 400
"""Of a curve."""
_MOST_METRICS = 60
_MOST_WORKERS = 256
_MOST_NOTES = 20
_MOST_ATTEMPTS = 20
_MOST_LOGS = 1000
_MOST_LOG_LINES = 500
_LOG_BYTES = 1 << 17
_METRICS_BYTES = 8 << 20
_LEDGER_BYTES = 64 << 20
_FAILURE = re.compile(r"failure\.([0-9]{1,9})\.json")
_LOG = re.compile(r"worker-([0-9]{1,5})\.([0-9]{1,9})\.log")


def bounded(value: Any) -> Any:
    """A value for JSON: texts cut, in one line and without controls, numbers that JSON lacks as null."""
    if isinstance(value, str):
        return bounded_text(value)
    if isinstance(value, dict):
        return {bounded_text(str(name)): bounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [bounded(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def bounded_text(text: str, most: int = MOST_LETTERS) -> str:
    """A text in one line, cut where it is longer, without what would turn or hide the text around it."""
    return printable(text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}")


def bounded_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a text, each cut where it is longer; tabs become spaces."""
    return [bounded_text(line[:_MOST_LINE_LETTERS].expandtabs(4), _MOST_LINE_LETTERS) for line in lines]


def thinned(values: Sequence[_Any], most: int) -> Sequence[_Any]:
    """As many values at most, evenly spaced, with the last one."""
    every = max(1, math.ceil(len(values) / most))
    return values[(len(values) - 1) % every :: every]


def run_answer(path: Path) -> dict[str, Any]:
    """All of a run but the text of its logs.

    Raises:
        RunDirError: It cannot be read.
    """
    status = read_status(path)
    run = status.snapshot.run
    epochs = read_metrics(run.metrics_file, _METRICS_BYTES)
    return {
        **bounded(
            {
                "key": key_of(path),
                "name": path.name,
                "title": status.snapshot.name or "run",
                "path": str(path),
                "state": status.condition.value,
                "over": status.is_over,
                "said": [line for line in (condition_line(status), log_line(status), metrics_line(status)) if line],
                "started": started_text(status),
                "metrics": _metrics(epochs),
                "curves": {**curves(epochs, status.snapshot.created), "said": " ".join(loss_chart.spoken(epochs))},
                "workers": _workers(status),
                "ledger": _ledger(run),
                "logs": _logs(run),
            }
        ),
        "failures": list(_failures(run)),
    }


def curves(epochs: Sequence[EpochMetrics], begun: float | None) -> dict[str, Any]:
    """The metrics of the epochs, so many of them as can be told apart.

    Args:
        epochs: In the order in which they were trained.
        begun: When the run began, in seconds since 1970.
    """
    shown = thinned(epochs, MOST_POINTS)
    names = list(dict.fromkeys(name for epoch in reversed(shown) for name in epoch.values))
    times = [None if begun is None or epoch.time is None else round(epoch.time - begun, 1) for epoch in shown]
    return {
        "epochs": [epoch.epoch + 1 for epoch in shown],
        "seconds": times,
        "series": [_series(shown, name) for name in names[:_MOST_METRICS]],
        "more": max(0, len(names) - _MOST_METRICS),
    }


def _series(epochs: Sequence[EpochMetrics], name: str) -> dict[str, Any]:
    """One metric: the places of the epochs that have it, as not every epoch is validated, and its values there."""
    places = [place for place, epoch in enumerate(epochs) if name in epoch.values]
    return {"name": name, "places": places, "values": [epochs[place].values[name] for place in places]}


def log_answer(path: Path, worker: int, attempt: int, *, with_tf: bool) -> dict[str, Any]:
    """The end of a worker's log.

    Args:
        with_tf: Whether lines of TensorFlow's own code are among them.

    Raises:
        UnknownRunError: It has no such log.
        RunDirError: It cannot be read.
    """
    file = RunDir(path).log_file(worker, attempt)
    try:
        content, skipped = read_tail(file, _LOG_BYTES)
    except FileNotFoundError:
        raise UnknownRunError(file.name) from None
    except OSError as error:
        raise RunDirError(f"{file.name} cannot be read: {error.strerror}.") from error
    lines = content.split(b"\n")
    lines = lines[1:] if skipped and len(lines) > 1 else lines
    kept = [line for line in lines if with_tf or not is_tf_log_line(line)]
    # Of a line that is overwritten, as progress bars do, what it was last.
    text = [line.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace") for line in kept]
    text = text[:-1] if text and not text[-1] else text
    shown = bounded_lines(text[-_MOST_LOG_LINES:])
    return {
        "name": file.name,
        "lines": shown,
        "size": format_bytes(skipped + len(content)),
        "cut": bool(skipped) or len(text) > len(shown),
        "hidden": len(lines) - len(kept),
    }


def check_sizes(path: Path) -> None:
    """Raises `RunDirError` where the ledger is longer than can be read while somebody waits."""
    try:
        size = regular_size(RunDir(path).ledger_file)
    except OSError:
        return  # its reader says so
    if size > _LEDGER_BYTES:
        raise RunDirError(
            f"The ledger has {format_bytes(size)}, more than the board reads. `tfdist ledger` reads all of it."
        )


def _metrics(epochs: Sequence[EpochMetrics]) -> list[dict[str, Any]]:
    last = epochs[-1].values if epochs else {}
    found = []
    for name, value in list(last.items())[:_MOST_METRICS]:
        best = best_epoch(epochs, name)
        said = "" if best is None else f"best {best.values[name]:.4g}, epoch {best.epoch + 1}"
        found.append({"name": name, "value": f"{value:.4g}", "best": said})
    return found


def _workers(status: RunStatus) -> dict[str, Any]:
    rows = status.rows[:_MOST_WORKERS]
    slowest = max(rows, key=lambda row: row.state.busy, default=None)
    compared = status.condition is RunCondition.RUNNING and len(rows) > 1 and slowest and slowest.state.busy > 0
    found = notes(status)
    unsaid = [f"and {len(found) - _MOST_NOTES} more"] if len(found) > _MOST_NOTES else []
    return {
        "columns": [{"name": name, "align": align} for name, align, _ in COLUMNS],
        "rows": [[show(row) for _, _, show in COLUMNS] for row in rows],
        "keys": [row.state.index for row in rows],
        "unusual": [bool(row.remarks) for row in rows],
        "busy": [row.state.busy for row in rows],
        "slowest": slowest.state.index if slowest and compared else None,
        "more": len(status.rows) - len(rows),
        "notes": [*found[:_MOST_NOTES], *unsaid],
    }


def _ledger(run: RunDir) -> dict[str, Any]:
    try:
        check_sizes(run.path)
        _, account = read_account(run.path)
    except RunDirError as error:
        return {"error": str(error)}
    wall = account.wall
    return {
        "goodput": percent(account.goodput, 1),
        "said": headlines(account),
        "wall": format_clock(wall),
        "kinds": [_kind(kind, account.seconds[kind], wall) for kind in LABELS],
        "columns": [_shares(column) for column in columns(account)],
        "attempts": list(_attempts(account)) if len(account.attempts) > 1 else [],
        "recoveries": _recoveries(account),
        "parts": ["attempt", "all", *PARTS, "steps again"],
    }


def _kind(kind: TimeKind, seconds: float, wall: float) -> dict[str, Any]:
    share = max(0.0, seconds) / wall if wall else 0.0
    return {
        "label": LABELS[kind],
        "time": format_clock(seconds),
        "percent": percent(seconds, wall),
        "share": round(share, 5),
        "colour": COLOURS[kind],
        "hatched": kind in HATCHED,
    }


def _shares(column: Mapping[TimeKind, float]) -> list[float]:
    whole = sum(column.values())
    return [round(max(0.0, column.get(kind, 0.0)) / whole, 4) if whole else 0.0 for kind in LABELS]


def _attempts(account: Account) -> Iterator[list[str]]:
    for attempt, ended in list(zip(account.attempts, endings(account), strict=True))[-_MOST_ATTEMPTS:]:
        wall = attempt.at - attempt.since
        goodput = percent(attempt.seconds.get(TimeKind.STEP, 0.0), wall)
        yield [str(attempt.number), format_time(attempt.since), format_clock(wall), goodput, steps_of(attempt), ended]


def _recoveries(account: Account) -> list[list[str]]:
    return [
        [
            str(found.attempt),
            *(f"{seconds:.1f}" for seconds in (found.whole, *(found.seconds[part] for part in PARTS))),
            f"{found.again:,}",
        ]
        for found in recoveries(account.attempts)[-_MOST_ATTEMPTS:]
    ]


def _failures(run: RunDir) -> Iterator[dict[str, Any]]:
    """Yields what ended the run, then what ended earlier attempts, the last one first."""
    attempts = sorted((int(match[1]) for match in _names(run.state_dir, _FAILURE)), reverse=True)
    files = [("What ended the run", run.failure_file)]
    files += [(f"What ended attempt {number}", run.attempt_failure_file(number)) for number in attempts]
    for title, file in files[:_MOST_ATTEMPTS]:
        failures = read_failures(file)
        if failures:
            lines = render_failures(failures).splitlines()
            yield {"title": title, "lines": bounded_lines(lines[:_MOST_LOG_LINES])}


def _logs(run: RunDir) -> list[list[int]]:
    """Worker and attempt of each log, the newest attempts first."""
    found = [(int(match[1]), int(match[2])) for match in _names(run.logs_dir, _LOG)]
    return [[worker, attempt] for worker, attempt in sorted(found, key=lambda log: (-log[1], log[0]))[:_MOST_LOGS]]


def _names(directory: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    try:
        return [match for entry in directory.iterdir() if (match := pattern.fullmatch(entry.name))]
    except OSError:
        return []
