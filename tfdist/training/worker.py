"""The main of a worker process: `python -m tfdist.training.worker`, started by the launcher.

Imports of a large framework without collecting garbage: nothing of what they make is garbage.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tfdist.errors import RunDirError, UsageError, WorkerFailedError
from tfdist.launch.environment import Assignment
from tfdist.rundir import RunDir, State
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.training.supervision.error_report import report
from tfdist.training.supervision.launcher_link import LauncherLink, dump_on_signal, link_of
from tfdist.training.supervision.stop_requests import WorkerStopped


@contextlib.contextmanager
def uncollected_imports() -> Iterator[None]:
    """No collection within, and none of what was made there ever after.

    TensorFlow and Keras make a quarter of a million objects that stay as long as the process. Python would look for
    cycles among them again and again while they are imported, which is a quarter of the time of that, and in each full
    collection of the training, which is 0.15 s each time.

    A process whose collection is off already keeps it so.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


_EXIT_SECONDS = 10.0
"""Seconds that the exit handlers of a script may take."""

_FINISH_FACTOR = 6.0
"""The number of step timeouts a worker that has finished waits for the others, which may still evaluate or save."""


def main() -> None:
    """Runs this worker's target and exits as it does."""
    assignment = Assignment.from_environ()
    if assignment is None:
        raise UsageError("tfdist.training.worker is started by `tfdist train`. Use that.")
    # Before there is another thread, and before TensorFlow counts the cores.
    is_bound = assignment.binding is None or assignment.binding.bind()
    process_exit = _ProcessExit()
    atexit.register(process_exit)
    # Without a handler, a worker that the launcher asks for its stacks would die of the signal.
    dump_on_signal(assignment)
    # Opened before anything slow: from now on launcher and worker watch each other.
    link = link_of(assignment)
    set_up_logging(assignment)
    _log_binding(assignment, is_bound)
    process_exit.code = _run(assignment, link)
    watchdog = threading.Timer(_EXIT_SECONDS, process_exit)
    watchdog.daemon = True
    watchdog.start()
    sys.exit(process_exit.code)


class _ProcessExit:
    """Ends the process after the script's own exit handlers, before the interpreter finalizes.

    There TensorFlow's threads may wait for ever: for workers that are gone, or for Python code of an input pipeline
    that can no longer run.
    """

    code = WorkerFailedError.exit_code

    def __call__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A script may have closed them, or put something else in their place; the end is no place to fail.
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(self.code)


def _run(assignment: Assignment, link: LauncherLink) -> int:
    try:
        with contextlib.nullcontext() if link.ledger is None else contextlib.closing(link.ledger):
            code = _run_target(assignment)
        ended = State.STOPPED if link.stop_requests.stopped_with == code else State.FAILED
        link.heartbeat.finish(State.FINISHED if code == 0 else ended)
        channel = link.channel
        if channel is not None and not channel.finished(code, assignment.step_timeout * _FINISH_FACTOR):
            raise WorkerFailedError(
                f"This worker was done, and the others were not within {assignment.step_timeout * _FINISH_FACTOR:.0f} "
                "s. Expected all workers to end their script together. See the logs of the others for what they do."
            )
        return code
    except BaseException as error:
        return report(error, assignment)


def _run_target(assignment: Assignment) -> int:
    # Imported here, as it takes seconds, and the launcher must be watched from the first moment.
    if assignment.target_kind == "config":
        with uncollected_imports():
            from tfdist.training.config_run.run_config import run_config
            from tfdist.training.probes.recorder import RecordingComplete

        try:
            run_config(assignment)
        except (RecordingComplete, WorkerStopped) as end:
            return int(end.code or 0)
        return 0
    if assignment.target_kind == "inference":
        with uncollected_imports():
            from tfdist.training.inference.inference_run import run_inference

        run_inference(assignment)
        return 0
    with uncollected_imports():
        from tfdist.training.run_script import run_script

    return run_script(assignment)


class _WorkerLog(logging.Handler):
    """This worker's log, which a full disk may cut short, or a silent one; the launcher reports that, once.

    Args:
        path: The file.
        seconds: How long a line may take.
    """

    def __init__(self, path: Path, seconds: float = 2.0) -> None:
        super().__init__()
        self._path = path
        self._disk = BoundedDisk(path, seconds)

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        with contextlib.suppress(RunDirError, OSError):
            self._disk.call(lambda: self._append(line))

    def _append(self, line: str) -> None:
        # By no handler of logging: the thread of the disk would wait for the lock that `emit` is called with.
        # Whatever the locale: paths in it may have letters that Python could not decode.
        with self._path.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{line}\n")


def set_up_logging(assignment: Assignment) -> None:
    """Warnings go to stderr, and so to terminal and log; choices and their reasons only to the log, unless verbose."""
    logger = logging.getLogger("tfdist")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    shown = logging.StreamHandler()
    shown.setLevel(logging.INFO if assignment.verbose else logging.WARNING)
    logger.addHandler(shown)
    if not assignment.verbose:
        log = RunDir(Path(assignment.run_dir)).log_file(assignment.index, assignment.attempt)
        log_handler = _WorkerLog(log)
        log_handler.addFilter(lambda record: record.levelno < logging.WARNING)
        logger.addHandler(log_handler)
    # A record has the level that its line says.
    level = "%(levelname)s: " if assignment.log_format == "json" else ""
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter(f"tfdist: {level}%(message)s"))


def _log_binding(assignment: Assignment, is_bound: bool) -> None:
    binding, logger = assignment.binding, logging.getLogger("tfdist")
    if binding is None:
        return
    if is_bound:
        listed = ",".join(map(str, binding.cores))
        logger.info("kept to the cores %s, which %d worker(s) share", listed, binding.workers)
    else:
        logger.warning("The system did not let this worker keep to the cores %s: it may run on all.", binding.cores)


if __name__ == "__main__":
    main()
