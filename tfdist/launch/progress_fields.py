"""Fields of a progress line: each puts one fact of a `RunProgress` into a few words; empty where it is not known."""

from __future__ import annotations

from tfdist.launch.run_progress import RunProgress
from tfdist.rundir.state_records import State
from tfdist.text import format_bytes, format_countdown, printable

MUCH = 0.05
"""The share of the steps' time from which a wait for data is shown."""


def epoch(progress: RunProgress) -> str:
    """`epoch  3/10`."""
    return f"epoch {progress.epoch + 1:{len(str(progress.epochs))}}/{progress.epochs}"


def steps(progress: RunProgress) -> str:
    """`120/469`, or `120` where the size of an epoch is not known."""
    if progress.steps is None:
        return f"{progress.step}"
    return f"{progress.step:{len(str(progress.steps))}}/{progress.steps}"


def doing(progress: RunProgress) -> str:
    """Returns what it does, where that is no step."""
    match progress.state:
        case State.COMPILING:
            return "compiling"
        case State.EVALUATING:
            of = "" if progress.validation_steps is None else f"/{progress.validation_steps}"
            return f"validating {progress.validated}{of}"
        case State.SAVING:
            return "saving"
        case State.CALLBACK:
            return "in callbacks"
    return ""


def rate(progress: RunProgress) -> str:
    """`8,412 samples/s`."""
    digits = 0 if progress.rate >= 100 else 1
    return f"{progress.rate:,.{digits}f} samples/s" if progress.rate else ""


def left(progress: RunProgress) -> str:
    """`0:12 left, run 4:05`: of the epoch and of the run; in the last epoch both are the same."""
    if progress.epoch_left is None:
        return ""
    epoch_left = f"{format_countdown(progress.epoch_left)} left"
    if progress.run_left is None or progress.epoch + 1 >= progress.epochs:
        return epoch_left
    return f"{epoch_left}, run {format_countdown(progress.run_left)}"


def metrics(progress: RunProgress) -> list[str]:
    """`loss 0.1234`, `accuracy 0.9812`."""
    return [printable(f"{name} {value}") for name, value in progress.metrics.items()]


def waiting(progress: RunProgress) -> str:
    """`input 7 %`, where that is much."""
    return f"input {100 * progress.waited:.0f} %" if progress.waited > MUCH else ""


def memory(progress: RunProgress) -> str:
    """`GPU 12.3 GiB`."""
    return "" if progress.gpu_memory is None else f"GPU {format_bytes(progress.gpu_memory, binary=True)}"
