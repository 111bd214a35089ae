"""Options that the comparisons share."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping

from benchmarks.comparison.result_folder import ResultFolder
from benchmarks.comparison.torch_python import ABSENT, TorchPython, TorchPythonError, find_torch


def add_common(parser: argparse.ArgumentParser, *, workers: str, rounds: int, limit: float) -> None:
    """Adds them.

    Args:
        parser: Gets them.
        workers: The default of `--workers`.
        rounds: The default of `--rounds`.
        limit: The default of `--limit`.
    """
    parser.add_argument("--workers", type=positive_numbers, default=workers, help=f"numbers of them; {workers}")
    parser.add_argument("--rounds", type=positive, default=rounds, help=f"each contestant once in each; {rounds}")
    parser.add_argument(
        "--cores", type=core_numbers, default=None, help="worker I runs on the I-th of these; all that there are"
    )
    parser.add_argument("--torch-python", metavar="PATH", help="a Python that has PyTorch; this one if it does")
    parser.add_argument(
        "--train-options",
        type=shlex.split,
        default=[],
        metavar="TEXT",
        help='of tfdist train: --train-options="--communication ring"',
    )
    parser.add_argument("--limit", type=seconds, default=limit, help=f"seconds that a run may take; {limit:g}")
    parser.add_argument("--out", metavar="DIR", help="where the results are written; below build/benchmarks")


def cores_of(options: argparse.Namespace) -> tuple[int, ...]:
    """The cores to use."""
    return options.cores or tuple(sorted(os.sched_getaffinity(0)))


def torch_of(
    parser: argparse.ArgumentParser, options: argparse.Namespace, changed: Mapping[str, str | None] | None = None
) -> TorchPython | None:
    """The interpreter with PyTorch; says so where there is none. Exits where the one asked for does not do.

    Args:
        parser: Exits.
        options: Those of `add_common`.
        changed: Variables that it gets besides this process's; None for one that it does not get.
    """
    try:
        torch = find_torch(options.torch_python, changed or {})
    except TorchPythonError as error:
        parser.error(f"--torch-python: {error}")
    if torch is None:
        print(ABSENT, flush=True)
    return torch


def folder_of(parser: argparse.ArgumentParser, name: str, options: argparse.Namespace) -> ResultFolder:
    """The folder for the results. Exits where it holds some already, or cannot be made."""
    try:
        return ResultFolder(name, options.out)
    except OSError as error:
        parser.error(f"--out: {error}")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1. Received: {text!r}")
    return int(text)


def positive_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, each once: `1,2,4`."""
    return _each_once(tuple(positive(part) for part in text.split(",")), text)


def core_numbers(text: str) -> tuple[int, ...]:
    """Cores that this process may run on, each once: `0,1`."""
    there = sorted(os.sched_getaffinity(0))
    if not all(part.isascii() and part.isdigit() and int(part) in there for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected some of the cores {there}. Received: {text!r}")
    return _each_once(tuple(map(int, text.split(","))), text)


def seconds(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0. Received: {text!r}")
    return value


def _each_once(numbers: tuple[int, ...], text: str) -> tuple[int, ...]:
    if len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"expected each number once. Received: {text!r}")
    return numbers
