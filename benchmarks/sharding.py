"""`python -m benchmarks sharding`: memory and time of a step in each mode of `--shard`, beside PyTorch's FSDP.

A stack of Dense layers under Adam, whose samples are few: what a worker holds is the weights, their gradients and the
optimizer's state. The most memory counts from what the process had before the model.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.comparison.bar_chart import Panel, bar_chart
from benchmarks.comparison.common_options import add_common, cores_of, folder_of, torch_of
from benchmarks.comparison.failure_section import exit_code, failure_section
from benchmarks.comparison.host_facts import describe, host_facts
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.other_work import OtherWork
from benchmarks.comparison.process_group import Command
from benchmarks.comparison.rounds import Processes, Record, run_rounds
from benchmarks.comparison.spread import Spread
from benchmarks.comparison.torch_python import TorchPython
from tfdist.text import format_count

SIZES = {"10M": (1024, 10), "100M": (2048, 24), "700M": (4096, 42)}
"""Name -> width and number of the layers."""

MODES = ("none", "zero1", "zero2", "zero3")
STEPS = 6

COLUMNS = {
    "weights stored": "stored",
    "optimizer's state": "state",
    "most while built": "building",
    "most in a step": "peak",
}
"""Heading -> what of a worker's line it shows, in MiB."""


@dataclass(frozen=True)
class Task:
    """What all contestants do.

    Attributes:
        size: A name of `SIZES`.
        workers: How many train it together.
        steps: Steps that are timed.
        cores: The cores of the machine to use.
        torch: The interpreter with PyTorch; None without one.
        train_options: Options for `tfdist train`.
    """

    size: str
    workers: int
    steps: int
    cores: tuple[int, ...]
    torch: TorchPython | None
    train_options: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of the programs that train."""
        width, layers = SIZES[self.size]
        return str(width), str(layers), str(self.steps)


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharding", description="Memory of each --shard.")
    parser.add_argument("sizes", nargs="*", help=f"{', '.join(SIZES)}; 10M")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps that are timed; {STEPS}")
    add_common(parser, workers="2", rounds=1, limit=600)
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.sizes) - set(SIZES)):
        parser.error(f"expected some of {', '.join(SIZES)}. Received: {', '.join(unknown)}")
    torch = torch_of(parser, options)
    folder, facts, others = folder_of(parser, "sharding", options), host_facts(), OtherWork()
    heading = ["# Memory of each mode of --shard", "", *describe(facts, torch and torch.facts)]
    heading += [f"Medians of {format_count(options.rounds, 'round')}, of the first worker, in MiB.", ""]
    print("\n".join([*heading, f"Results are written to {folder.path}", ""]), flush=True)
    host = {"host": facts, "torch": None if torch is None else torch.facts}
    found: dict[str, dict[str, Record]] = {}
    for workers in options.workers:
        for size in options.sizes or ["10M"]:
            task = Task(size, workers, options.steps, cores_of(options), torch, tuple(options.train_options))
            place = f"{size} parameters, {format_count(workers, 'worker')}"
            found[place] = run_rounds(contestants(task), options.rounds, options.limit, partial(_say, place))
            page = report([*heading, others.describe()], found)
            folder.write(page, picture(found), {**host, "runs": _figures(found), "others": others.cores()})
    print(f"\n{(folder.path / 'sharding.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code(found.values())


def contestants(task: Task) -> dict[str, Processes]:
    """Who trains, by name."""
    train: dict[str, Processes] = {mode: partial(_fit, task, mode) for mode in MODES}
    return train if task.torch is None else {**train, "FSDP": partial(_fsdp, task, task.torch)}


@contextlib.contextmanager
def _fit(task: Task, mode: str, folder: Path) -> Iterator[list[Command]]:
    shared = ("--nproc", str(task.workers), "--shard", mode, "--run-dir", str(folder / "run"))
    launcher = ("-m", "tfdist", "train", *shared)
    target = ("-m", "benchmarks.workers.sharded_fit", *task.arguments)
    yield [Command((sys.executable, *launcher, *task.train_options, *target), task.cores)]


@contextlib.contextmanager
def _fsdp(task: Task, torch: TorchPython, folder: Path) -> Iterator[list[Command]]:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(task.workers))
    command = (torch.path, *run, "-m", "benchmarks.workers.torch_fsdp", *task.arguments)
    yield [Command(command, task.cores, {"OMP_NUM_THREADS": "1"})]


def report(heading: Sequence[str], found: dict[str, dict[str, Record]]) -> str:
    """The page of Markdown: for each size a table by mode."""
    lines = list(heading)
    for place, records in found.items():
        rows = [["--shard", *COLUMNS, "seconds a step"]]
        for name, record in records.items():
            cells = [_in_mib(_spread(record, key)) for key in COLUMNS.values()]
            seconds = _spread(record, "seconds")
            rows.append([name, *cells, "failed" if seconds is None else str(seconds)])
        lines += ["", f"## {place}", "", *markdown_table(rows, "l" + "r" * (len(COLUMNS) + 1))]
    return "\n".join([*lines, *failure_section(found.items()), ""])


def picture(found: dict[str, dict[str, Record]]) -> str:
    """MiB of each worker at most, mode by mode."""
    panels = []
    for place, records in found.items():
        most = {name: _scaled(_spread(record, "peak")) for name, record in records.items()}
        panels.append(Panel(f"{place}: MiB at most in a step", {"": most}))
    return bar_chart("Memory of each mode of --shard", panels)


def _spread(record: Record, key: str) -> Spread | None:
    if record.failure is not None or not record.said:
        return None
    return Spread.of([said[0][key] for said in record.said])


def _scaled(spread: Spread | None) -> Spread | None:
    return spread and Spread(spread.median / 2**20, spread.low / 2**20, spread.high / 2**20)


def _in_mib(spread: Spread | None) -> str:
    return "failed" if spread is None else f"{spread.median / 2**20:,.0f}"


def _figures(found: dict[str, dict[str, Record]]) -> list[dict[str, Any]]:
    return [
        {"place": place, "mode": name, "failure": record.failure, "said": [said[0] for said in record.said]}
        for place, records in found.items()
        for name, record in records.items()
    ]


def _say(place: str, number: int, name: str, record: Record) -> None:
    came = f"failed. {record.failure}"
    if record.failure is None:
        said = record.said[-1][0]
        came = f"{said['peak'] / 2**20:,.0f} MiB at most, {said['seconds']:.2f} s a step"
    print(f"{place}, round {number + 1}: {name} {came}", flush=True)
