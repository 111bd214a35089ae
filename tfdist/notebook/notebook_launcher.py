"""Notebook launcher: runs a function of a notebook in the workers of a job, and brings back what came of it."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment, variables_added
from tfdist.notebook.call_folder import CallFolder, call_folder, writing
from tfdist.notebook.function_call import FunctionCall, read_result
from tfdist.notebook.job_outcome import JobOutcome
from tfdist.notebook.launch_options import checked_options, job_of
from tfdist.text import safe_repr

_POLL_SECONDS = 0.5
_LAST_OUTPUT_SECONDS = 2.0
_STOP_SECONDS = 60.0
"""Seconds that a job may take to end when it is interrupted, besides the grace that its workers have."""

_END_SECONDS = 10.0
"""Seconds that its workers may take to be ended at the second interrupt."""


def notebook_launcher(
    function: Callable[..., Any], args: Sequence[Any] = (), nproc: int | None = None, **options: Any
) -> Any:
    """Calls a function of a notebook in the workers of a job, as `tfdist train` runs a script.

    Every worker is a new process that calls `function(*args)` with all that the notebook has defined and the function
    uses. The global batch, the numbers and the order of the data are those of one device, whatever `nproc` is. What the
    workers print appears below the cell. Interrupting the cell stops the workers, and so does a restart of the kernel.

    Make models, datasets and strategies inside of the function: TensorFlow's objects belong to the process that made
    them. Keras's dtype policy, floatx, epsilon and image data format are those of the notebook; seeds are those of the
    run unless the function sets them.

    Args:
        function: What to call; defined in the notebook or imported.
        args: Its positional arguments; a list or tuple.
        nproc: Workers on this machine, each with an equal part of its GPUs. By default one for each GPU, as with
            `tfdist train`; 1 runs one process on all of them.
        **options: Those of `tfdist train`, as keywords: `logical_devices=2`, `run_dir="runs/first"`, `overwrite=True`,
            `max_restarts=3`, `step_timeout=60`, `show="all"`, `seed=1` and so on.

    Returns:
        What the function returned on the chief. It is pickled: return numbers, arrays or
        `history.history` rather than models.

    Raises:
        UsageError: An argument or option cannot be used as given, cloudpickle is not installed, or what the function
            uses or returns cannot be pickled. Also called in a worker.
        WorkerFailedError: A worker raised, was killed or hung; the text names the worker, the cause and its log. Or the
            function ended the chief's process before it returned, even with exit code 0.
        DataError: The data cannot be read or does not fit the model.
        RunDirError: The run directory, or the folder for temporary files, cannot be written or is full.
        TfdistError: What else `tfdist train` says.
        KeyboardInterrupt: The cell was interrupted; the workers have ended.

    Example:
        >>> def train(epochs):
        ...     model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10)])
        ...     model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        ...     return model.fit(images, labels, batch_size=256, epochs=epochs).history
        >>> history = tfdist.notebook_launcher(train, args=(3,), nproc=2)
    """
    _check(function, args, nproc)
    checked = checked_options(options)
    name = re.sub(r"\W+", "-", getattr(function, "__name__", "")).strip("-") or "notebook"
    with call_folder() as folder:
        # What it refuses is refused here, in the cell.
        job = job_of(str(folder.path), name, nproc, checked)
        FunctionCall(function, tuple(args)).write(folder)
        with writing():
            folder.request.write_text(json.dumps({"name": name, "nproc": nproc, "options": checked}))
        code = _run_launcher(folder, job.grace)
        JobOutcome.read(folder, code).raise_if_failed()
        return read_result(folder)


def _check(function: Any, args: Any, nproc: Any) -> None:
    if Assignment.from_environ() is not None:
        raise UsageError(
            "notebook_launcher was called in a worker, which a launcher has started. Expected one call, in the "
            "notebook. In a script under `tfdist train`, call the function itself."
        )
    if not callable(function):
        raise UsageError(
            "notebook_launcher expected a function to call in every worker. Received: "
            f"{safe_repr(function)}, a {type(function).__qualname__}. Pass `train`, not `train()`."
        )
    if not isinstance(args, list | tuple):
        raise UsageError(
            f"args expected a tuple of the function's arguments, such as (3,). Received: {safe_repr(args)}"
        )
    if nproc is not None and (isinstance(nproc, bool) or not isinstance(nproc, int) or nproc < 1):
        raise UsageError(f"nproc expected a whole number of workers, at least 1. Received: {safe_repr(nproc)}")


def _run_launcher(folder: CallFolder, grace: float) -> int:
    """Runs the launcher's process to its end, below the cell; its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tfdist.notebook.launcher_process", str(folder.path)],
        # What the notebook can import, the workers can.
        env=variables_added({"PYTHONPATH": os.pathsep.join(filter(_is_place, sys.path))}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        # An interrupt of the cell may be sent to the kernel's whole process group.
        start_new_session=True,
    )
    output = _Output(cast(BinaryIO, process.stdout))
    interrupted = False
    try:
        try:
            _follow(process, output)
        except KeyboardInterrupt:
            interrupted = True
            _stop(process, output, grace + _STOP_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            cast(BinaryIO, pipe).close()
    if interrupted:
        if process.returncode == -signal.SIGKILL:
            raise KeyboardInterrupt("the launcher had to be killed, and workers may need a moment to end")
        raise KeyboardInterrupt("the workers have ended")
    return process.returncode


def _is_place(entry: object) -> bool:
    """Returns whether an entry of `sys.path` is one that Python looks at, other than the working directory."""
    return isinstance(entry, str) and bool(entry)


def _stop(process: subprocess.Popen[bytes], output: _Output, seconds: float) -> None:
    """Interrupts the launcher, which stops its workers between two batches, and at a second interrupt ends them.

    The second one comes from the user, or when the time is up. A launcher that lives on is left to be killed.
    """
    for bound in (seconds, _END_SECONDS):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(KeyboardInterrupt):
            _follow(process, output, bound)
        if process.poll() is not None:
            return


def _follow(process: subprocess.Popen[bytes], output: _Output, seconds: float | None = None) -> None:
    """Shows the output until the process has ended, or for some seconds."""
    until = None if seconds is None else time.monotonic() + seconds
    while process.poll() is None and (until is None or time.monotonic() < until):
        output.show(_POLL_SECONDS)
    if process.poll() is not None:
        # A process that a worker has left behind may hold the pipe open.
        until = time.monotonic() + _LAST_OUTPUT_SECONDS
        while output.show(0) and time.monotonic() < until:
            pass


class _Output:
    """The output that comes through a pipe, shown in the cell, for which `sys.stdout` may be no file."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended = False

    def show(self, seconds: float) -> bool:
        """Shows what has come, waiting for it so long; returns whether there may be more."""
        if self._ended:
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        if not ready:
            return False
        data = os.read(self._pipe.fileno(), 65536)
        self._ended = not data
        sys.stdout.write(self._decoder.decode(data, final=self._ended))
        sys.stdout.flush()
        return not self._ended
