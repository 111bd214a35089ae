"""What a worker leaves of the error that ends it."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from tfdist.errors import RunDirError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.rundir import ErrorRecord, RunDir, State
from tfdist.training.supervision.launcher_link import link_of


def report(error: BaseException, assignment: Assignment) -> int:
    """Leaves the error file, from which the launcher tells what happened, and the traceback in this worker's log.

    Returns:
        The exit code.
    """
    from tfdist.training.supervision.exception_causes import explained, traceback_of

    known = explained(error, has_peers=assignment.num_workers > 1)
    code = known.exit_code if known is not None else WorkerFailedError.exit_code
    shown = known or error
    line = link_of(assignment)
    state = line.heartbeat.state if line.heartbeat.has_begun else None
    record = ErrorRecord(
        index=assignment.index,
        host=socket.gethostname(),
        pid=os.getpid(),
        exit_code=code,
        type=f"{type(shown).__module__}.{type(shown).__qualname__}".removeprefix("builtins."),
        message=str(shown),
        traceback=traceback_of(error),
        time=time.time(),
        epoch=None if state is None else state.epoch,
        step=None if state is None else state.step,
    )
    try:
        _leave(record, RunDir(Path(assignment.run_dir)), assignment.attempt)
    except (OSError, RunDirError):
        # A full disk, most likely, which may be the very error.
        if line.channel is not None:
            line.channel.failed(record.to_dict())
    line.heartbeat.enter(State.FAILED)
    return code


def _leave(record: ErrorRecord, run: RunDir, attempt: int) -> None:
    record.write(run.error_file(record.index, attempt))
    # Into the log alone: on the terminal the launcher shows the traceback once, with the worker's name.
    with run.log_file(record.index, attempt).open("a") as log:
        log.write(record.traceback)
