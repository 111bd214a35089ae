"""A process with TensorFlow, which a launcher never loads, says what a config comes to: its sizes, and what fails.

What the process is asked comes pickled on its stdin, and its answer as JSON on its stdout. Both ends run the same
installation of tfdist, and no other process reaches the pipes.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.bounded_process import how_ended, run
from tfdist.config import RunConfig
from tfdist.errors import DataError, TfdistError, UsageError, WorkerFailedError
from tfdist.tf_log_filter import last_words

_ERRORS: tuple[type[TfdistError], ...] = (UsageError, DataError)
Found = tuple[str, str, int]
"""A mistake: its dotted key, what is wrong, and the exit code of a run that has it."""


@dataclass(frozen=True)
class ConfigProcess:
    """A module that answers, and how its errors are told.

    Attributes:
        module: Its dotted name; it is run as `python -m`.
        task: What it does, as a subject: `Building the model`.
        leave_out: The option that leaves it out, with what that does: `--static leaves these checks out`.
    """

    module: str
    task: str
    leave_out: str

    def answer(self, question: Any, seconds: float) -> Any:
        """Asks it, and returns its answer.

        Raises:
            WorkerFailedError: It took too long, or died; the text has what it said last.
        """
        command = [sys.executable, "-m", self.module]
        ran = run(command, seconds, question=pickle.dumps(question))
        said = last_words(ran.err.encode())
        if ran.code is None:
            raise WorkerFailedError(
                f"{self.task} took longer than {seconds:g} s. Expected that it ends. Give it longer with --timeout; "
                f"{self.leave_out}.{said}"
            )
        if ran.code != 0 or not ran.out:
            how = how_ended(ran.code)
            raise WorkerFailedError(
                f"{self.task} failed: its process died ({how}). A run would, too; {self.leave_out}.{said}"
            )
        return json.loads(ran.out)


_SIZES = ConfigProcess(
    "tfdist.training.step_memory.memory_worker",
    "Tracing a step of the model",
    "without --memory no model is built",
)


def ask_step_sizes(config: RunConfig, share: int, seconds: float) -> dict[str, Any]:
    """The sizes of a config's model, its optimizer's state and one step on a device.

    Args:
        share: Samples of a step on the device.

    Returns:
        What `tfdist.plan.memory.step_sizes.StepSizes.to_json` makes of them.

    Raises:
        UsageError: The config names something that does not exist or does not fit.
        DataError: The data cannot be read.
        WorkerFailedError: The process took too long, or died; the text has what it said last.
    """
    answer = _SIZES.answer((config, share), seconds)
    if "error" in answer:
        raise next((kind for kind in _ERRORS if kind.exit_code == answer["code"]), WorkerFailedError)(answer["error"])
    return dict(answer)


_CHECK = ConfigProcess(
    "tfdist.training.config_objects.check_worker",
    "Building the model and what else the config describes",
    "--static leaves these checks out",
)


def check_objects(values: Mapping[str, Any], skipped: Collection[str], seconds: float) -> list[Found]:
    """Makes the objects that a config describes in a process of its own, with TensorFlow, which this one never loads.

    Args:
        values: The values of the config's keys that are valid.
        skipped: The dotted keys of data whose files are known to be missing.

    Returns:
        What is wrong, in the order of a run.

    Raises:
        WorkerFailedError: The process took too long, or died; the text has what it said last.
    """
    return [(key, text, code) for key, text, code in _CHECK.answer((dict(values), tuple(skipped)), seconds)]
