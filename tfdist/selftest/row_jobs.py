"""Jobs of rows, each an ordinary job of this machine, within the time that is left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tfdist.errors import RunDirError, TfdistError
from tfdist.launch.environment import variables_added
from tfdist.launch.job import run_job
from tfdist.launch.logs.terminal import Show
from tfdist.launch.signals import Signals
from tfdist.launch.worker_options import Communication
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.rundir.failure import Failure
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_log import RowDone, RowOrder, RowsRun, log_file, read_log, saved_model
from tfdist.selftest.rows import JobEnd, RowRun, SelftestSpec, run_through
from tfdist.training.probes.probe_files import Recording
from tfdist.verify.runs import STOPPED, Interrupted, TargetSpec, last_line, raise_if_interrupted

_TICK_SECONDS = 0.5
STEPS = 300
"""More than all rows of a job train: a recording that is full would end the job."""
_MOST_SECONDS = 300.0
"""Seconds that a worker may take for a step, and for anything between two: GPUs that are newer than TensorFlow's build
compile its kernels first."""
_GRACE_SECONDS = 5.0
_SHOWN_LINES = 25


class Deadline:
    """While entered, sends this process SIGTERM once, when the time is up. Enter it inside of `Signals`.

    A job that runs then ends as it would if a user had sent the signal, with every process that it has started.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
        self._timer.daemon = True

    @property
    def left(self) -> float:
        """Seconds that are left; not negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if the time is up."""
        return self.left == 0.0

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # A signal that is under way comes while it is still handled.
        self._timer.join()


class RowWatch:
    """While entered, looks now and then which rows are done, in a thread; at the end once more.

    Each row is told of once, one after the other. What `look` or `tell` raises in the thread is raised at the end.

    Args:
        look: Gives the names of the rows that are done.
        tick: Seconds from look to look.
    """

    def __init__(
        self,
        look: Callable[[], Iterable[str]],
        tell: Callable[[str], None],
        tick: float = _TICK_SECONDS,
    ) -> None:
        self._look, self._tell, self._tick = look, tell, tick
        self._known: set[str] = set()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._watch, name="tfdist-rows", daemon=True)

    def __enter__(self) -> RowWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error
        self._tell_new()

    def _watch(self) -> None:
        try:
            while not self._ended.wait(self._tick):
                self._tell_new()
        except Exception as error:
            self._error = error

    def _tell_new(self) -> None:
        for name in self._look():
            if name not in self._known:
                self._known.add(name)
                self._tell(name)


@dataclass(frozen=True)
class JobRows:
    """The rows of a job, as far as its workers have noted.

    Attributes:
        folder: Where they note it.
        workers: How many there are.
        request: What they record; None for nothing.
    """

    folder: Path
    workers: int
    request: RecordingRequest | None

    def names(self) -> list[str]:
        """The rows that all workers have finished until now."""
        logs = [[done.name for done in log.done] for log in self._logs()]
        return [name for name in logs[0] if all(name in log for log in logs)]

    def begun(self) -> str | None:
        """The row that the chief is in; None where it is in none."""
        return self._logs()[0].begun

    def read(self) -> dict[str, RowRun]:
        """Returns what came of the finished rows."""
        logs, names = self._logs(), self.names()
        recordings = [Recording.read(self.request.file(index)) for index in range(self.workers)] if self.request else []
        return {done.name: self._run(done, logs, recordings) for done in logs[0].done if done.name in names}

    def _logs(self) -> list[RowsRun]:
        return [read_log(log_file(self.folder, index)) for index in range(self.workers)]

    def _run(self, done: RowDone, logs: Sequence[RowsRun], recordings: Sequence[Recording | None]) -> RowRun:
        parts = tuple(recording.part(done.fits) for recording in recordings if recording is not None)
        found = tuple(other.found for log in logs for other in log.done if other.name == done.name)
        if recordings and (len(parts) < len(recordings) or not all(part.moments[1:] for part in parts)):
            return RowRun("a worker has no recording of it", seconds=done.seconds)
        return RowRun("", "", done.seconds, parts, found, str(saved_model(self.folder)))


class TimeUp(Exception):
    """The time of the selftest is up."""


