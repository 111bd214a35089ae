"""Runs a job that is only rehearsed, in a folder that is removed at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfdist.errors import DataError, TfdistError, UsageError, WorkerFailedError
from tfdist.launch.job import run_to_result, say_report
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.run_dir.closing_report import render_report
from tfdist.launch.run_dir.epoch_metrics import last_metrics, metrics_text
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker_requests import RehearsalRequest
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.temp_names import keep, temporary_folder
from tfdist.text import format_count

DEV_STEPS = 2
"""Of training, and of each evaluation, in a fast dev run."""

PLANNED_STEPS = 6
"""That are tried for a plan; the first one compiles."""

_LATER_SECONDS = 30.0
"""Seconds by which the launcher ends a plan that takes too long later than its workers, which know where they are."""

_GRACE_SECONDS = 5.0
_MOST_METRICS = 8
_LAST_LINES = 12


@dataclass(frozen=True)
class FastDevRun:
    """The result of a fast dev run: how it ended.

    Attributes:
        code: The exit code.
        said: What is said of it; empty where the report of the failure has said all.
    """

    code: int
    said: str


def fast_dev_run(spec: JobSpec) -> FastDevRun:
    """Runs a job with a few steps of training and validation of each `fit`.

    Args:
        spec: The job. Its run directory is a temporary one.

    Raises:
        TfdistError: The job could not be started.
    """
    with _work_folder() as folder:
        run = RunDir(folder / "run")
        result = run_to_result(_rehearsed(spec, folder, RehearsalRequest(str(folder), DEV_STEPS)))
        say_report(spec, result)
        if result.code:
            with contextlib.suppress(OSError):  # for the logs that the report of the failure names
                keep(folder)
            return FastDevRun(result.code, f"fast dev run: the logs are in {run.logs_dir}")
        metrics = last_metrics(run.metrics_file)
        values = "" if metrics is None else f"\n  {metrics_text(metrics, _MOST_METRICS)}"
        return FastDevRun(0, f"fast dev run of {spec.target}: {_ran(result.step)}. Nothing was kept.{values}")


def planned_fit(spec: JobSpec, seconds: float) -> dict[str, Any]:
    """Runs a script as far as its first `fit`, and returns what its chief has found out.

    Args:
        spec: The job, all of whose workers are of this machine.

    Raises:
        UsageError: It ended without a `fit`.
        WorkerFailedError: It failed, or took too long; the text has the user's frames.
        TfdistError: The job could not be started.
    """
    with _work_folder() as folder:
        request = RehearsalRequest(str(folder), PLANNED_STEPS, seconds)
        planned = replace(_rehearsed(spec, folder, request), grace=_GRACE_SECONDS, show="none")
        with _stopped_after(seconds + _LATER_SECONDS):
            result = run_to_result(planned)
        _check_ended(spec, result, request, RunDir(folder / "run"))
        found = read_json(request.plan_file)
        assert isinstance(found, dict)
        return found


def _ran(steps: int) -> str:
    if not steps:
        return "it has no fit, and ran as it is"
    return f"{format_count(steps, 'step')} of training, at most {DEV_STEPS} of each fit and of each evaluation"


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    try:
        with temporary_folder("rehearsal") as folder:
            yield folder
    except OSError as error:
        raise UsageError(
            f"There is no place for temporary files: {error}. Expected a folder that can be written. Set TMPDIR."
        ) from error


def _rehearsed(spec: JobSpec, folder: Path, request: RehearsalRequest) -> JobSpec:
    config = spec.config
    if config is not None:
        config = replace(
            config,
            fit=replace(config.fit, epochs=min(1, config.fit.epochs)),
            checkpoint=replace(config.checkpoint, directory=None),
        )
    return replace(spec, config=config, run_dir=str(folder / "run"), rehearsal=request, quiet=True, progress="none")


def _check_ended(spec: JobSpec, result: RunResult, request: RehearsalRequest, run: RunDir) -> None:
    if result.failures and result.stop is None:
        first = result.failures[0]
        if first.type.startswith("tfdist."):
            raise _of_code(first.exit_code)(first.message)
        alone = tuple(replace(failure, log="") for failure in result.failures)
        said = render_report(replace(result, failures=alone), verbose=spec.verbose).removeprefix("error: ")
        raise _of_code(first.exit_code)("\n".join(line for line in said.splitlines() if "are in the log" not in line))
    if result.stop is not None:
        raise WorkerFailedError(f"The plan was stopped: {result.stop.why}. Expected that it comes to its end.")
    if request.plan_file.exists():
        return
    ended = "ended" if result.code == 0 else f"ended with exit code {result.code}"
    lines = "" if result.code == 0 else "".join(f"\n  {line}" for line in _last_lines(run))
    raise UsageError(
        f"{spec.target} {ended} without a fit. Expected a Keras script that calls model.fit: tfdist plan shows what "
        f"its first one does.{lines}"
    )


def _of_code(code: int) -> type[TfdistError]:
    return next((kind for kind in (UsageError, DataError) if kind.exit_code == code), WorkerFailedError)


def _last_lines(run: RunDir) -> list[str]:
    try:
        lines = run.log_file(0, 0).read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-_LAST_LINES:]


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Ends the job of this process after so long, as a SIGTERM does."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
