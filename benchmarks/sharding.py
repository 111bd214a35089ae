"""`python -m benchmarks sharding`, `tensor` and `context`: memory, steps and losses of what workers have in parts.

`sharding` compares the modes of `--shard` and PyTorch's FSDP; `tensor` compares `--tensor`, `zero3` and PyTorch's
tensor parallelism; `context` compares `--context`, alone and with `zero3`, and `--tensor`. All train under Adam. The
most memory counts from what the process had before the model.
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
from benchmarks.comparison.spread import Spread, ratios
from benchmarks.comparison.torch_python import TorchPython
from benchmarks.workers.sharded_names import GPT2, NAMES, STACKS
from tfdist.text import format_count

ONE, STEPS = "one-device", 6

COLUMNS = {
    "weights stored": "stored",
    "optimizer's state": "state",
    "most while built": "building",
    "most in a step": "peak",
}
"""Heading -> what of a worker's line it shows, in MiB."""


@dataclass(frozen=True)
class Comparison:
    """Who is compared.

    Attributes:
        name: Of the command.
        title: What is compared.
        models: Names of `sharded_models` that it takes, the default first.
        ways: Name of a contestant -> options of `tfdist train`; the last one's steps a second are divided by those of
            the others.
        torch: The name of PyTorch's contestant, what `torch_sharded` calls it, and the models that it trains; None
            without one.
    """

    name: str
    title: str
    models: tuple[str, ...]
    ways: dict[str, tuple[str, ...]]
    torch: tuple[str, str, tuple[str, ...]] | None = None

    @property
    def contestants(self) -> tuple[str, ...]:
        """All names."""
        return (ONE, *self.ways, *(self.torch or ())[:1])

    @property
    def subject(self) -> str:
        """The contestant whose speed is divided by that of the others."""
        return list(self.ways)[-1]


SHARDING = Comparison(
    "sharding",
    "Memory of each mode of --shard",
    NAMES,
    {mode: ("--shard", mode) for mode in ("none", "zero1", "zero2", "zero3")},
    ("FSDP", "fsdp", (*STACKS, "blocks", "small-blocks")),
)
TENSOR = Comparison(
    "tensor",
    "Tensor parallelism",
    ("blocks", "small-blocks", GPT2),
    {"zero3": ("--shard", "zero3"), "tensor": ("--tensor", "{workers}")},
    ("torch-tensor", "tensor", ("blocks", "small-blocks")),
)
CONTEXT = Comparison(
    "context",
    "Context parallelism",
    ("long-blocks", "small-blocks"),
    {
        "zero3": ("--shard", "zero3"),
        "tensor": ("--tensor", "{workers}"),
        "context-zero3": ("--context", "{workers}", "--shard", "zero3"),
        "context": ("--context", "{workers}"),
    },
)


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


