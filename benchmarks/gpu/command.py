"""`python -m benchmarks gpu`: trains three models on the GPUs at hand, in pairs, and says which goals are met.

Each trainer is a whole job that starts, trains and ends, once a pair. Where there is no GPU the same runs on CPUs, to
try the benchmark; its figures say nothing of a GPU then.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.comparison.common_options import folder_of, positive, seconds, torch_of
from benchmarks.comparison.failure_section import exit_code
from benchmarks.comparison.other_work import OtherWork
from benchmarks.comparison.result_folder import ResultFolder
from benchmarks.comparison.rounds import Record, run_rounds
from benchmarks.comparison.spread import digits
from benchmarks.gpu.card_facts import card_facts, describe
from benchmarks.gpu.gpu_models import MODELS, TrainingSpec
from benchmarks.gpu.speed_report import figures, goals, picture, rates, report, starts
from benchmarks.gpu.trainers import ABOUT, PARTS, Machine, has_jax, torch_environment, trainers
from tfdist.launch.gpus.usable_gpus import EMULATION_VARIABLE, GpuEmulation
from tfdist.text import format_count


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a trainer failed."""
    parser = _parser()
    options = parser.parse_args(arguments)
    torch = torch_of(parser, options, torch_environment(os.environ)) if "peers" in options.parts else None
    folder, facts = folder_of(parser, "gpu", options), card_facts()
    gpus = len(facts["gpus"])
    machine = Machine(gpus or _emulated(), torch, has_jax(), tuple(options.train_options))
    heading = _heading(options, machine, facts, who(options, machine))
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    cells: dict[str, dict[str, Record]] = {}
    wanted, others = goals(options.parts, shares=machine.shares), OtherWork()

    def write(model: str) -> Callable[[int, str, Record], None]:
        def say(number: int, name: str, record: Record) -> None:
            cells.setdefault(model, {})[name] = record
            print(_progress(model, number, options.pairs, name, record), flush=True)
            page = report([*heading, "", others.describe()], cells, wanted, on_gpu=gpus > 0)
            folder.write(page, picture(cells), {"machine": facts, "others": others.cores(), "runs": figures(cells)})

        return say

    deadline = time.monotonic() + options.seconds
    for model in options.models:
        limit = min(options.limit, deadline - time.monotonic())
        if limit <= 0:
            print(f"{model} was not run: --seconds {options.seconds:g} are over.", flush=True)
            continue
        spec = TrainingSpec(model, options.scale, options.windows, seconds=limit)
        run_rounds(trainers(machine, spec, tuple(options.parts)), options.pairs, limit, write(model))
    _print_page(folder)
    return exit_code(cells.values())


def who(options: argparse.Namespace, machine: Machine) -> list[str]:
    """The names of all that take part with some model."""
    made = [trainers(machine, TrainingSpec(model), tuple(options.parts)) for model in options.models]
    return [name for name in ABOUT if any(name in each for each in made)]


def _emulated() -> int:
    """How many GPUs are emulated on CPUs."""
    return GpuEmulation.parse(os.environ.get(EMULATION_VARIABLE, "")).count or 0


def _print_page(folder: ResultFolder) -> None:
    page = folder.path / "gpu.md"
    if page.exists():
        print(f"\n{page.read_text()}\nWritten to {folder.path}/gpu.md, .svg and .json", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description="Training on a GPU.")
    parser.add_argument("--parts", type=_some_of(PARTS), default=tuple(PARTS), help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--models", type=_some_of(MODELS), default=MODELS, help=f"of {', '.join(MODELS)}; all")
    parser.add_argument("--pairs", type=positive, default=3, help="how often each trains, in turn; 3")
    parser.add_argument("--windows", type=positive, default=3, help="of steps that are timed in each, in a row; 3")
    parser.add_argument("--scale", type=positive, default=1, help="makes models and batches so many times smaller; 1")
    parser.add_argument("--torch-python", metavar="PATH", help="a Python that has PyTorch; this one if it does")
    parser.add_argument("--train-options", type=str.split, default=[], metavar="TEXT", help="of tfdist train")
    parser.add_argument("--limit", type=seconds, default=300.0, help="seconds that each may take; 300")
    parser.add_argument("--seconds", type=seconds, default=86400.0, help="after which no other model begins; a day")
    parser.add_argument("--out", metavar="DIR", help="where the results are written; below build/benchmarks")
    return parser


def _some_of(names: Sequence[str] | Mapping[str, Any]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        given = tuple(dict.fromkeys(text.split(",")))
        if not set(given) <= set(names):
            raise argparse.ArgumentTypeError(f"expected some of {','.join(names)}. Received: {text!r}")
        return given

    return parse


def _heading(
    options: argparse.Namespace, machine: Machine, facts: Mapping[str, Any], names: Sequence[str]
) -> list[str]:
    emulated = os.environ.get(EMULATION_VARIABLE)
    lines = ["# Training on a GPU", "", *describe(facts)]
    if machine.torch is not None:
        lines.append(f"PyTorch {machine.torch.facts['torch']}.")
    if machine.shares:
        lines.append("Two replicas, and two workers, share the one GPU.")
    if emulated:
        lines.append(f"GPUs are emulated on CPUs: {emulated}.")
    if options.scale > 1:
        lines.append(f"Models and batches are {options.scale} times smaller than those that goals are for.")
    lines.append(f"Medians of {format_count(options.pairs, 'round')} in turn, with the range.")
    return [*lines, "", *(f"- {name}: {ABOUT[name]}" for name in names)]


def _progress(model: str, number: int, pairs: int, name: str, record: Record) -> str:
    place = f"{model}, round {number + 1} of {pairs}: {name}"
    if record.failure is not None:
        return f"{place} failed. {record.failure}"
    return f"{place} {digits(rates(record)[-1])} steps/s, first step after {digits(starts(record)[-1])} s"
