"""`python -m benchmarks all-reduce`: the sum of a gradient over the workers, alone, under each `--communication`.

Beside gloo, where there is a PyTorch. The ends of every sum are checked, and the last one of each size whole. A
round's figure is the median of its slowest worker.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from benchmarks.workers.all_reduce_spec import AllReduceSpec
from tfdist.cli.train import train
from tfdist.text import format_bytes, format_count

SIZES = {4_000: 300, 2_700_000: 50, 98_000_000: 7}
"""Bytes -> how often they are summed: a bias, and all gradients of `mlp` and of `wide`."""

_GPUS_ONLY = ("nccl",)


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks all-reduce", description="All-reduce alone.")
    parser.add_argument("--communication", type=_engines, default=engines(), help=f"{', '.join(engines())}; all")
    add_common(parser, workers="2", rounds=5, limit=600)
    options = parser.parse_args(arguments)
    if 1 in options.workers:
        parser.error("--workers: expected numbers from 2, as one worker has nobody to sum with. Received: 1")
    torch = torch_of(parser, options)
    folder = folder_of(parser, "all-reduce", options)
    facts, cores, others = host_facts(), cores_of(options), OtherWork()
    how = (
        "Milliseconds until a float32 vector is summed over the workers, each on a core of its own as far as there are "
        f"some (cores {', '.join(map(str, cores))}); medians of {format_count(options.rounds, 'round')} in turn, with "
        "the range."
    )
    heading = ["# All-reduce alone", "", *describe(facts, torch and torch.facts), how]
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    found: dict[int, dict[str, Record]] = {}
    for workers in options.workers:
        started = contestants(options.communication, workers, cores, options.limit, torch, options.train_options)
        found[workers] = run_rounds(started, options.rounds, options.limit, _say(workers, options.rounds))
        host = {"host": facts, "torch": None if torch is None else torch.facts, "cores": list(cores)}
        page = report([*heading, others.describe()], found)
        folder.write(page, picture(found), {**host, "others": others.cores(), "sums": _figures(found)})
    print(f"\n{(folder.path / 'all-reduce.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code(found.values())


def engines() -> tuple[str, ...]:
    """The values of `tfdist train --communication` that a CPU has."""
    (option,) = (parameter for parameter in train.params if parameter.name == "communication")
    return tuple(value for value in option.type.choices if value not in _GPUS_ONLY)


def contestants(
    communication: Sequence[str],
    workers: int,
    cores: tuple[int, ...],
    seconds: float,
    torch: TorchPython | None,
    train_options: Sequence[str],
) -> dict[str, Processes]:
    """Who sums, by name."""
    sizes = {str(size): times for size, times in SIZES.items()}
    spec = AllReduceSpec(workers, sizes, cores[:workers], seconds, "")
    started: dict[str, Processes] = {
        f"tfdist, {engine}": functools.partial(_tfdist, spec, ("--communication", engine, *train_options))
        for engine in communication
    }
    return started if torch is None else {**started, "gloo": functools.partial(_gloo, spec, torch.path)}


@contextlib.contextmanager
def _tfdist(spec: AllReduceSpec, options: tuple[str, ...], folder: Path) -> Iterator[list[Command]]:
    run = ("-m", "tfdist", "train", "--nproc", str(spec.workers), "--run-dir", str(folder / "run"), *options)
    target = ("-m", "benchmarks.workers.tensorflow_all_reduce", replace(spec, folder=str(folder)).argument())
    yield [Command((sys.executable, *run, *target), spec.cores)]


@contextlib.contextmanager
def _gloo(spec: AllReduceSpec, python: str, folder: Path) -> Iterator[list[Command]]:
    specs = [replace(spec, folder=str(folder), index=index) for index in range(spec.workers)]
    program = (python, "-m", "benchmarks.workers.torch_all_reduce")
    core = {each.index: (spec.cores[each.index % len(spec.cores)],) for each in specs}
    yield [Command((*program, each.argument()), core[each.index], {"OMP_NUM_THREADS": "1"}) for each in specs]


def report(heading: Sequence[str], found: dict[int, dict[str, Record]]) -> str:
    """The page of Markdown."""
    names = list(dict.fromkeys(name for records in found.values() for name in records))
    rows = [["size", "workers", *names]]
    for size in SIZES:
        for workers, records in found.items():
            cells = [_milliseconds(records[name], size) for name in names]
            rows.append([format_bytes(size), str(workers), *(str(cell or "failed") for cell in cells)])
    lines = [*heading, "", *markdown_table(rows, "r" * len(rows[0]))]
    lines += failure_section((format_count(workers, "worker"), records) for workers, records in found.items())
    return "\n".join([*lines, ""])


def picture(found: dict[int, dict[str, Record]]) -> str:
    """Milliseconds by the number of workers, a panel for each size."""
    panels = []
    for size in SIZES:
        groups = {
            format_count(workers, "worker"): {name: _milliseconds(record, size) for name, record in records.items()}
            for workers, records in found.items()
        }
        panels.append(Panel(f"{format_bytes(size)}: ms", groups))
    return bar_chart("All-reduce alone", panels)


def _milliseconds(record: Record, size: int) -> Spread | None:
    if record.failure is not None or not record.said:
        return None
    return Spread.of([1000 * max(process["seconds"][str(size)] for process in said) for said in record.said])


def _figures(found: dict[int, dict[str, Record]]) -> list[dict[str, Any]]:
    return [
        {"workers": workers, "contestant": name, "failure": record.failure, "said": record.said}
        for workers, records in found.items()
        for name, record in records.items()
    ]


def _engines(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(text.split(",")))
    if not set(chosen) <= set(engines()):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(engines())}. Received: {text!r}")
    return chosen


def _say(workers: int, rounds: int) -> Callable[[int, str, Record], None]:
    def say(number: int, name: str, record: Record) -> None:
        came = "done" if record.failure is None else f"failed. {record.failure}"
        print(f"{format_count(workers, 'worker')}, round {number + 1} of {rounds}: {name} {came}", flush=True)

    return say
