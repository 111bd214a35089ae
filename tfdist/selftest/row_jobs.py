"""Jobs of rows: a job runs as many as it gets through; the row that ends it has failed, a new job takes the rest."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError, TfdistError
from tfdist.launch.environment import variables_added
from tfdist.launch.job import run_job
from tfdist.launch.recording_request import RecordingRequest
from tfdist.launch.signals import Signals
from tfdist.launch.worker_options import Communication
from tfdist.rundir import RunDir
from tfdist.rundir.failure import Failure
from tfdist.selftest.deadline import Deadline
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_log import RowDone, RowOrder, RowsRun, log_file, read_log, saved_model
from tfdist.selftest.row_watch import RowWatch
from tfdist.selftest.selftest_spec import SelftestSpec
from tfdist.training.probes.recording_file import Recording
from tfdist.verify.exit_codes import STOPPED
from tfdist.verify.interruption import Interrupted, raise_if_interrupted
from tfdist.verify.log_tail import last_line
from tfdist.verify.target_spec import TargetSpec

STEPS = 300
"""More than all rows of a job train: a recording that is full would end the job."""

_MOST_SECONDS = 300.0
"""How long a worker may take for a step, and for anything between two."""
_GRACE_SECONDS = 5.0
_SHOWN_LINES = 25


class TimeUp(Exception):
    """The time of the selftest is up."""


@dataclass(frozen=True)
class RowRun:
    """How a row ended in one job.

    Attributes:
        problem: Why it did not finish; empty where it did.
        detail: The end of the traceback or of the log.
        seconds: How long it took.
        recordings: One a worker, the chief's first, where it was recorded.
        found: What the workers have found, the chief's first, where it measures.
        saved: Where a row of its job saved a model.
    """

    problem: str = ""
    detail: str = ""
    seconds: float = 0.0
    recordings: tuple[Recording, ...] = ()
    found: tuple[Mapping[str, Any], ...] = ()
    saved: str = ""


@dataclass(frozen=True)
class JobEnd:
    """How one job ended.

    Attributes:
        rows: What came of the rows that it finished.
        begun: The row that it was in; None where it was in none.
        problem: Why it ended before its last row; empty where it did not.
        detail: The end of the traceback or of the log.
    """

    rows: Mapping[str, RowRun]
    begun: str | None = None
    problem: str = ""
    detail: str = ""


def run_through(names: Sequence[str], run: Callable[[Sequence[str]], JobEnd]) -> dict[str, RowRun]:
    """Runs all rows, with as many jobs as that takes.

    Args:
        names: The rows, in order.
        run: Runs one job of some rows.

    Returns:
        Name -> how the row ended.
    """
    left, ended = list(names), dict[str, RowRun]()
    while left:
        end = run(left)
        ended |= end.rows
        left = [name for name in left if name not in ended]
        if left and end.begun in left:
            ended[end.begun] = RowRun(end.problem or "it did not come to its end", end.detail)
            left = left[left.index(end.begun) + 1 :]
        elif left:
            # Not a row's fault: another job would end the same way.
            ended |= {name: RowRun(end.problem or "it was never begun", end.detail) for name in left}
            left = []
    return ended


@dataclass
class RowJobs:
    """Runs the jobs of a selftest.

    Attributes:
        spec: The options.
        folder: For the jobs' directories.
        signals: Of the selftest.
        deadline: Of the selftest.
    """

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
        communication: Communication = "auto",
        variables: Mapping[str, str] | None = None,
        finished: Callable[[str, RowRun], None] = lambda name, run: None,
    ) -> dict[str, RowRun]:
        """Runs rows in a layout.

        Args:
            names: The rows.
            layout: Where they run.
            recorded: Whether their trainings are recorded.
            perturbed: Whether weights are moved by a rounding error first.
            saved: A model that an earlier job has saved.
            communication: The collectives.
            variables: Environment variables that the workers have besides.
            finished: Called with each row that comes to its end, while the others go on; also before an exception.

        Returns:
            Name -> how the row ended.

        Raises:
            TimeUp: The time is up.
            Interrupted: A signal came.
        """

        def job(left: Sequence[str]) -> JobEnd:
            folder = self._new_folder(layout)
            order = RowOrder(str(folder), tuple(left), saved)
            request = RecordingRequest(str(folder), STEPS, layout.replicas, perturbed=perturbed) if recorded else None
            options: dict[str, Any] = {"recording": request, "communication": communication}
            if request is None:
                options["logical_devices"] = layout.logical
            if variables:
                options["environ"] = variables_added(variables)
            look = functools.partial(_finished_rows, folder, layout.workers, request)
            with RowWatch(look, finished):
                code, problem, detail = self._job(order, layout, folder / "run", options)
            return JobEnd(look(), read_log(log_file(folder, 0)).begun, problem if code else "", detail)

        return run_through(names, job)

    def target(self, order: RowOrder, layout: Layout) -> TargetSpec:
        """The target of a job that runs an order."""
        seconds = min(_MOST_SECONDS, max(self.deadline.left, 1.0))
        return TargetSpec(
            "module",
            self.spec.matrix,
            "selftest",
            args=(order.to_argument(),),
            devices=layout.gpus,
            step_timeout=seconds,
            start_timeout=seconds,
            show="chief" if self.spec.verbose else "none",
        )

    @contextlib.contextmanager
    def quiet(self, folder: Path) -> Iterator[Path]:
        """Has launchers write what they say to a file, which it yields, unless the user wants to see it."""
        said = folder / "launcher.log"
        with said.open("w", buffering=1, errors="replace") as file:
            if self.spec.verbose:
                yield said
                return
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield said

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
        """What the exit code of a job that a signal has ended stands for."""
        return TimeUp() if self.deadline.passed else Interrupted(code)

    def _new_folder(self, layout: Layout) -> Path:
        self.check()
        return self.new_folder(layout.label)

    def _job(self, order: RowOrder, layout: Layout, run_dir: Path, options: dict[str, Any]) -> tuple[int, str, str]:
        """Exit code, problem and detail of one job."""
        target = self.target(order, layout)
        options = {**options, "first_step_timeout": target.step_timeout, "grace": _GRACE_SECONDS}
        with self.quiet(run_dir.parent):
            try:
                code = run_job(target.job(layout.workers, run_dir, **options))
            except TfdistError as error:
                return error.exit_code, str(error), ""
        if code in STOPPED:
            raise self.stopped(code)
        return (code, *failure_of(RunDir(run_dir), code)) if code else (0, "", "")


def failure_of(run: RunDir, code: int) -> tuple[str, str]:
    """What ended a run, in a line, and the end of its traceback or of its log."""
    try:
        failure = Failure.read(run.failure_file)
    except RunDirError:
        failure = None
    if failure is None:
        return f"exit code {code} ({last_line(run.log_file(0, 0)) or 'it said nothing'})", ""
    lines = failure.traceback.splitlines() or list(failure.last_lines)
    return f"exit code {code}: {failure.who} {failure.what_in_line(300)}", "\n".join(lines[-_SHOWN_LINES:])


def _finished_rows(folder: Path, workers: int, request: RecordingRequest | None) -> dict[str, RowRun]:
    """What came of the rows that all workers of a job have finished until now."""
    logs = [read_log(log_file(folder, index)) for index in range(workers)]
    done = [row for row in logs[0].done if all(row.name in (other.name for other in log.done) for log in logs)]
    if not done:
        return {}
    recordings = [] if request is None else [Recording.read(request.file(index)) for index in range(workers)]
    return {row.name: _finished(row, logs, recordings, folder) for row in done}


def _finished(done: RowDone, logs: Sequence[RowsRun], recordings: Sequence[Recording | None], folder: Path) -> RowRun:
    parts = tuple(recording.part(done.fits) for recording in recordings if recording is not None)
    found = tuple(other.found for log in logs for other in log.done if other.name == done.name)
    if recordings and (len(parts) < len(recordings) or not all(part.moments[1:] for part in parts)):
        return RowRun("a worker has no recording of it", seconds=done.seconds)
    return RowRun("", "", done.seconds, parts, found, str(saved_model(folder)))
