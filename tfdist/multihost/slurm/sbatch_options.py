"""Options of sbatch that a user gives by `--sbatch`: which the job's script has itself, and what others say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfdist.errors import UsageError

_REQUEUED = "no option: the script requeues the job, and --max-requeues N of `tfdist train` bounds it"
_OWNED = {
    "nodes": "--nodes N",
    "ntasks": "--nodes N and --tasks-per-node N",
    "ntasks-per-node": "--tasks-per-node N",
    "tasks-per-node": "--tasks-per-node N",
    "gpus-per-node": "--gpus-per-node N",
    "time": "--time LIMIT",
    "partition": "--partition NAME",
    "chdir": "no option: call tfdist in that folder (`cd DIR`)",
    "signal": "--grace S, by which the script sets when the workers are asked to stop",
    "distribution": "no option: tasks are distributed in blocks, as the list of workers needs it",
    "requeue": _REQUEUED,
    "no-requeue": _REQUEUED,
    "no-kill": "no option: Slurm requeues the job when a node is lost, and without the first node it would stand still "
    "until its time is over",
    "open-mode": "no option: the log is appended to, so that a job that is requeued keeps it",
}
"""Long name -> what to give instead to tfdist."""
_LONG_OF = {
    **{"N": "nodes", "n": "ntasks", "t": "time", "p": "partition", "D": "chdir", "m": "distribution"},
    **{"o": "output", "a": "array", "J": "job-name", "k": "no-kill"},
}
_WHOLE = frozenset(_OWNED) | {"gpus"}
"""Names that are no abbreviation of longer ones."""
_SHORT = re.compile(r"-[HOQWsuv]*(?P<letter>[A-Za-z])(?P<value>.*)")
"""Letters that take no value may stand before one that does."""


def check_owned(options: Iterable[str]) -> None:
    """Checks that the script does not have the same options, which stand later in it and count.

    Args:
        options: Each as one word.

    Raises:
        UsageError: It has one; the text says what to give instead.
    """
    for word in options:
        name = next((name for name in _OWNED if _value(word, name) is not None), None)
        if name is not None:
            raise UsageError(
                f"The script of the job decides about --{name} itself. Expected {_OWNED[name]}. "
                f"Received: --sbatch {word}"
            )


def value_of(options: Iterable[str], name: str) -> str | None:
    """What options say for a long name of sbatch's, where the last one counts; None where none does."""
    found = [value for value in (_value(word, name) for word in options) if value is not None]
    return found[-1] if found else None


def _value(word: str, name: str) -> str | None:
    """The value of an option if it has that long name, or is short for it: `--part=gpu` and `-pgpu` for partition."""
    if word.startswith("--"):
        said, _, value = word[2:].partition("=")
        is_short = said != "" and name.startswith(said) and said not in _WHOLE
        return value if said == name or is_short else None
    short = _SHORT.fullmatch(word)
    return short["value"].removeprefix("=") if short is not None and _LONG_OF.get(short["letter"]) == name else None
