"""The end of a worker by an error: its cause, its file, the traceback in the log, an end before the script's."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from tfdist.errors import DeviceMemoryError, RunDirError, TfdistError, UnsupportedError, UsageError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.rundir import Failure, RunDir, State
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import kind_of_error
from tfdist.rundir.regular_files import open_to_append
from tfdist.text import safe_str
from tfdist.training.supervision.launcher_link import link_of
from tfdist.training.supervision.thread_stacks import RUNPY, script_traceback, starts_scripts, user_place_of

_PEER_TYPES = ("UnavailableError", "DeadlineExceededError", "AbortedError", "CancelledError")
_COORDINATION = "CoordinationServiceError"
"""In texts of TensorFlow's other errors that say that it has given up a worker, such as one without a processor."""
_NO_MEMORY = ("oom when allocating", "out of memory", "failed to allocate")
"""Texts of a ResourceExhaustedError that is about memory; others are about messages that are too large."""
_OF_SUM = re.compile(r"\b(?P<type>WorkerFailedError|UsageError): (?P<text>.+?)(?=\nTraceback|\n\n|\Z)", re.DOTALL)
_ABORTED = "Collective ops is aborted by: "


def explain(error: BaseException, *, has_peers: bool = True) -> TfdistError | None:
    """Finds the cause that a user can act on.

    Args:
        error: What ended the worker.
        has_peers: Whether there are other workers, whose loss may be behind it. Without any, TensorFlow raises the same
            exceptions for a file system or a service that it cannot reach.

    Returns:
        A tfdist error with its exit code, or None when the exception is the user's own.
    """
    if isinstance(error, TfdistError):
        return error
    if _finds_no_module(error):
        return UsageError(f"-m names no module that can be run: {error}. Expected what `python -m` would run here.")
    if "tensorflow" not in sys.modules:
        return None
    from tfdist.data import data_error_in

    peer_error = _peers_error_in(error) if has_peers else None
    return data_error_in(error) or _memory_error_in(error) or peer_error or _own_loop_error_in(error)


def _finds_no_module(error: BaseException) -> bool:
    """Returns whether runpy, started for `-m`, gave up before it ran a line of the module."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        isinstance(error, ImportError)
        and frames[-1].filename == RUNPY
        and all(starts_scripts(frame.filename) for frame in frames)
    )


def _memory_error_in(error: BaseException) -> TfdistError | None:
    """The error for a tensor that did not fit into a device's memory."""
    if not (type(error).__module__.startswith("tensorflow.") and type(error).__name__ == "ResourceExhaustedError"):
        return None
    lines = safe_str(error).splitlines()
    text = next((line for line in lines if any(words in line.lower() for words in _NO_MEMORY)), None)
    if text is None:
        return None
    return DeviceMemoryError(
        "A device of this worker ran out of memory. Use a smaller global batch (data.batch_size in a config, "
        "batch_size in a script) or more replicas, mixed precision (precision: mixed_bfloat16), --shard or "
        "--tensor on several workers (tfdist plan CONFIG --memory says what each takes, and which fits), or a larger "
        f"--memory-limit where one is set; another process on the device counts, too. TensorFlow says: {text.strip()}"
    )


def _peers_error_in(error: BaseException) -> TfdistError | None:
    return _sum_error_in(error) or _disagreement_in(error) or _peer_error_in(error)


def _sum_error_in(error: BaseException) -> TfdistError | None:
    """The error of a sum in memory that workers share, which TensorFlow hands on as a text."""
    raised = _OF_SUM.search(safe_str(error)) if type(error).__module__.startswith("tensorflow.") else None
    if raised is None:
        return None
    kind = WorkerFailedError if raised["type"] == WorkerFailedError.__name__ else UsageError
    return kind(raised["text"].strip())


