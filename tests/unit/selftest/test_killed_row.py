"""A killed row, with stand-in verifications."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.selftest.results import DEVICES, ROW, WORKERS
from tfdist.errors import UsageError
from tfdist.launch.signals import Signals
from tfdist.launch.worker_requests import Kill
from tfdist.rundir import RunDir
from tfdist.rundir.failure import Failure
from tfdist.selftest import killed_row
from tfdist.selftest.killed_row import run_killed
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_jobs import Deadline, RowJobs, TimeUp
from tfdist.selftest.row_log import RowOrder
from tfdist.selftest.rows import RowResult, SelftestSpec
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.kill_report import KilledAttempt, KillVerification
from tfdist.verify.killing.trace_comparison import Finding
from tfdist.verify.replicas.verification_report import ComparisonVerdict
from tfdist.verify.runs import Interrupted

ATTEMPTS = (KilledAttempt(0, 6, Kill(0, 6)), KilledAttempt(6, 15, None))
SAME = KillVerification(steps=15, attempts=ATTEMPTS, findings=(Finding("weights", "8 weights"),))
PARTED = KillVerification(
    steps=15, attempts=ATTEMPTS, findings=(Finding("weights", "8 weights", "kernel on worker 0", relative=0.5),)
)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the row with a verification that does what is given; returns the result and what was asked for."""

    def run(does: Callable[[KillSpec], KillVerification], layout: Layout = DEVICES) -> tuple[RowResult, KillSpec]:
        asked: list[KillSpec] = []

        def verify(spec: KillSpec, tell: Callable[[str], None]) -> KillVerification:
            asked.append(spec)
            return does(spec)

        monkeypatch.setattr(killed_row, "verify_killed", verify)
        jobs = RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(100.0))
        return run_killed(ROW, layout, jobs), asked[0]

    return run


def test_a_training_that_ends_as_an_untouched_one(killed: Any) -> None:
    result, spec = killed(lambda spec: SAME, WORKERS)
    assert (result.verdict, result.greatest, result.where) == (
        ComparisonVerdict.PASSED,
        0.0,
        "killed after step 6 of 15",
    )
    assert (spec.workers, spec.logical_devices, spec.devices, spec.kills) == (2, None, (0, 1), 1)
    assert RowOrder.of(spec.args[0]).rows == ("dense",)


def test_parts_of_one_device(killed: Any) -> None:
    _, spec = killed(lambda spec: SAME, Layout("2 logical devices", 1, 2, None, 2))
    assert (spec.workers, spec.logical_devices, spec.devices) == (1, 2, None)


def test_a_training_that_ends_otherwise(killed: Any) -> None:
    result, _ = killed(lambda spec: PARTED)
    assert (result.verdict, result.greatest, result.where) == (
        ComparisonVerdict.PARTED,
        0.5,
        "weights: kernel on worker 0",
    )
    assert "PARTED" in result.detail
    assert result.document["comparisons"][0]["same"] is False


def test_the_failure_of_a_run_is_told_and_not_where_it_was(killed: Any) -> None:
    def fail(spec: KillSpec) -> KillVerification:
        (Path(str(spec.keep)) / "traces").mkdir(parents=True)
        run = RunDir(Path(str(spec.keep)) / "killed")
        run.path.mkdir()
        Failure(1, "there", 1.0, "exception", "bad", type="ValueError", traceback="the end").write(run.failure_file)
        return KillVerification(failure=f"it failed; it is kept in {run}", failure_code=4)

    result, _ = killed(fail)
    assert (result.verdict, result.detail) == (ComparisonVerdict.FAILED, "the end")
    assert result.reason == "exit code 4: worker 1 (there) ValueError: bad"


def test_a_training_that_is_too_short(killed: Any) -> None:
    def refuse(spec: KillSpec) -> KillVerification:
        raise UsageError("too short")

    assert killed(refuse)[0].reason == "too short"


def test_signals(killed: Any) -> None:
    def interrupted(spec: KillSpec) -> KillVerification:
        raise Interrupted(143)

    with pytest.raises(Interrupted):
        killed(interrupted)


def test_no_kill_begins_when_the_time_is_up(tmp_path: Path) -> None:
    with pytest.raises(TimeUp):
        run_killed(ROW, DEVICES, RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(0.0)))
