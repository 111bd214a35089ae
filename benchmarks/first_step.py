"""`python -m benchmarks first-step`: time to the first step, phase by phase, beside torchrun.

From the start of the launcher to the end of the first step of its first worker, on one model and some workers. `fit`
under `tfdist train` without and with XLA, a hand-written TensorFlow loop that nothing launches, and PyTorch's DDP under
torchrun, where there is a PyTorch.
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
from benchmarks.comparison.contestants import Contestant, Task
from benchmarks.comparison.failure_section import exit_code, failure_section
from benchmarks.comparison.host_facts import describe, host_facts
from benchmarks.comparison.markdown_table import markdown_table
from benchmarks.comparison.other_work import OtherWork
from benchmarks.comparison.process_group import Command
from benchmarks.comparison.rounds import Processes, Record, run_rounds
from benchmarks.comparison.spread import Spread, digits
from benchmarks.model_sizes import BATCH, SIZES
from benchmarks.workers.loop_spec import LoopSpec
from tfdist.rundir import RunDir, ledger_lines
from tfdist.text import format_count

PHASES = {
    "launcher": "from the command to the start of the first worker's process",
    "imports": "the interpreter, the framework, and what sets it up",
    "meeting": "until the workers have found one another",
    "model": "building it, its optimizer and the data",
    "first step": "tracing, compiling where XLA does, and the step itself",
    "all": "from the command to the end of the first step",
    "second step": "what a step takes when all of that is done",
}


_IMPORTS = {
    "python": "",
    "numpy": "import numpy; ",
    "tensorflow": "import tensorflow; ",
    "tensorflow and keras": "import tensorflow, keras; ",
}


def phases(said: dict[str, Any]) -> dict[str, float]:
    """Seconds of each of `PHASES`.

    Args:
        said: `started`, when the command was started, `moments`, what its first worker noted, see `Moments`, and
            `forming`, the seconds in which the workers found one another, where it has not noted that.
    """
    begun, moments = said["started"], said["moments"]
    at = {"imported": moments["met"] - said.get("forming", 0.0), **moments}
    ends = [at[name] for name in ("process", "imported", "met", "built", "stepped")]
    # When a process was started is known to a hundredth of a second.
    parts = [max(0.0, end - begin) for begin, end in zip([begun, *ends], ends, strict=False)]
    return dict(zip(PHASES, [*parts, at["stepped"] - begun, at["again"] - at["stepped"]], strict=True))


def main(arguments: Sequence[str]) -> int:
    """Measures, prints and writes; the exit code is 1 if a contestant failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks first-step", description="Time to the first step.")
    parser.add_argument("model", nargs="?", choices=sorted(SIZES), default="mlp")
    add_common(parser, workers="1,2", rounds=3, limit=600)
    options = parser.parse_args(arguments)
    torch = torch_of(parser, options)
    folder = folder_of(parser, "first-step", options)
    facts, cores, others = host_facts(), cores_of(options), OtherWork()
    how = f"{options.model}; medians of {format_count(options.rounds, 'round')} in turn, in seconds, with the range."
    heading = ["# Time to the first step", "", *describe(facts, torch and torch.facts), how, ""]
    heading += [f"- {name}: {what}" for name, what in PHASES.items()]
    print("\n".join([*heading, "", f"Results are written to {folder.path}", ""]), flush=True)
    host = {"host": facts, "torch": None if torch is None else torch.facts, "model": options.model}
    task = Task(options.model, 1, 1, BATCH, cores, options.limit, torch, tuple(options.train_options))
    alone = run_rounds(imports(task), options.rounds, options.limit, lambda number, name, record: None)
    found: dict[int, dict[str, Record]] = {}
    for workers in options.workers:
        started = contestants(replace(task, workers=workers))
        found[workers] = run_rounds(started, options.rounds, options.limit, _say(workers, options.rounds))
        figures = {**host, "starts": _figures(found), "imports": {name: _seconds(alone[name]) for name in alone}}
        page = report([*heading, "", others.describe()], found, alone)
        folder.write(page, picture(found), {**figures, "others": others.cores()})
    print(f"\n{(folder.path / 'first-step.md').read_text()}\nWritten to {folder.path}", flush=True)
    return exit_code((alone, *found.values()))


def contestants(task: Task) -> dict[str, Processes]:
    """Who starts, by name."""
    starts = {
        "tfdist": functools.partial(_fit, task, ()),
        "tfdist, XLA": functools.partial(_fit, task, ("--xla",)),
        "tensorflow": functools.partial(Contestant("tensorflow").processes, task),
    }
    return starts if task.torch is None else {**starts, "torchrun": functools.partial(_torchrun, task)}


