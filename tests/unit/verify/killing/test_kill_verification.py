"""Verifications of stand-in runs, which leave given traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.verify.killing.traces import KILLED, WHOLE, run, trace
from tfdist.errors import UsageError
from tfdist.launch.job import JobSpec
from tfdist.launch.worker_requests import Kill
from tfdist.rundir import RunDir
from tfdist.training.probes.probe_files import Trace, write_line
from tfdist.verify.killing import kill_verification as run_module
from tfdist.verify.killing.kill_plan import KillSpec
from tfdist.verify.killing.kill_report import KilledAttempt, KillVerification
from tfdist.verify.killing.kill_verification import verify_killed
from tfdist.verify.killing.trace_comparison import TracedRun
from tfdist.verify.runs import Interrupted


class Jobs:
    """Stands in for `run_job`: leaves the given traces, or fails with an exit code."""

    def __init__(self, **does: TracedRun | int) -> None:
        self.does = does
        self.started: list[JobSpec] = []

    def __call__(self, job: JobSpec) -> int:
        self.started.append(job)
        run_dir = RunDir(Path(str(job.run_dir)))
        what = self.does.get(run_dir.path.name.replace("-", "_"), WHOLE)
        if isinstance(what, int):
            run_dir.logs_dir.mkdir(parents=True)
            run_dir.log_file(0, 0).write_text("an earlier attempt\n")
            run_dir.log_file(0, 1).write_text("error: no such option\n")
            return what
        assert job.trace is not None
        for number, attempt in enumerate(what.attempts):
            for worker, part in enumerate(attempt):
                with job.trace.steps_file(worker, number).open("w") as file:
                    for entry in (*part.steps, *part.epochs):
                        write_line(file, entry)
        for worker, end in enumerate(what.ends):
            if end is not None:
                end.write(job.trace.end_file(worker))
        return 0


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Verifies with stand-in jobs."""

    def work(jobs: Jobs, **options: Any) -> KillVerification:
        monkeypatch.setattr(run_module, "run_job", jobs)
        return verify_killed(KillSpec("script", "train.py", "train", **{"kills": 2, **options}), lambda line: None)

    return work


def test_the_runs_of_a_verification(verified: Any, tmp_path: Path) -> None:
    jobs = Jobs(killed=KILLED)
    verification = verified(jobs, args=("--x",), seed=8, step_timeout=9.0, logical_devices=3)
    whole, killed = jobs.started
    assert [Path(str(job.run_dir)).name for job in jobs.started] == ["untouched", "killed"]
    for job in jobs.started:
        assert (job.target, job.args, job.seed, job.show, job.resume) == ("train.py", ("--x",), 8, "none", "auto")
        assert (job.membership.num_workers, job.step_timeout, job.logical_devices) == (2, 9.0, 3)
    assert (whole.trace.kills, whole.max_restarts) == ((), 0)
    first, second = killed.trace.kills
    assert (killed.max_restarts, first, second) == (2, Kill(1, 5), Kill(0, 7))
    assert (verification.code, verification.passed, verification.steps) == (0, True, 12)
    assert verification.attempts == (
        KilledAttempt(0, 5, first),
        KilledAttempt(3, 8, second),
        KilledAttempt(6, 12, None),
    )
    assert not any((tmp_path / "temporary").iterdir())


def test_an_attempt_that_fails_by_itself(verified: Any) -> None:
    verification = verified(Jobs(killed=run(trace(0, 1), Trace(), trace(0, 8), trace(6))))
    assert [attempt.kill for attempt in verification.attempts] == [None] * 4
    assert verification.code == 0


def test_runs_that_differ_are_checked_for_repeatability(verified: Any) -> None:
    jobs = Jobs(killed=run(trace(0, 5), trace(3, 8), trace(6, shift=1.0)))
    verification = verified(jobs)
    assert (verification.code, verification.passed, verification.is_repeatable) == (6, False, True)
    assert Path(str(jobs.started[-1].run_dir)).name == "untouched-again"


def test_a_training_that_cannot_be_repeated(verified: Any) -> None:
    other = run(trace(0, 5), trace(3, 8), trace(6, shift=1.0))
    verification = verified(Jobs(killed=other, untouched_again=run(trace(shift=2.0))))
    assert (verification.code, verification.is_repeatable) == (6, False)


def test_a_failed_run_is_kept_and_its_exit_code_passed_on(verified: Any, tmp_path: Path) -> None:
    verification = verified(Jobs(killed=5))
    assert (verification.code, verification.passed) == (5, False)
    assert "the killed run ended with exit code 5 (error: no such option); it is kept in " in verification.failure
    assert any((tmp_path / "temporary").iterdir())


def test_a_signal_ends_it(verified: Any) -> None:
    with pytest.raises(Interrupted) as ended:
        verified(Jobs(untouched=130))
    assert ended.value.code == 130


def test_a_target_without_fit(verified: Any) -> None:
    with pytest.raises(UsageError, match="The target never called fit"):
        verified(Jobs(untouched=TracedRun((), (None, None))))


def test_a_run_that_is_too_short(verified: Any) -> None:
    with pytest.raises(UsageError, match="--kills 3, or more epochs"):
        verified(Jobs(), kills=4)


def test_a_run_that_ended_before_its_last_kill(verified: Any) -> None:
    with pytest.raises(UsageError, match="came to its end before kill 2 of 2"):
        verified(Jobs(killed=run(trace(0, 5), trace(3))))


def test_fewer_steps_than_the_target_trains(verified: Any) -> None:
    jobs = Jobs(killed=KILLED)
    verified(jobs, steps=12)
    assert [job.trace.steps for job in jobs.started if job.trace] == [12, 12]
