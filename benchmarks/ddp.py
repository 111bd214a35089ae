"""`python -m benchmarks ddp`: `fit` under tfdist beside PyTorch DDP, a hand-written TensorFlow loop, and a ceiling.

Every contestant trains the same models on the same batches in memory, with a core and a thread for each worker. Nothing
is installed: PyTorch takes part where there is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.comparison.common_options import add_common, cores_of, folder_of, positive, torch_of
from benchmarks.comparison.contestants import ABOUT, Contestant, Task
from benchmarks.comparison.core_distance import CoreDistance
from benchmarks.comparison.failure_section import exit_code
from benchmarks.comparison.host_facts import describe, host_facts, starts_with_onednn
from benchmarks.comparison.other_work import OtherWork
from benchmarks.comparison.result_folder import ResultFolder
from benchmarks.comparison.rounds import Record, run_rounds
from benchmarks.comparison.torch_python import ABSENT, TorchPython
from benchmarks.comparison.training_report import Cell, picture, progress, report
from benchmarks.model_sizes import BATCH, SIZES
from tfdist.text import format_count

_STEPS = {"mlp": 400, "wide": 30, "cnn": 60, "transformer": 60, "embedding": 100}


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    uneven = [workers for workers in options.workers if BATCH % workers]
    if uneven:
        parser.error(f"--workers: expected numbers that divide the global batch of {BATCH}. Received: {uneven[0]}")
    torch = torch_of(parser, options)
    if options.contestants is None:
        contestants = _defaults(torch)
    elif torch is None and any(contestant.kind == "ddp" for contestant in options.contestants):
        parser.error(f"--contestants: ddp needs PyTorch. {ABSENT}")
    else:
        contestants = options.contestants
    folder = folder_of(parser, "ddp", options)
    cells = _run(options, contestants, torch, folder)
    print(f"\n{(folder.path / 'ddp.md').read_text()}\nWritten to {folder.path}/ddp.md, .svg and .json", flush=True)
    return exit_code(cell.records for cell in cells)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks ddp", description="Training beside PyTorch DDP.")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(SIZES)}; all of them", type=_model)
    add_common(parser, workers="1,2", rounds=5, limit=900)
    parser.add_argument(
        "--contestants",
        type=_contestants,
        metavar="LIST",
        help=f"of {', '.join(ABOUT)}, with +onednn or +eigen for TensorFlow's kernels; the first is compared with each",
    )
    parser.add_argument("--steps", type=positive, help="steps that are timed; by the model")
    return parser


def _model(text: str) -> str:
    if text not in SIZES:
        raise argparse.ArgumentTypeError(f"expected models of {', '.join(SIZES)}. Received: {text!r}")
    return text


def _contestants(text: str) -> list[Contestant]:
    try:
        return [Contestant(name) for name in dict.fromkeys(text.split(","))]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _defaults(torch: TorchPython | None) -> list[Contestant]:
    """The ceiling is measured with oneDNN, too, where TensorFlow leaves it off by itself."""
    names = [name for name in ABOUT if name != "ddp" or torch is not None]
    return [Contestant(name) for name in [*names, *([] if starts_with_onednn() else ["apart+onednn"])]]


def _run(
    options: argparse.Namespace, contestants: list[Contestant], torch: TorchPython | None, folder: ResultFolder
) -> list[Cell]:
    facts, cores, cells, others = host_facts(), cores_of(options), [], OtherWork()
    distance = CoreDistance(cores)
    heading = _heading(options, contestants, cores, describe(facts, torch and torch.facts))
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    for workers in options.workers:
        for model in options.models or SIZES:
            steps = options.steps or _STEPS[model]
            train = tuple(options.train_options)
            task = Task(model, workers, steps, BATCH, cores, options.limit, torch, train)
            cell = _run_cell(contestants, task, options.rounds, distance)
            cells.append(cell)
            figures = _figures(facts, torch, options, cores, cells)
            page = report([*heading, f"{others.describe()} {distance.describe()}".strip(), ""], cells)
            noise = {"others": others.cores(), "write_microseconds": distance.microseconds}
            folder.write(page, picture(cells), {**figures, **noise})
    return cells


def _run_cell(contestants: list[Contestant], task: Task, rounds: int, distance: CoreDistance) -> Cell:
    place = f"{task.model}, {format_count(task.workers, 'worker')}"

    def say(number: int, name: str, record: Record) -> None:
        print(progress(place, number, rounds, name, record), flush=True)
        distance.measure()

    processes = {contestant.name: partial(contestant.processes, task) for contestant in contestants}
    cell = Cell(task.model, task.workers, task.steps, run_rounds(processes, rounds, task.seconds, say))
    cell.check_same_work()
    cell.check_kernels({each.name: each.onednn for each in contestants if each.onednn is not None})
    return cell


def _heading(
    options: argparse.Namespace, contestants: list[Contestant], cores: tuple[int, ...], facts: list[str]
) -> list[str]:
    about = [f"- {contestant.name}: {ABOUT[contestant.kind]}" for contestant in contestants]
    asked = f" tfdist train {' '.join(options.train_options)}." if options.train_options else ""
    how = (
        f"Global batch {BATCH}, a core and a thread a worker (cores {', '.join(map(str, cores))}); medians of "
        f"{format_count(options.rounds, 'round')} in turn, with the range.{asked}"
    )
    return ["# Training on CPUs", "", *facts, how, "", *about, ""]


def _figures(
    facts: dict[str, Any],
    torch: TorchPython | None,
    options: argparse.Namespace,
    cores: tuple[int, ...],
    cells: list[Cell],
) -> dict[str, Any]:
    return {
        "host": facts,
        "torch": None if torch is None else torch.facts,
        "cores": list(cores),
        "global_batch": BATCH,
        "rounds": options.rounds,
        "train_options": options.train_options,
        "cells": [cell.figures() for cell in cells],
    }
