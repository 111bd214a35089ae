"""The row that is killed and resumed, by `tfdist verify --kill`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from tfdist.errors import TfdistError
from tfdist.rundir import RunDir
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_jobs import RowJobs, failure_of
from tfdist.selftest.row_log import RowOrder
from tfdist.selftest.rows import Row, RowResult, failed
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.kill_report import KillVerification, render, to_json
from tfdist.verify.killing.kill_verification import verify_killed
from tfdist.verify.replicas.verification_report import ComparisonVerdict
from tfdist.verify.runs import Interrupted


def run_killed(row: Row, layout: Layout, jobs: RowJobs) -> RowResult:
    """Kills the training of a row in a layout once, and compares its end with an untouched one.

    Raises:
        TimeUp: The time is up.
        Interrupted: A signal came.
    """
    jobs.check()
    folder = jobs.new_folder(f"{layout.label} killed")
    spec = _kill_spec(jobs, layout, RowOrder(str(folder), (row.name,)))
    with jobs.quiet(folder):
        try:
            verification = verify_killed(spec, lambda line: None)
        except Interrupted as interrupted:
            raise jobs.stopped(interrupted.code) from None
        except TfdistError as error:
            jobs.check()
            return failed(row, layout, str(error))
    if verification.failure is not None:
        # A run that ends with the time has not failed: its timeouts are cut to that.
        jobs.check()
        return failed(row, layout, *failure_of(_failed_run(Path(str(spec.keep))), verification.failure_code))
    return _judged(row, layout, spec, verification)


def _failed_run(folder: Path) -> RunDir:
    """The run that failed, after which no other one begins."""
    runs = [RunDir(path) for path in folder.iterdir()]
    return next((run for run in runs if run.failure_file.exists()), runs[0])


def _kill_spec(jobs: RowJobs, layout: Layout, order: RowOrder) -> KillSpec:
    target = jobs.target(order, layout)
    options: dict[str, Any] = {field.name: getattr(target, field.name) for field in fields(target)}
    options |= {"keep": f"{order.folder}/runs", "logical_devices": layout.logical}
    return KillSpec(**options, workers=layout.workers, kills=1)


def _judged(row: Row, layout: Layout, spec: KillSpec, verification: KillVerification) -> RowResult:
    document = to_json(spec, verification)
    parted = next((finding for finding in verification.findings if finding.parted), None)
    if parted is None:
        where = f"killed after step {verification.attempts[0].ended} of {verification.steps}"
        return RowResult(row, layout, ComparisonVerdict.PASSED, 0.0, 0.0, where, document=document)
    return RowResult(
        row,
        layout,
        ComparisonVerdict.PARTED,
        parted.relative,
        0.0,
        f"{parted.what}: {parted.parted}",
        "a training that was killed and resumed ends with other numbers than an untouched one",
        render(verification),
        document,
    )