def _disagreement_in(error: BaseException) -> TfdistError | None:
    """The error for collectives of a `tf.function` that do not fit, together or to their values, by an assertion."""
    from tfdist.runtime.collectives.agreement import DISAGREEMENT
    from tfdist.runtime.collectives.calls import CUTS

    said = re.search(rf"assertion failed: \[((?:{DISAGREEMENT}|[^\[\]\n]* {CUTS}).*)\]", safe_str(error))
    if said is None or type(error).__name__ != "InvalidArgumentError":
        return None
    return UsageError(said[1].replace("] [", " "))


def _peer_error_in(error: BaseException) -> TfdistError | None:
    """The error for a collective that broke because another worker ended or is out of reach."""
    is_tensorflow = type(error).__module__.startswith("tensorflow.")
    if is_tensorflow and (type(error).__name__ in _PEER_TYPES or _COORDINATION in safe_str(error)):
        return WorkerFailedError(
            "This worker waited for the others in a collective, and it broke off: another worker ended, hung for "
            f"longer than --step-timeout or cannot be reached any more. TensorFlow says: {_gist(error)}"
        )
    return None


def _gist(error: BaseException) -> str:
    """The one line of TensorFlow's text that says why; pages about the place in the graph come before it."""
    lines = safe_str(error).strip().splitlines() or [type(error).__name__]
    why = next((line for line in lines if _ABORTED in line), lines[0])
    return why.rpartition(_ABORTED)[2]


def _own_loop_error_in(error: BaseException) -> TfdistError | None:
    """The error for a gradient that a script takes outside of the replicas, where TensorFlow has no variable for it."""
    if isinstance(error, ValueError) and "DistributedVariable.handle is not available outside" in safe_str(error):
        return UnsupportedError(
            "A loop of the script's own, or a callback, computes gradients outside of the replicas. In a loop every "
            "replica would train on all data, and none would take work off another: use fit(), train_on_batch(), or a "
            "step that tfdist.strategy().run(...) starts for each batch of experimental_distribute_dataset(...). In a "
            "callback, put the tape into a function and call tfdist.strategy().run(function): of what it returns, "
            "tfdist.strategy().experimental_local_results(returned)[0] is one replica's. Or train on one device. "
            f"Received: a gradient of a model's variables, {user_place_of(error)}"
        )
    return None


_NOTHING_TO_READ = "EOF when reading a line"
"""The message of `input()` where there is no input."""

_NO_TERMINAL = (
    "input() has nothing to read: this worker does not have the terminal. --debug-worker I gives it to worker I, such "
    "as --debug-worker 0; ask under `if tfdist.worker_index() == 0:`, and hand the answer on with "
    "tfdist.broadcast_object"
)

_MADE_ALREADY = (
    "Every worker runs the script, and another one may have made this file or folder: make it under "
    "`if tfdist.is_chief():`, or a folder by os.makedirs(..., exist_ok=True)"
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
    try:
        return explain(error, has_peers=assignment.num_workers > 1)
    except Exception:  # Of a class of the user's that is not as others are: it is the user's own, and named.
        return None


def _advice(error: BaseException, assignment: Assignment) -> str:
    """Returns what follows the text of an exception of Python's that does not say the remedy; mostly nothing."""
    if isinstance(error, FileExistsError) and assignment.num_workers > 1:
        return f". {_MADE_ALREADY}"
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


_OTHERS_SECONDS = 60.0
"""Seconds that the others may take to come to their ends."""


def end_early(assignment: Assignment) -> NoReturn:
    """Ends this process as one whose script is done; all workers come to their ends together."""
    link = link_of(assignment)
    _flush()
    link.heartbeat.finish(State.FINISHED)
    if link.channel is not None:
        link.channel.finished(0, _OTHERS_SECONDS)
    os._exit(0)


def fail_early(error: TfdistError, assignment: Assignment) -> NoReturn:
    """Ends this process, from any thread, with an error that the launcher reports."""
    _flush()
    os._exit(report(error, assignment))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A script may have closed them, or put something else in their place.
        with contextlib.suppress(Exception):
            stream.flush()
