"""Check of the objects that a config describes, by making them in a child process with TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tfdist.launch.config_process import ConfigProcess

_CHECK = ConfigProcess(
    "tfdist.training.config_objects.check_worker",
    "Building the model and what else the config describes",
    "--static leaves these checks out",
)

Found = tuple[str, str, int]
"""A mistake: its dotted key, what is wrong, and the exit code of a run that has it."""


def check_objects(values: Mapping[str, Any], skipped: Collection[str], seconds: float) -> list[Found]:
    """Makes the objects that a config describes in a process of its own, with TensorFlow, which this one never loads.

    Args:
        values: The values of the config's keys that are valid.
        skipped: The dotted keys of data whose files are known to be missing.
        seconds: How long it may take.

    Returns:
        What is wrong, in the order of a run.

    Raises:
        WorkerFailedError: The process took too long, or died; the text has what it said last.
    """
    return [(key, text, code) for key, text, code in _CHECK.answer((dict(values), tuple(skipped)), seconds)]
