"""`python -m benchmarks sharding`: memory, steps and losses in each mode of `--shard`, beside PyTorch's FSDP.

Stacks of Dense layers and KerasHub's GPT-2 under Adam, whose samples are few: what a worker holds is the weights, their
gradients and the optimizer's state. The most memory counts from what the process had before the model.
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
from benchmarks.workers.sharded_names import NAMES, STACKS
from tfdist.text import format_count

ONE, MODES, FSDP = "one-device", ("none", "zero1", "zero2", "zero3"), "FSDP"
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
        model: A name of `sharded_models`.
        workers: How many train it together.
        steps: Steps that are timed.
        cores: The cores of the machine to use.
        torch: The interpreter with PyTorch; None without one.
        train_options: Options for `tfdist train`.
    """

    model: str
    workers: int
    steps: int
    cores: tuple[int, ...]
    torch: TorchPython | None
    train_options: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharding", description="Memory of each --shard.")
    parser.add_argument("models", nargs="*", help=f"{', '.join(NAMES)}, which takes KerasHub; 10M")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps that are timed; {STEPS}")
    add_common(parser, workers="2", rounds=1, limit=600)
    every = (ONE, *MODES, FSDP)
    parser.add_argument("--contestants", metavar="LIST", type=lambda text: text.split(","), default=every,
                        help=f"of {','.join(every)}")  # fmt: skip
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.contestants) - set(every)):
        parser.error(f"--contestants: expected some of {','.join(every)}. Received: {', '.join(unknown)}")
    if unknown := sorted(set(options.models) - set(NAMES)):
        parser.error(f"expected some of {', '.join(NAMES)}. Received: {', '.join(unknown)}")
    torch = torch_of(parser, options)
    folder, facts, others = folder_of(parser, "sharding", options), host_facts(), OtherWork()
    heading = ["# Memory of each mode of --shard", "", *describe(facts, torch and torch.facts)]
    heading += [f"Medians of {format_count(options.rounds, 'round')}, of the first worker, in MiB.", ""]
    print("\n".join([*heading, f"Results are written to {folder.path}", ""]), flush=True)
    host = {"host": facts, "torch": None if torch is None else torch.facts}
    found: dict[str, dict[str, Record]] = {}
    for workers in options.workers:
        for model in options.models or ["10M"]:
            task = Task(model, workers, options.steps, cores_of(options), torch, tuple(options.train_options))
            place = f"{_shown(model)}, {format_count(workers, 'worker')}"
            chosen = {name: each for name, each in contestants(task).items() if name in options.contestants}
            found[place] = run_rounds(chosen, options.rounds, options.limit, partial(_say, place))
            page = report([*heading, others.describe()], found)
            folder.write(page, picture(found), {**host, "runs": _figures(found), "others": others.cores()})
    print(f"\n{(folder.path / 'sharding.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code(found.values())


def contestants(task: Task) -> dict[str, Processes]:
    """Who trains, by name."""
    train: dict[str, Processes] = {ONE: partial(_fit, task, 1, "none")}
    train |= {mode: partial(_fit, task, task.workers, mode) for mode in MODES}
    if task.torch is None or task.model not in STACKS:
        return train
    return {**train, FSDP: partial(_fsdp, task, task.torch)}


def _shown(model: str) -> str:
    return f"{model} parameters" if model in STACKS else model


@contextlib.contextmanager
def _fit(task: Task, workers: int, mode: str, folder: Path) -> Iterator[list[Command]]:
    shared = ("--nproc", str(workers), "--shard", mode, "--run-dir", str(folder / "run"))
    launcher = ("-m", "tfdist", "train", *shared)
    target = ("-m", "benchmarks.workers.sharded_fit", task.model, str(task.steps))
    yield [Command((sys.executable, *launcher, *task.train_options, *target), task.cores)]


@contextlib.contextmanager
def _fsdp(task: Task, torch: TorchPython, folder: Path) -> Iterator[list[Command]]:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(task.workers))
    stack = map(str, STACKS[task.model])
    command = (torch.path, *run, "-m", "benchmarks.workers.torch_fsdp", *stack, str(task.steps))
    yield [Command(command, task.cores, {"OMP_NUM_THREADS": "1"})]


def report(heading: Sequence[str], found: dict[str, dict[str, Record]]) -> str:
    """The page of Markdown: for each size a table by mode."""
    lines = list(heading)
    for place, records in found.items():
        rows = [["--shard", *COLUMNS, "seconds a step", "loss is off by"]]
        for name, record in records.items():
            cells = [_in_mib(_spread(record, key)) for key in COLUMNS.values()]
            seconds = _spread(record, "seconds")
            rows.append([name, *cells, "failed" if seconds is None else str(seconds), _off(record, records.get(ONE))])
        lines += ["", f"## {place}", "", *markdown_table(rows, "l" + "r" * (len(COLUMNS) + 2))]
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


def _off(record: Record, one: Record | None) -> str:
    """How far the losses are from those of one device at most, as a part of them; PyTorch's weights are others."""
    if one is None or record.failure is not None or one.failure is not None or not (record.said and one.said):
        return ""
    pairs = [(said[0].get("losses"), alone[0]["losses"]) for said, alone in zip(record.said, one.said, strict=True)]
    off = [abs(a - b) / b for losses, right in pairs if losses for a, b in zip(losses, right, strict=True)]
    return f"{max(off):.0e}" if off else ""


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
