"""A process of its own in which something is made of a config with TensorFlow, which a launcher never loads.

What it is asked comes pickled on its stdin, and its answer as JSON on its stdout. Both ends run the same installation
of tfdist, and no other process reaches the pipes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.errors import WorkerFailedError
from tfdist.text import printable
from tfdist.tf_log_filter import TfLogFilter

_LAST_LINES = 12
_END_SECONDS = 5.0


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
        process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            answer, said = process.communicate(pickle.dumps(question), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise WorkerFailedError(
                f"{self.task} took longer than {seconds:g} s. Expected that it ends. Give it longer with --timeout; "
                f"{self.leave_out}.{_words(_ended(process))}"
            ) from None
        finally:
            _ended(process)  # and what it has started; also where Ctrl-C ends the wait
        if process.returncode != 0 or not answer:
            code = process.returncode
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise WorkerFailedError(
                f"{self.task} failed: its process died ({how}). A run would, too; {self.leave_out}.{_words(said)}"
            )
        return json.loads(answer)


def _ended(process: subprocess.Popen[bytes]) -> bytes:
    """What a process wrote on stderr that ends now, with all processes of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that left the group may hold the pipes open for longer.
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
        return process.communicate(timeout=_END_SECONDS)[1]
    return b""


def _words(said: bytes) -> str:
    """The last lines that a process wrote, without TensorFlow's own."""
    lines = TfLogFilter()
    shown = (lines.feed(said) + lines.rest()).decode(errors="replace")
    kept: Sequence[str] = [printable(line) for line in shown.splitlines() if line.strip()][-_LAST_LINES:]
    return "".join(["\nIt said last:" if kept else "", *(f"\n  {line}" for line in kept)])
