"""A process of its own in which something is made of a config with TensorFlow, which a launcher never loads.

What it is asked comes pickled on its stdin, and its answer as JSON on its stdout. Both ends run the same installation
of tfdist, and no other process reaches the pipes.
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import dataclass
from typing import Any

from tfdist.bounded_process import how_ended, run
from tfdist.errors import WorkerFailedError
from tfdist.tf_log_filter import last_words


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

        Args:
            question: What can be pickled.
            seconds: How long it may take.

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