def imports(task: Task) -> dict[str, Processes]:
    """Processes that import and do no more, by what they import; the interpreter alone is the first."""
    done = "import json, time; print(json.dumps({'done': time.time()}))"
    codes = {name: (sys.executable, "-c", f"{code}{done}") for name, code in _IMPORTS.items()}
    if task.torch is not None:
        codes["torch"] = (task.torch.path, "-c", f"import torch, torch.distributed, torch.optim; {done}")
    return {name: functools.partial(_alone, task, command) for name, command in codes.items()}


@contextlib.contextmanager
def _alone(task: Task, command: tuple[str, ...], folder: Path) -> Iterator[list[Command]]:
    yield [Command(command, task.cores[:1], {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"})]


@contextlib.contextmanager
def _fit(task: Task, options: tuple[str, ...], folder: Path) -> Iterator[list[Command]]:
    train = ("-m", "tfdist", "train", "--nproc", str(task.workers), "--run-dir", str(folder / "run"))
    target = ("-m", "benchmarks.workers.first_fit", task.model, ",".join(map(str, task.used_cores)), *options)
    command = (sys.executable, *train, *task.train_options, *target)
    yield [Command(command, task.used_cores, afterwards=lambda: {"forming": _forming(RunDir(folder / "run"))})]


def _forming(run: RunDir) -> float:
    """Seconds in which the workers found one another, as the chief has noted them."""
    entries = ledger_lines.read_ledger(run.ledger_file).entries
    intervals = [entry for entry in entries if isinstance(entry, ledger_lines.LedgerInterval)]
    return sum(interval.seconds.get(ledger_lines.TimeKind.FORMING, 0.0) for interval in intervals)


@contextlib.contextmanager
def _torchrun(task: Task, folder: Path) -> Iterator[list[Command]]:
    assert task.torch is not None
    # Each worker finds its own place and core.
    spec = LoopSpec(task.model, task.workers, 0, 1, task.batch, task.seconds, str(folder))
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(task.workers))
    command = (task.torch.path, *run, "-m", "benchmarks.workers.torch_loop", spec.argument())
    yield [Command(command, task.used_cores, {"OMP_NUM_THREADS": "1"})]


def report(heading: Sequence[str], found: dict[int, dict[str, Record]], alone: dict[str, Record]) -> str:
    """The page of Markdown: for each number of workers a table by phase, and before them what imports take alone."""
    lines = [*heading, "", "## Imports alone, with the interpreter", ""]
    rows = [["imported", "seconds"]]
    rows += [[name, _in_hundredths(_spread(_seconds(record)))] for name, record in alone.items()]
    lines += markdown_table(rows, "lr")
    for workers, records in found.items():
        spreads = {name: _spreads(record) for name, record in records.items()}
        rows = [["phase", *records]]
        rows += [
            [phase, *(_in_hundredths(spread and spread[phase]) for spread in spreads.values())] for phase in PHASES
        ]
        lines += ["", f"## {format_count(workers, 'worker')}", "", *markdown_table(rows, "l" + "r" * len(records))]
    places = [("imports", alone), *((format_count(workers, "worker"), records) for workers, records in found.items())]
    lines += failure_section(places)
    return "\n".join([*lines, ""])


def picture(found: dict[int, dict[str, Record]]) -> str:
    """Seconds of each phase, contestant by contestant."""
    panels = []
    for workers, records in found.items():
        spreads = {name: _spreads(record) for name, record in records.items()}
        groups = {phase: {name: spread and spread[phase] for name, spread in spreads.items()} for phase in PHASES}
        panels.append(Panel(f"{format_count(workers, 'worker')}: seconds", groups))
    return bar_chart("Time to the first step", panels)


def _spreads(record: Record) -> dict[str, Spread] | None:
    """The spread of each phase; None if the contestant failed."""
    if record.failure is not None or not record.said:
        return None
    starts = [phases(said[0]) for said in record.said]
    return {phase: Spread.of([start[phase] for start in starts]) for phase in PHASES}


def _seconds(record: Record) -> list[float] | None:
    """Seconds from the start of a process that imports to its end, round by round; None if it failed."""
    return None if record.failure is not None else [said[0]["done"] - said[0]["started"] for said in record.said]


def _spread(values: Sequence[float] | None) -> Spread | None:
    return None if values is None else Spread.of(values)


def _in_hundredths(spread: Spread | None) -> str:
    return "failed" if spread is None else f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"


def _figures(found: dict[int, dict[str, Record]]) -> list[dict[str, Any]]:
    return [
        {
            "workers": workers,
            "contestant": name,
            "failure": record.failure,
            "phases": [phases(s[0]) for s in record.said],
        }
        for workers, records in found.items()
        for name, record in records.items()
    ]


def _say(workers: int, rounds: int) -> Callable[[int, str, Record], None]:
    def say(number: int, name: str, record: Record) -> None:
        came = (
            f"{digits(phases(record.said[-1][0])['all'])} s" if record.failure is None else f"failed. {record.failure}"
        )
        print(f"{format_count(workers, 'worker')}, round {number + 1} of {rounds}: {name} {came}", flush=True)

    return say