@dataclass
class RowJobs:
    """Runs the jobs of a selftest."""

    spec: SelftestSpec
    folder: Path
    signals: Signals
    deadline: Deadline
    _count: int = field(default=0, init=False)

    def run(
        self,
        names: Sequence[str],
        layout: Layout,
        *,
        recorded: bool = False,
        perturbed: bool = False,
        saved: str | None = None,
        communication: Communication | None = None,
        variables: Mapping[str, str] | None = None,
        seconds: float = _MOST_SECONDS,
        finished: Callable[[str, RowRun], None] = lambda name, run: None,
    ) -> dict[str, RowRun]:
        """Runs rows in a layout.

        Args:
            perturbed: Whether weights are moved by a rounding error first.
            saved: A model that an earlier job has saved.
            communication: The collectives; None for those of the options.
            variables: Environment variables that the workers have besides.
            seconds: How long a worker may take for a step, and for anything between two.
            finished: Called with each row that comes to its end, while the others go on; also before an exception.

        Returns:
            Name -> how the row ended.

        Raises:
            TimeUp: The time is up.
            Interrupted: A signal came.
        """

        def job(left: Sequence[str]) -> JobEnd:
            self.check()
            folder = self.new_folder(layout.label)
            order = RowOrder(str(folder), tuple(left), saved)
            request = RecordingRequest(str(folder), STEPS, layout.replicas, perturbed=perturbed) if recorded else None
            options: dict[str, Any] = {"recording": request}
            if communication is not None:
                options["communication"] = communication
            if request is None:
                options["logical_devices"] = layout.logical
            if variables:
                options["environ"] = variables_added(variables)
            rows = JobRows(folder, layout.workers, request)
            with RowWatch(rows.names, lambda name: finished(name, rows.read()[name])):
                code, problem, detail = self._job(self.target(order, layout, seconds), layout, folder / "run", options)
            return JobEnd(rows.read(), rows.begun(), problem if code else "", detail)

        return run_through(names, job)

    def target(self, order: RowOrder, layout: Layout, seconds: float = _MOST_SECONDS) -> TargetSpec:
        """The target of a job that runs an order; nothing in it may take longer than `seconds`."""
        seconds = min(seconds, max(self.deadline.left, 1.0))
        options = {
            **self.spec.worker_options(),
            "args": (order.to_argument(),),
            "devices": layout.gpus,
            "logical_devices": None,
            "share_gpu": layout.shares_gpus,
            "step_timeout": seconds,
            "verbose": False,
        }
        show: Show = "chief" if self.spec.verbose else "none"
        return TargetSpec("module", self.spec.matrix, "selftest", start_timeout=seconds, show=show, **options)

    @contextlib.contextmanager
    def quiet(self, folder: Path) -> Iterator[None]:
        """Has launchers write what they say to a file in `folder`, unless the user wants to see it."""
        if self.spec.verbose:
            yield
            return
        with (
            (folder / "launcher.log").open("w", buffering=1, errors="replace") as file,
            contextlib.redirect_stdout(file),
            contextlib.redirect_stderr(file),
        ):
            yield

    def new_folder(self, name: str) -> Path:
        """A new folder for a job."""
        self._count += 1
        folder = self.folder / f"{self._count}-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"
        folder.mkdir()
        return folder.absolute()

    def check(self) -> None:
        """Raises `TimeUp` or `Interrupted` where there is reason to."""
        if self.deadline.passed:
            raise TimeUp
        raise_if_interrupted(self.signals)

    def stopped(self, code: int) -> Exception:
        """Returns what the exit code of a job that a signal has ended stands for."""
        return TimeUp() if self.deadline.passed else Interrupted(code)

    def _job(self, target: TargetSpec, layout: Layout, run_dir: Path, options: dict[str, Any]) -> tuple[int, str, str]:
        """Exit code, problem and detail of one job."""
        options = {**options, "first_step_timeout": target.step_timeout, "grace": _GRACE_SECONDS}
        with self.quiet(run_dir.parent):
            try:
                code = run_job(target.job(layout.workers, run_dir, **options))
            except TfdistError as error:
                self.check()
                return error.exit_code, str(error), ""
        if code in STOPPED:
            raise self.stopped(code)
        if code:
            # A job that ends with the time has not failed: its timeouts are cut to that.
            self.check()
        return (code, *failure_of(RunDir(run_dir), code)) if code else (0, "", "")


def failure_of(run: RunDir, code: int) -> tuple[str, str]:
    """Returns what ended a run, in a line, and the end of its traceback or of its log."""
    try:
        failure = Failure.read(run.failure_file)
    except RunDirError:
        failure = None
    if failure is None:
        return f"exit code {code} ({last_line(run.log_file(0, 0)) or 'it said nothing'})", ""
    lines = failure.traceback.splitlines() or list(failure.last_lines)
    return f"exit code {code}: {failure.who} {failure.what_in_line(300)}", "\n".join(lines[-_SHOWN_LINES:])
