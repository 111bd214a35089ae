"""Check of the objects that a config describes, by making them in a child process with TensorFlow."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfdist.errors import WorkerFailedError
from tfdist.text import printable
from tfdist.tf_log_filter import TfLogFilter

CHECK_MODULE = "tfdist.training.config_objects.check_worker"
_LAST_LINES = 12
_END_SECONDS = 5.0

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
    process = subprocess.Popen(
        [sys.executable, "-m", CHECK_MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        answer, said = process.communicate(pickle.dumps((dict(values), tuple(skipped))), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise WorkerFailedError(
            f"Building the model and what else the config describes took longer than {seconds:g} s. Expected that it "
            f"ends. Give it longer with --timeout, or leave these checks out with --static.{_words(_ended(process))}"
        ) from None
    finally:
        _ended(process)  # and what it has started; also where Ctrl-C ends the wait
    if process.returncode != 0 or not answer:
        code = process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise WorkerFailedError(
            f"The process that builds what the config describes died ({how}). A run would, too. --static leaves these "
            f"checks out.{_words(said)}"
        )
    return [(key, text, code) for key, text, code in json.loads(answer)]


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
