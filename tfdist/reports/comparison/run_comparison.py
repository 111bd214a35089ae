"""Table of a comparison of runs: a row for each fact, a column for each run. No clock, no disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tfdist.config.metric_direction import direction
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.comparison.compared_run import ComparedRun
from tfdist.reports.ledger.account_summary import percent
from tfdist.reports.status.run_list import steps_of
from tfdist.reports.status.status_summary import NOTHING
from tfdist.text import format_clock, format_time


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
