"""What came of contestants that trained the same models: tables, the picture and the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.failure_section import failure_section
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.rounds import Record
from benchmarks.comparison.spread import Spread, digits, ratios
from tfdist.text import format_count

_BASELINES = ("ddp", "tensorflow")
_FAILED = "failed"


@dataclass(frozen=True)
class Cell:
    """One model on some workers.

    Attributes:
        model: Its name.
        workers: How many.
        steps: Steps that were timed.
        records: Contestant -> what came of it.
    """

    model: str
    workers: int
    steps: int
    records: dict[str, Record]

    def rates(self, name: str) -> list[float] | None:
        """Steps a second of a contestant, round by round, those of its slowest worker; None if it failed."""
        record = self.records[name]
        if record.failure is not None or not record.said:
            return None
        return [min(process["steps_per_second"] for process in said) for said in record.said]

    def step_ms(self, name: str) -> Spread | None:
        """Milliseconds of a step."""
        rates = self.rates(name)
        return None if rates is None else Spread.of([1000 / rate for rate in rates])

    def ratio(self, name: str, other: str) -> Spread | None:
        """Rates of a contestant over another's; None if one of them failed."""
        rates, others = self.rates(name), self.rates(other)
        return None if rates is None or others is None else Spread.of(ratios(rates, others))

    def check_same_work(self) -> None:
        """A contestant whose model has other parameters than the first one's has failed: it did other work."""
        expected: tuple[str, int] | None = None
        for name, record in self.records.items():
            for process in (process for said in record.said for process in said):
                expected = expected or (name, process["parameters"])
                if process["parameters"] != expected[1] and record.failure is None:
                    record.failure = (
                        f"Its {self.model} has {process['parameters']:,} parameters. Expected those of {expected[0]}: "
                        f"{expected[1]:,}."
                    )

    def check_kernels(self, asked: Mapping[str, bool]) -> None:
        """A contestant that did not compute with the kernels that its name says has failed.

        Args:
            asked: Contestant -> whether oneDNN was asked for; those that asked for nothing are not in it.
        """
        for name, wanted in asked.items():
            record = self.records[name]
            if record.failure is None and any(process["onednn"] != wanted for said in record.said for process in said):
                record.failure = (
                    f"It computed {'without' if wanted else 'with'} oneDNN. Expected the kernels of its name: leave "
                    "out --kernels in --train-options, and use a TensorFlow that has them."
                )

    def figures(self) -> dict[str, Any]:
        """All that was measured, as JSON has it."""
        contestants = {
            name: {"steps_per_second": self.rates(name), "failure": record.failure, "said": record.said}
            for name, record in self.records.items()
        }
        return {"model": self.model, "workers": self.workers, "steps": self.steps, "contestants": contestants}


def report(heading: Sequence[str], cells: Sequence[Cell]) -> str:
    """The page of Markdown.

    Args:
        heading: Lines before the tables.
        cells: At least one; the first contestant's rates are divided by those of the others.
    """
    names = list(cells[0].records)
    lines = [*heading, f"oneDNN in use: {_kernels(cells)}."]
    counts = list(dict.fromkeys(cell.workers for cell in cells))
    for workers in counts:
        these = [cell for cell in cells if cell.workers == workers]
        lines += ["", f"## {format_count(workers, 'worker')}", "", "Steps a second:", ""]
        lines += _grid(these, names, lambda cell, name: _spread_of(cell.rates(name)))
        if len(names) > 1:
            lines += ["", f"{names[0]} / another, round by round:", ""]
            lines += _grid(these, names[1:], lambda cell, name: cell.ratio(names[0], name))
    if len(counts) > 1:
        lines += ["", "## A step as the workers grow", "", "Milliseconds of a step of the same global batch:", ""]
        lines += _growth(cells, names, counts)
    lines += failure_section((f"{cell.model}, {format_count(cell.workers, 'worker')}", cell.records) for cell in cells)
    return "\n".join([*lines, ""])


def picture(cells: Sequence[Cell]) -> str:
    """Rates over those of DDP, or of another; where the workers grow, the time of a step besides."""
    names = list(cells[0].records)
    base = next((name for name in _BASELINES if name in names), names[0])
    counts = list(dict.fromkeys(cell.workers for cell in cells))
    shown = [name for name in names if name != base] or names
    panels = []
    for workers in counts:
        groups = {
            cell.model: {name: cell.ratio(name, base) for name in shown} for cell in cells if cell.workers == workers
        }
        panels.append(Panel(f"{format_count(workers, 'worker')}: steps a second, {base} = 1", groups, baseline=1.0))
    for model in dict.fromkeys(cell.model for cell in cells) if len(counts) > 1 else ():
        grown = [cell for cell in cells if cell.model == model]
        groups = {str(cell.workers): {name: cell.step_ms(name) for name in names} for cell in grown}
        panels.append(Panel(f"{model}: ms of a step, by workers", groups))
    return bar_chart("Training on CPUs, one core a worker", panels)


def _grid(cells: Sequence[Cell], names: Sequence[str], value: Callable[[Cell, str], Spread | None]) -> list[str]:
    rows = [["model", *names]]
    rows += [[cell.model, *(_shown(value(cell, name)) for name in names)] for cell in cells]
    return markdown_table(rows, "l" + "r" * len(names))


def _growth(cells: Sequence[Cell], names: Sequence[str], counts: Sequence[int]) -> list[str]:
    by_place = {(cell.model, cell.workers): cell for cell in cells}
    rows = [["model", "contestant", *(format_count(workers, "worker") for workers in counts)]]
    for model in dict.fromkeys(cell.model for cell in cells):
        for name in names:
            found = [by_place.get((model, workers)) for workers in counts]
            rows.append([model, name, *("" if cell is None else _shown(cell.step_ms(name)) for cell in found)])
    return markdown_table(rows, "ll" + "r" * len(counts))


def _kernels(cells: Sequence[Cell]) -> str:
    used: dict[str, bool] = {}
    for cell in cells:
        for name, record in cell.records.items():
            for process in (process for said in record.said for process in said):
                used[name] = process["onednn"]
    return ", ".join(f"{name} {'yes' if uses else 'no'}" for name, uses in used.items()) or "not known"


def _spread_of(values: Sequence[float] | None) -> Spread | None:
    return None if values is None else Spread.of(values)


def _shown(spread: Spread | None) -> str:
    return _FAILED if spread is None else str(spread)


def progress(cell: str, number: int, rounds: int, name: str, record: Record) -> str:
    """A line for the terminal after each run."""
    if record.failure is not None:
        return f"{cell}, round {number + 1} of {rounds}: {name} failed. {record.failure}"
    rate = min(process["steps_per_second"] for process in record.said[-1])
    return f"{cell}, round {number + 1} of {rounds}: {name} {digits(rate)} steps/s"
