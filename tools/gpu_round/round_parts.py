"""The parts of a round, in the order of their worth."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.gpu_models import TrainingSpec
from tools.gpu_round.machine_options import Machine
from tools.gpu_round.part_runner import Part
from tools.gpu_round.result_readers import (
    read_benchmark,
    read_collectives,
    read_row_job,
    read_selftest,
    read_step,
    read_tests,
)
from tools.gpu_round.row_jobs import ROW_JOBS, RowJob

_TFDIST = (sys.executable, "-m", "tfdist")
SAMPLES = 225
"""In batches of 32, so that the last has one."""


@dataclass(frozen=True)
class RoundSize:
    """How large the parts are.

    Attributes:
        scale: What models and batches of benchmarks are divided by.
        windows: Windows that they time.
        megabytes: Of a large tensor that is exchanged.
        samples: Of a row.
        rows: How many rows of each job are run; None for all.
        selftest: The rows of `tfdist selftest`; all unless some are named.
    """

    scale: int = 1
    windows: int = 3
    megabytes: int = 100
    samples: int = SAMPLES
    rows: int | None = None
    selftest: tuple[str, ...] = ()


REHEARSED = RoundSize(scale=64, windows=1, megabytes=1, samples=65, rows=2, selftest=("xla",))
"""Small enough for CPUs."""


def together(machine: Machine, size: RoundSize) -> list[Part]:
    """The parts that run side by side: nothing in them is timed."""
    row_parts = [_row_part(job, machine, size) for job in ROW_JOBS]
    no_tests = "" if importlib.util.find_spec("pytest") is not None else "pytest is not installed"
    if machine.emulated:
        no_tests = "they need a GPU that is there"
    others = [
        Part("selftest", "`tfdist selftest`", functools.partial(_selftest, size, 150), read_selftest, 170, least=40),
        Part(
            "tests-gpu",
            "tests/gpu",
            lambda folder: (sys.executable, "-m", "pytest", "tests/gpu", "-v", "-p", "no:cacheprovider"),
            read_tests,
            200,
            least=30,
            absent=no_tests,
        ),
    ]
    return [*row_parts[:3], others[0], *row_parts[3:], others[1]]


def alone(machine: Machine, size: RoundSize) -> list[Part]:
    """The parts that run one after another, as they are timed."""
    benchmark = functools.partial(_benchmark_part, size)
    return [
        Part(
            "collectives",
            "`tfdist.all_reduce` and its kin of tensors on a GPU, two workers",
            functools.partial(_collectives, machine, size),
            read_collectives,
            60,
        ),
        benchmark("speed-mlp", "one,replicas", "mlp", seconds=120, least=40),
        benchmark("speed-transformer", "one,replicas", "transformer", seconds=220, least=90),
        _step_part(machine, size, "on"),
        _step_part(machine, size, "off"),
        benchmark("peers-mlp", "peers", "mlp", seconds=120, least=50),
        benchmark("peers-transformer", "peers", "transformer", seconds=220, least=90),
        benchmark("speed-resnet50", "one,replicas", "resnet50", seconds=400, least=120),
    ]


def chosen_rows(job: RowJob, size: RoundSize) -> tuple[str, ...]:
    """The rows of a job that a round of a size runs: on one device all that others are compared with."""
    if size.rows is None:
        return job.rows
    if job.layout != "one":
        return job.rows[: size.rows]
    jobs = [each for each in ROW_JOBS if each.layout != "one" and each.reference == job.name]
    return tuple(dict.fromkeys(row for each in jobs for row in each.rows[: size.rows]))


def _row_part(job: RowJob, machine: Machine, size: RoundSize) -> Part:
    seconds = 200 if job.name == job.reference else 150
    on_cpus = machine.emulated or not machine.gpus
    absent = "plain Keras compiles nothing on CPUs by itself" if job.layout == "plain" and on_cpus else ""
    command = functools.partial(_row_command, job, machine, size)
    return Part(job.name, job.about, command, read_row_job, seconds, absent=absent)


def _row_command(job: RowJob, machine: Machine, size: RoundSize, folder: Path) -> tuple[str, ...]:
    rows = (str(folder / "rows"), str(size.samples), str(job.whole), *chosen_rows(job, size))
    if job.layout == "plain":
        return ("env", "CUDA_VISIBLE_DEVICES=0", sys.executable, "-m", "tools.gpu_round.exact_rows", *rows)
    layout = {
        "one": machine.one,
        "workers": (*machine.workers, *machine.side_by_side),
        "replicas": (*machine.replicas, *machine.side_by_side),
    }[job.layout]
    train = ("train", "--run-dir", str(folder / "run"), *layout, *job.options, "--jit", job.jit, "--step-timeout", "60")
    return (*_TFDIST, *train, "-m", "tools.gpu_round.exact_rows", *rows)


def _selftest(size: RoundSize, seconds: float, folder: Path) -> tuple[str, ...]:
    rows = [argument for row in size.selftest for argument in ("--only", row)]
    return (*_TFDIST, "selftest", *rows, "--timeout", str(seconds), "--output", str(folder / "selftest"))


def _collectives(machine: Machine, size: RoundSize, folder: Path) -> tuple[str, ...]:
    train = ("train", "--quiet", "--run-dir", str(folder / "run"), *machine.workers)
    return (*_TFDIST, *train, "-m", "tools.gpu_round.gpu_collectives", str(size.megabytes))


def _benchmark_part(size: RoundSize, name: str, parts: str, model: str, *, seconds: float, least: float) -> Part:
    options = ("--parts", parts, "--models", model, "--pairs", "1", "--windows", str(size.windows))
    command = (sys.executable, "-m", "benchmarks", "gpu", *options, "--scale", str(size.scale))
    about = f"`python -m benchmarks gpu --parts {parts} --models {model}`"
    return Part(name, about, lambda folder: (*command, "--out", str(folder / "out")), read_benchmark, seconds, least)


def _step_part(machine: Machine, size: RoundSize, jit: str) -> Part:
    spec = TrainingSpec("mlp", size.scale, size.windows)
    target: Sequence[str] = ("-m", "benchmarks.workers.gpu_fit", spec.argument())
    return Part(
        f"step-jit-{jit}",
        f"two workers with --jit {jit}: their rate, and what their log says of XLA",
        lambda folder: (*_TFDIST, "train", "--run-dir", str(folder / "run"), *machine.workers, "--jit", jit, *target),
        read_step,
        80,
        least=25,
    )
