"""Verifications of stand-in runs, which leave given recordings."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from tests.unit.verify.replicas.recordings import begin, recording, step, weights
from tfdist.errors import UsageError
from tfdist.launch.job import JobSpec
from tfdist.rundir import RunDir
from tfdist.training.probes.probe_files import Recording
from tfdist.verify.replicas import verification as runs_module
from tfdist.verify.replicas.variants import VerifySpec
from tfdist.verify.replicas.verification import verify
from tfdist.verify.replicas.verification_report import ComparisonVerdict, Verification, render
from tfdist.verify.runs import Interrupted

ONE = recording(begin(), step(1))
OTHER = recording(begin(), step(1, loss=1.2))
HALF = recording(begin(), step(1), compute_dtypes=["bfloat16", "float32"])


class Jobs:
    """Stands in for `run_job`: does what is said for each run directory's name, else what the reference does."""

    def __init__(self, **does: Recording | int) -> None:
        self.does = {name.replace("_", "-"): what for name, what in does.items()}
        self.started: list[JobSpec] = []

    def __call__(self, job: JobSpec) -> int:
        self.started.append(job)
        what = self.does.get(Path(str(job.run_dir)).name, self.does.get("1-replica", ONE))
        if isinstance(what, int):
            log = RunDir(Path(str(job.run_dir))).log_file(0, 0)
            log.parent.mkdir(parents=True)
            log.write_text("usage: train.py\nerror: no such option\n\n")
            return what
        assert job.recording is not None
        for index in job.membership.local:
            what.write(job.recording.file(index))
        return 0

    @property
    def names(self) -> list[str]:
        return [Path(str(job.run_dir)).name for job in self.started]


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Verifies with stand-in jobs."""

    def work(jobs: Jobs, **options: Any) -> Verification:
        monkeypatch.setattr(runs_module, "run_job", jobs)
        return verify(VerifySpec("script", "train.py", "train", **{"steps": 1, **options}), lambda line: None)

    return work


def verdicts(verification: Verification) -> list[tuple[str, ComparisonVerdict]]:
    return [(result.label, result.verdict) for result in verification.results]


@pytest.mark.parametrize(("losses", "code"), [((math.nan, math.inf), 6), ((1.0, math.nan), 0)])
def test_a_training_of_nan_is_not_the_same_but_nothing(losses: tuple[float, float], code: int, verified: Any) -> None:
    trained = recording(begin(), *(step(number, loss=loss) for number, loss in enumerate(losses, 1)))
    verification = verified(Jobs(**{"1_replica": trained}), nproc=2, steps=2)
    assert verification.code == code
    if code:
        assert verdicts(verification) == [("1 replica", ComparisonVerdict.FAILED)]
        assert "the loss is NaN or infinite after each step" in render(verification, 2)


def test_the_runs_of_a_verification(verified: Any, tmp_path: Path) -> None:
    jobs = Jobs()
    verification = verified(jobs, args=("--x",), seed=5, nproc=2, devices=(0, 1), step_timeout=9.0)
    assert verdicts(verification) == [("2 replicas", ComparisonVerdict.PASSED), ("2 workers", ComparisonVerdict.PASSED)]
    assert jobs.names == ["1-replica", "1-replica-again", "2-replicas", "2-workers"]
    for job in jobs.started:
        assert (job.target, job.args, job.seed, job.show, job.devices, job.step_timeout) == (
            "train.py",
            ("--x",),
            5,
            "none",
            (0, 1),
            9.0,
        )
    assert [(job.membership.num_workers, job.recording.replicas, job.recording.perturbed) for job in jobs.started] == [
        (1, 1, False),
        (1, 1, True),
        (1, 2, False),
        (2, 2, False),
    ]
    assert not any((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("gpus", [0, 2])
def test_where_there_is_a_gpu_the_report_says_that_tensor_float_32_is_off(verified: Any, gpus: int) -> None:
    jobs = Jobs(**{"1_replica": dataclasses.replace(ONE, facts={**ONE.facts, "gpus": gpus})})
    verification = verified(jobs)
    assert verification.gpus == gpus
    assert ("TensorFloat-32 is off in all of these runs" in render(verification, 1)) == bool(gpus)


def test_xla_is_compared_by_the_option_that_every_job_has(verified: Any) -> None:
    """Whatever `--jit` says of the others."""
    jobs = Jobs()
    verified(jobs, replicas=1, tolerance=0.1, jit="off", also=("xla",))
    assert [job.jit for job in jobs.started] == ["off", "on"]


@pytest.mark.parametrize(("gpus", "said"), [(0, 1), (2, 0)])
def test_a_memory_limit_without_gpus_is_said_to_have_no_effect(
    gpus: int, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    made = dataclasses.replace(ONE, facts={**ONE.facts, "gpus": gpus})
    monkeypatch.setattr(runs_module, "run_job", Jobs(**{"1-replica": made}))
    verify(VerifySpec("script", "train.py", "train", steps=1, memory_limit=100), lines.append)
    assert len([line for line in lines if line.startswith("The memory limit of 100 MiB")]) == said


def test_with_a_given_tolerance_nothing_is_measured(verified: Any) -> None:
    jobs = Jobs()
    verification = verified(jobs, tolerance=1e-3)
    assert jobs.names == ["1-replica", "2-replicas"]
    assert (verification.least, verification.is_measured) == (1e-3, False)


def test_gradients_that_are_sent_in_16_bits_are_judged_so_where_they_are_sent(verified: Any) -> None:
    rounded = recording(begin(), step(1, norm=2.01, weights=weights(kernel=[1.0, -1.2], bias=0.5)))
    jobs = Jobs(**{"2_replicas": rounded, "2_workers_bfloat16": rounded})
    verification = verified(jobs, nproc=2, compression="bfloat16")
    assert verdicts(verification) == [
        ("2 replicas", ComparisonVerdict.PARTED),
        ("2 workers, bfloat16", ComparisonVerdict.PASSED),
    ]
    assert [(job.membership.num_workers, job.compression) for job in jobs.started] == [
        (1, "none"),
        (1, "none"),
        (1, "none"),
        (2, "bfloat16"),
    ]


@pytest.mark.parametrize(
    ("other", "cause"),
    [({"norm": 3.0}, "compression"), ({"norm": 3.0, "loss": 1.2}, "whole batch")],
)
def test_more_than_sending_in_16_bits_explains(verified: Any, other: dict[str, float], cause: str) -> None:
    jobs = Jobs(**{"2_workers_bfloat16": recording(begin(), step(1, **other))})
    (result,) = verified(jobs, replicas=1, nproc=2, compression="bfloat16").results
    assert (result.verdict, [found.key for found in result.causes]) == (ComparisonVerdict.PARTED, [cause])


def test_a_given_tolerance_is_that_of_compressed_gradients_too(verified: Any) -> None:
    jobs = Jobs(**{"2_workers_bfloat16": recording(begin(), step(1, norm=2.01))})
    verification = verified(jobs, replicas=1, nproc=2, compression="bfloat16", tolerance=1e-4)
    assert verification.code == 6


def test_runs_that_differ(verified: Any) -> None:
    verification = verified(Jobs(**{"2_replicas": OTHER}))
    (result,) = verification.results
    assert (result.verdict, [cause.key for cause in result.causes], verification.code) == (
        ComparisonVerdict.PARTED,
        ["whole batch"],
        6,
    )


def test_a_training_that_cannot_be_repeated_is_not_compared_further(verified: Any) -> None:
    jobs = Jobs(**{"1_replica_again": OTHER})
    verification = verified(jobs)
    assert verdicts(verification) == [
        ("1 replica again", ComparisonVerdict.PARTED),
        ("2 replicas", ComparisonVerdict.SKIPPED),
    ]
    assert jobs.names == ["1-replica", "1-replica-again"]
    assert verification.code == 6


def test_a_failed_run_is_kept_and_its_exit_code_passed_on(verified: Any, tmp_path: Path) -> None:
    verification = verified(Jobs(**{"2_replicas": 5}), nproc=2)
    assert verdicts(verification) == [("2 replicas", ComparisonVerdict.FAILED), ("2 workers", ComparisonVerdict.PASSED)]
    assert verification.code == 5
    (kept,) = (tmp_path / "temporary").iterdir()
    reason = str(verification.results[0].reason)
    assert str(kept) in reason
    assert "exit code 5 (error: no such option)" in reason


def test_a_reference_that_fails_ends_it(verified: Any) -> None:
    jobs = Jobs(**{"1_replica": 4})
    verification = verified(jobs)
    assert (jobs.names, verification.code) == (["1-replica"], 4)


def test_a_target_that_never_calls_fit(verified: Any) -> None:
    with pytest.raises(UsageError, match="The target never called fit"):
        verified(Jobs(**{"1_replica": recording(begin())}))


def test_a_run_that_never_calls_fit_where_the_reference_does(verified: Any) -> None:
    verification = verified(Jobs(**{"2_replicas": recording(begin())}))
    assert verdicts(verification) == [("2 replicas", ComparisonVerdict.FAILED)]
    assert verification.code == 4


def test_a_worker_that_has_left_nothing_to_compare(verified: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle(Jobs):
        def __call__(self, job: JobSpec) -> int:
            code = super().__call__(job)
            assert job.recording is not None
            if job.membership.num_workers > 1:
                job.recording.file(1).unlink()
            return code

    (result,) = verified(Idle(), replicas=1, nproc=3).results
    assert result.verdict is ComparisonVerdict.FAILED and str(result.reason).startswith("Worker(s) 1 never called fit")


def test_a_signal_ends_it(verified: Any, tmp_path: Path) -> None:
    jobs = Jobs(**{"1_replica_again": 130})
    with pytest.raises(Interrupted) as interrupted:
        verified(jobs)
    assert interrupted.value.code == 130
    assert not any((tmp_path / "temporary").iterdir())


def test_variants_that_the_target_overrules_are_skipped(verified: Any) -> None:
    verification = verified(Jobs(**{"1_replica": HALF}), replicas=1, also=("precision", "xla"))
    assert [(result.label, result.verdict, result.reason) for result in verification.results] == [
        ("XLA on", ComparisonVerdict.SKIPPED, "not available here: Keras does not compile this model with XLA."),
        (
            "float32",
            ComparisonVerdict.SKIPPED,
            "not available here: layers of the target name a 16-bit dtype of their own.",
        ),
    ]


def test_precisions_are_compared_with_the_tolerance_of_16_bits(verified: Any) -> None:
    jobs = Jobs(**{"1_replica": HALF, "float32": recording(begin(), step(1, loss=1.01))})
    assert verdicts(verified(jobs, replicas=1, also=("precision",))) == [("float32", ComparisonVerdict.PASSED)]
    assert jobs.started[-1].recording is not None and jobs.started[-1].recording.precision == "float32"


def test_run_directories_are_kept_on_request(verified: Any, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    jobs = Jobs()
    verified(jobs, keep=str(keep))
    assert {str(job.run_dir) for job in jobs.started} == {str(keep / name) for name in jobs.names}
    assert keep.is_dir()
    with pytest.raises(UsageError, match="--keep expects a new or an empty directory"):
        verified(Jobs(), keep=str(keep))
