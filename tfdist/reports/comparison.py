"""Comparison of runs: a row for each fact, and a column for each run, which is read from its directory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfdist.config.training_sections import direction
from tfdist.config.yaml_document import parse_document
from tfdist.errors import ConfigError, RunDirError
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, read_metrics
from tfdist.reports.ledger.account import Account, percent
from tfdist.reports.ledger.account_reader import read_account
from tfdist.reports.status.run_status import RunStatus
from tfdist.reports.status.status_reader import read_status, steps_of
from tfdist.reports.status.status_table import NOTHING
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import open_regular
from tfdist.text import format_clock, format_time, printable, table

MOST_SETTINGS = 2000
_MOST_METRICS_BYTES = 8 << 20
_LEFT_OUT = ("name",)
_BEST = "*"
_WIDEST = 40
"""Letters of a cell; longer ones end with an ellipsis. JSON has all."""


@dataclass(frozen=True)
class ComparedRun:
    """One run.

    Attributes:
        status: What it is doing, or how it ended.
        epochs: The metrics of its epochs.
        account: Where its time went; None where its ledger cannot be read.
        settings: Dotted key of its config -> the value in short; empty where there is none, or it cannot be read.
    """

    status: RunStatus
    epochs: tuple[EpochMetrics, ...]
    account: Account | None
    settings: Mapping[str, str]


def read_compared(run_dir: str | Path) -> ComparedRun:
    """Reads a run directory.

    Raises:
        RunDirError: The directory is not a run's, or cannot be read.
    """
    run = RunDir(Path(run_dir))
    status = read_status(run.path)
    return ComparedRun(status, read_metrics(run.metrics_file, _MOST_METRICS_BYTES), _account(run), _settings(run))


def _account(run: RunDir) -> Account | None:
    try:
        return read_account(run.path)[1]
    except RunDirError:
        return None


def _settings(run: RunDir) -> dict[str, str]:
    try:
        with open_regular(run.config_file) as file:
            content = parse_document(run.config_file, file).content
    except (OSError, ConfigError):
        return {}
    found: dict[str, str] = {}
    for key, value in _leaves(content, ""):
        if len(found) == MOST_SETTINGS:
            break
        if key not in _LEFT_OUT:
            found[key] = value
    return found


def _leaves(content: Mapping[Any, Any], above: str) -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", "null" if value is None else str(value)


@dataclass(frozen=True)
class Row:
    """One fact of every run.

    Attributes:
        label: What it is.
        cells: What it is in each run, in the order of the runs.
        best: The places of the runs with the best value; empty where no run's is better, or that is not known.
    """

    label: str
    cells: tuple[str, ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Comparison:
    """The comparison of several runs: what they did.

    Attributes:
        facts: How they ended, and what they took.
        metrics: The last and the best value of each metric.
        settings: Where their configs differ.
    """

    facts: tuple[Row, ...]
    metrics: tuple[Row, ...]
    settings: tuple[Row, ...]


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Compares two or more runs."""
    facts = (Row(label, tuple(map(tell, runs))) for label, tell in _FACTS.items())
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    settings = (Row(key, tuple(run.settings.get(key, NOTHING) for run in runs)) for key in keys)
    return Comparison(tuple(facts), tuple(_metrics(runs)), tuple(row for row in settings if len(set(row.cells)) > 1))


def best_epoch(epochs: Sequence[EpochMetrics], name: str) -> EpochMetrics | None:
    """The first epoch with the best value of a metric; None where its name does not tell, or it has no finite value."""
    way = direction(name)
    having = [epoch for epoch in epochs if math.isfinite(epoch.values.get(name, math.nan))]
    if way is None or not having:
        return None
    return (min if way == "min" else max)(having, key=lambda epoch: epoch.values[name])


def _metrics(runs: Sequence[ComparedRun]) -> Iterator[Row]:
    names = dict.fromkeys(name for run in runs if run.epochs for name in run.epochs[-1].values)
    for name in names:
        last = [run.epochs[-1].values.get(name) if run.epochs else None for run in runs]
        yield Row(f"{name}, last", tuple(map(_shown, last)), _best(name, last))
        epochs = [best_epoch(run.epochs, name) for run in runs]
        if any(epochs):
            best = [None if epoch is None else epoch.values[name] for epoch in epochs]
            cells = (NOTHING if epoch is None else f"{_shown(epoch.values[name])} (epoch {epoch.epoch + 1})"
                     for epoch in epochs)  # fmt: skip
            yield Row(f"{name}, best", tuple(cells), _best(name, best))


def _best(name: str, values: Sequence[float | None]) -> frozenset[int]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if direction(name) is None or len(set(known)) < 2:
        return frozenset()
    best = min(known) if direction(name) == "min" else max(known)
    return frozenset(place for place, value in enumerate(values) if value == best)


def _shown(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _created(run: ComparedRun) -> str:
    created = run.status.snapshot.created
    return NOTHING if created is None else format_time(created)


def _steps(run: ComparedRun) -> str:
    steps = steps_of(run.status)
    return NOTHING if steps is None else f"{steps:,}"


_FACTS = MappingProxyType[str, Callable[[ComparedRun], str]](
    {
        "state": lambda run: run.status.condition.value,
        "started": _created,
        "workers": lambda run: f"{len(run.status.rows):,}",
        "epochs": lambda run: f"{len(run.epochs):,}",
        "steps": _steps,
        "wall time": lambda run: NOTHING if run.account is None else format_clock(run.account.wall),
        "goodput": lambda run: NOTHING if run.account is None else percent(run.account.goodput, 1),
        "restarts": lambda run: NOTHING if run.account is None else f"{run.account.restarts:,}",
    }
)


def render(names: Sequence[str], found: Comparison) -> str:
    """A column for each run, without a newline at the end; the best value of a metric has a star.

    Args:
        names: Of the runs, in their order.
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
