"""Outcome of a job on nodes: the exit code, and what is said of nodes that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.errors import WorkerFailedError
from tfdist.ray.job.layout import NodeWorkers

_KILLED = 9


@dataclass(frozen=True)
class Ending:
    """The outcome of a machine's launcher.

    Attributes:
        machine: Its workers and where they were.
        code: Its exit code, negative for a signal; None where it was lost.
        lost: Why it was lost, for people; empty where it was not.
    """

    machine: NodeWorkers
    code: int | None
    lost: str = ""


def exit_code(endings: Sequence[Ending], stopped: int | None) -> int:
    """The exit code of a job.

    Args:
        endings: Of all machines, the chief's first.
        stopped: The signal that the driver got first; None for none.
    """
    if stopped is not None and any(ending.code != 0 for ending in endings):
        return 128 + stopped
    if any(ending.lost for ending in endings):
        return WorkerFailedError.exit_code
    codes = [_shell_code(ending.code or 0) for ending in endings]
    return codes[0] or max(codes)


def lost_text(ending: Ending) -> str:
    """Returns what is said of a machine that was lost."""
    return (
        f"error: lost {ending.machine}: {ending.lost}. The other nodes stop. The same command with --resume auto and "
        "the run's --run-dir continues from its last checkpoint."
    )


def killed_text(ending: Ending) -> str | None:
    """Returns what is said of a launcher that a signal ended; None where none did, as launchers tell of all else
    themselves."""
    if ending.code is None or ending.code >= 0:
        return None
    memory = " The machine may have run out of memory: its kernel's log tells." if ending.code == -_KILLED else ""
    return f"error: signal {-ending.code} ended the launcher of {ending.machine}.{memory}"


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code
