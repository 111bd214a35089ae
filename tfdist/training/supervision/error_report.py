"""Report of the error that ends a worker: the error file, and the traceback in its log."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

from tfdist.errors import RunDirError, TfdistError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.rundir import Failure, RunDir, State
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import kind_of_error
from tfdist.rundir.regular_files import open_to_append
from tfdist.text import safe_str
from tfdist.training.supervision.launcher_link import link_of
from tfdist.training.supervision.user_frames import script_traceback

_NOTHING_TO_READ = "EOF when reading a line"
"""The message of `input()` where there is no input."""

_NO_TERMINAL = (
    "input() has nothing to read: this worker does not have the terminal. --debug-worker I gives it to worker I, such "
    "as --debug-worker 0; ask under `if tfdist.worker_index() == 0:`, and hand the answer on with "
    "tfdist.broadcast_object"
)

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def report(error: BaseException, assignment: Assignment) -> int:
    """Writes the error file, from which the launcher reports the failure, and the traceback into this worker's log.

    Returns:
        The exit code.
    """
    known = _explained(error, assignment)
    code = known.exit_code if known is not None else WorkerFailedError.exit_code
    shown = known or error
    link = link_of(assignment)
    reached = link.activity.snapshot() if link.activity.has_begun else None
    failure = Failure(
        index=assignment.index,
        host=socket.gethostname(),
        pid=os.getpid(),
        exit_code=code,
        kind=kind_of_error(code),
        type=f"{safe_str(type(shown).__module__)}.{type(shown).__qualname__}".removeprefix("builtins."),
        message=_without_styles(safe_str(shown)) + _advice(error, assignment),
        traceback=_without_styles(_traceback_of(error)),
        time=time.time(),
        epoch=None if reached is None else reached.epoch,
        step=None if reached is None else reached.step,
    )
    try:
        run = RunDir(Path(assignment.run_dir))
        BoundedDisk(run.path).call(lambda: _write(failure, run, assignment.attempt))
    except (OSError, RunDirError):
        # Most likely a full disk, or one that does not answer, which may be the very error.
        if link.channel is not None:
            link.channel.failed(failure.error_content())
    link.heartbeat.finish(State.FAILED)
    return code


def _explained(error: BaseException, assignment: Assignment) -> TfdistError | None:
    from tfdist.training.supervision.exception_causes import explain

    try:
        return explain(error, has_peers=assignment.num_workers > 1)
    except Exception:  # Of a class of the user's that is not as others are: it is the user's own, and named.
        return None


def _advice(error: BaseException, assignment: Assignment) -> str:
    """Returns what follows the text of an exception of Python's that does not say the remedy; mostly nothing."""
    is_of_input = isinstance(error, EOFError) and error.args == (_NOTHING_TO_READ,)
    return f". {_NO_TERMINAL}" if is_of_input and not assignment.reads_input else ""


def _traceback_of(error: BaseException) -> str:
    try:
        return script_traceback(error)
    except Exception as unprinted:  # As above: its place is lost, its name is not.
        return f"{type(error).__qualname__}, whose traceback cannot be printed: {safe_str(unprinted)}\n"


def _without_styles(text: str) -> str:
    """A text without the codes by which Keras has terminals show a part of it bold."""
    return _STYLE.sub("", text)


def _write(failure: Failure, run: RunDir, attempt: int) -> None:
    failure.write_error(run.error_file(failure.index, attempt))
    # Into the log alone: on the terminal the launcher shows the traceback once, with the worker's name.
    with open_to_append(run.log_file(failure.index, attempt)) as log:
        log.write(failure.traceback.encode(errors="replace"))
