"""What came of the trainers: tables of rates, ratios and starts, and which goals are met."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.failure_section import failure_section
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.spread import Spread, digits, ratios

Cells = Mapping[str, Mapping[str, Record]]
"""Model -> trainer -> what came of it."""


_HEADINGS = ["", "global batches a second", "XLA", "seconds to the first step", "MiB of chief and launcher until then"]


@dataclass(frozen=True)
class Goal:
    """What a ratio of rates is to reach.

    Attributes:
        first: A trainer.
        second: The one that its rate is divided by.
        least: The ratio.
        models: Of which models.
    """

    first: str
    second: str
    least: float
    models: tuple[str, ...] = ("mlp", "transformer", "resnet50")


def goals(parts: Sequence[str], *, shares: bool) -> list[Goal]:
    """The goals of some parts.

    Args:
        parts: Names of `trainers.PARTS`.
        shares: Whether several replicas share one GPU. JAX has no two processes on one: there it is one device against
            one.
    """
    large = ("transformer", "resnet50")
    of = {
        "one": [Goal("tfdist", "plain", 0.99)],
        "replicas": [Goal("replicas", "tfdist", 0.8, large), Goal("workers", "tfdist", 0.8, large)],
        "peers": [
            Goal("workers", "ddp", 1.0),
            Goal("workers", "ddp-compiled", 1.0),
            Goal("tfdist" if shares else "workers", "jax", 1.0),
        ],
    }
    return [goal for part in parts for goal in of[part]]


def rates(record: Record) -> list[float]:
    """Global batches a second, pair by pair: the median of the windows of the slowest process; none if it failed."""
    if record.failure is not None:
        return []
    return [min(statistics.median(process["rates"]) for process in said) for said in record.said]


def starts(record: Record) -> list[float]:
    """Seconds from the command to the end of the first step, pair by pair."""
    return [max(process["first_step"] - process["started"] for process in said) for said in record.said]


def memory(record: Record) -> list[float]:
    """MiB of the host's memory until then, pair by pair; none where it was not measured."""
    return [process["host_memory"] for said in record.said for process in said if "host_memory" in process]


def report(heading: Sequence[str], cells: Cells, wanted: Sequence[Goal], *, on_gpu: bool) -> str:
    """The page of Markdown.

    Args:
        heading: Its first lines.
        cells: What came.
        wanted: The goals.
        on_gpu: Whether there is a GPU; without one no goal is judged.
    """
    lines = [*heading]
    for model, records in cells.items():
        rows = [_HEADINGS, *(_row(name, record) for name, record in records.items())]
        lines += ["", f"## {model}", "", *markdown_table(rows, "lrlrr")]
    judged = list(judgements(cells, wanted, on_gpu=on_gpu))
    if judged:
        lines += ["", "## Goals", "", *markdown_table([["model", "ratio", "pairs", "goal", ""], *judged], "llrrl")]
    lines += failure_section([(model, dict(records)) for model, records in cells.items()])
    return "\n".join([*lines, ""])


def _row(name: str, record: Record) -> list[str]:
    if record.failure is not None or not record.said:
        return [name, "failed" if record.failure else "", "", "", ""]
    compiled = [process["jit_compile"] for said in record.said for process in said if "jit_compile" in process]
    xla = "" if not compiled else "yes" if all(compiled) else "no"
    return [name, str(Spread.of(rates(record))), xla, str(Spread.of(starts(record))), _spread(memory(record))]


def _spread(values: Sequence[float]) -> str:
    return str(Spread.of(values)) if values else ""


def judgements(cells: Cells, wanted: Sequence[Goal], *, on_gpu: bool) -> list[list[str]]:
    """For each goal and model of which there are figures: model, ratio, median and range, goal, whether it is met."""
    rows = []
    for goal in wanted:
        for model, records in cells.items():
            if model not in goal.models or not {goal.first, goal.second} <= records.keys():
                continue
            first, second = (rates(records[name]) for name in (goal.first, goal.second))
            pairs = min(len(first), len(second))
            if not pairs:
                continue
            spread = Spread.of(ratios(first[:pairs], second[:pairs]))
            met = ("met" if spread.median >= goal.least else "**not met**") if on_gpu else "not judged: no GPU"
            rows.append([model, f"{goal.first} / {goal.second}", str(spread), digits(goal.least), met])
    return rows


def picture(cells: Cells) -> str:
    """Global batches a second, model by model."""
    panels = []
    for model, records in cells.items():
        found = {name: rates(record) for name, record in records.items()}
        panels.append(Panel(model, {"": {name: Spread.of(each) if each else None for name, each in found.items()}}))
    return bar_chart("Global batches a second", panels)


def figures(cells: Cells) -> list[dict[str, Any]]:
    """All that was measured, as JSON has it."""
    return [
        {
            "model": model,
            "trainer": name,
            "rates": rates(record),
            "first_step_seconds": starts(record),
            "host_memory": memory(record),
            "failure": record.failure,
            "said": record.said,
        }
        for model, records in cells.items()
        for name, record in records.items()
    ]