def main(comparison: Comparison, arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {comparison.name}", description=comparison.title)
    default, *_ = names = comparison.models
    parser.add_argument("models", nargs="*", help=f"{', '.join(names)}, which takes KerasHub; {default}")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps that are timed; {STEPS}")
    add_common(parser, workers="2", rounds=1, limit=600)
    every = comparison.contestants
    parser.add_argument("--contestants", metavar="LIST", type=lambda text: text.split(","), default=every,
                        help=f"of {','.join(every)}")  # fmt: skip
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.contestants) - set(every)):
        parser.error(f"--contestants: expected some of {','.join(every)}. Received: {', '.join(unknown)}")
    if unknown := sorted(set(options.models) - set(names)):
        parser.error(f"expected some of {', '.join(names)}. Received: {', '.join(unknown)}")
    torch = torch_of(parser, options)
    folder, facts, others = folder_of(parser, comparison.name, options), host_facts(), OtherWork()
    heading = [f"# {comparison.title}", "", *describe(facts, torch and torch.facts)]
    heading += [f"Medians of {format_count(options.rounds, 'round')}, of the first worker, in MiB.", ""]
    print("\n".join([*heading, f"Results are written to {folder.path}", ""]), flush=True)
    host = {"host": facts, "torch": None if torch is None else torch.facts}
    found: dict[str, dict[str, Record]] = {}
    for workers in options.workers:
        for model in options.models or [default]:
            task = Task(model, workers, options.steps, cores_of(options), torch, tuple(options.train_options))
            place = f"{_shown(model)}, {format_count(workers, 'worker')}"
            chosen = {name: each for name, each in contestants(comparison, task).items() if name in options.contestants}
            found[place] = run_rounds(chosen, options.rounds, options.limit, partial(_say, place))
            page = report(comparison, [*heading, others.describe()], found)
            folder.write(page, picture(comparison, found), {**host, "runs": _figures(found), "others": others.cores()})
    print(f"\n{(folder.path / f'{comparison.name}.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code(found.values())


def contestants(comparison: Comparison, task: Task) -> dict[str, Processes]:
    """Who trains, by name."""
    train: dict[str, Processes] = {ONE: partial(_fit, task, 1, ())}
    train |= {name: partial(_fit, task, task.workers, options) for name, options in comparison.ways.items()}
    if comparison.torch is None or task.torch is None or task.model not in comparison.torch[2]:
        return train
    name, way, _ = comparison.torch
    return {**train, name: partial(_torch, task, task.torch, way)}


def _shown(model: str) -> str:
    return f"{model} parameters" if model in STACKS else model


@contextlib.contextmanager
def _fit(task: Task, workers: int, options: Sequence[str], folder: Path) -> Iterator[list[Command]]:
    way = (option.format(workers=workers) for option in options)
    shared = ("--nproc", str(workers), *way, "--run-dir", str(folder / "run"))
    launcher = ("-m", "tfdist", "train", *shared)
    target = ("-m", "benchmarks.workers.sharded_fit", task.model, str(task.steps))
    yield [Command((sys.executable, *launcher, *task.train_options, *target), task.cores)]


@contextlib.contextmanager
def _torch(task: Task, torch: TorchPython, way: str, folder: Path) -> Iterator[list[Command]]:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(task.workers))
    command = (torch.path, *run, "-m", "benchmarks.workers.torch_sharded", way, task.model, str(task.steps))
    yield [Command(command, task.cores, {"OMP_NUM_THREADS": "1"})]


def report(comparison: Comparison, heading: Sequence[str], found: dict[str, dict[str, Record]]) -> str:
    """The page of Markdown: for each model a table of the contestants."""
    lines = list(heading)
    for place, records in found.items():
        subject = comparison.subject
        rows = [["", *COLUMNS, "steps a second", f"{subject} / it", "loss is off by"]]
        for name, record in records.items():
            cells = [_in_mib(_spread(record, key)) for key in COLUMNS.values()]
            cells.append(str(Spread.of(_rates(record))) if _rates(record) else "failed")
            rows.append([name, *cells, _ratio(records.get(subject), record), _off(record, records.get(ONE))])
        lines += ["", f"## {place}", "", *markdown_table(rows, "l" + "r" * (len(COLUMNS) + 3))]
    return "\n".join([*lines, *failure_section(found.items()), ""])


def picture(comparison: Comparison, found: dict[str, dict[str, Record]]) -> str:
    """MiB of a worker at most, contestant by contestant."""
    panels = []
    for place, records in found.items():
        most = {name: _scaled(_spread(record, "peak")) for name, record in records.items()}
        panels.append(Panel(f"{place}: MiB at most in a step", {"": most}))
    return bar_chart(comparison.title, panels)


def _spread(record: Record, key: str) -> Spread | None:
    if record.failure is not None or not record.said:
        return None
    return Spread.of([said[0][key] for said in record.said])


def _rates(record: Record) -> list[float]:
    """Steps a second, round by round; none where it failed."""
    return [] if record.failure is not None else [1 / said[0]["seconds"] for said in record.said]


def _ratio(subject: Record | None, record: Record) -> str:
    if subject is None or not (_rates(subject) and _rates(record)):
        return ""
    return str(Spread.of(ratios(_rates(subject), _rates(record))))


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
