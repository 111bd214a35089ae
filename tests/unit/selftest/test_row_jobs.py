"""Jobs of rows, with a stand-in for `run_job`."""

from __future__ import annotations

import select
import time
from pathlib import Path

import pytest

from tests.unit.selftest.results import DEVICES, WORKERS
from tests.unit.verify.replicas.recordings import begin, recording, step
from tfdist.errors import FormingError
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.signals import Signals
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.rundir.failure import Failure
from tfdist.selftest import row_jobs
from tfdist.selftest.layouts import Layout
from tfdist.selftest.row_jobs import Deadline, RowJobs, TimeUp
from tfdist.selftest.row_log import RowDone, RowOrder, begin_line, done_line, log_file
from tfdist.selftest.rows import SelftestSpec
from tfdist.verify.runs import Interrupted


class Job:
    """Stands in for `run_job`: workers finish the first rows, then `code` ends the job in the row after them."""

    def __init__(self, finished: int = 9, code: int = 0, moments: bool = True) -> None:
        self.finished, self.code, self.moments = finished, code, moments
        self.specs: list[JobSpec] = []

    def __call__(self, spec: JobSpec) -> int:
        print("a launcher's report")
        self.specs.append(spec)
        order = RowOrder.of(spec.args[0])
        for worker in range(spec.membership.num_workers):
            lines = [begin_line(name) for name in order.rows[: self.finished + 1]]
            for number, name in enumerate(order.rows[: self.finished]):
                lines.insert(
                    2 * number + 1, done_line(RowDone(name, range(number, number + 1), 0.5, {"worker": worker}))
                )
            log_file(Path(order.folder), worker).write_text("".join(lines))
            self._record(spec.recording, worker)
        if self.code:
            run = RunDir(Path(str(spec.run_dir)))
            run.path.mkdir()
            Failure(1, "there", 1.0, "exception", "bad", type="ValueError", traceback="one\ntwo").write(
                run.failure_file
            )
        return self.code

    def _record(self, request: RecordingRequest | None, worker: int) -> None:
        if request is not None:
            moments = (begin(), step()) if self.moments else (begin(),)
            recording(*moments).write(request.file(worker))


@pytest.fixture
def jobs(tmp_path: Path) -> RowJobs:
    return RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(100.0))


def test_what_the_workers_found(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    job = Job()
    monkeypatch.setattr(row_jobs, "run_job", job)
    ended = jobs.run(["copies"], WORKERS, variables={"NCCL_P2P_DISABLE": "1"}, communication="ring", seconds=30.0)
    assert ended["copies"].found == ({"worker": 0}, {"worker": 1})
    assert ended["copies"].seconds == 0.5
    (spec,) = job.specs
    assert (spec.target_kind, spec.target, spec.devices) == ("module", "tfdist.selftest.matrix", (0, 1))
    assert (spec.environ or {})["NCCL_P2P_DISABLE"] == "1"
    assert (spec.communication, spec.recording, spec.membership.num_workers) == ("ring", None, 2)
    assert (spec.step_timeout, spec.first_step_timeout, spec.start_timeout) == (30.0, 30.0, 30.0)
    assert capsys.readouterr() == ("", "")  # the launcher's report is kept from the table


def test_workers_that_share_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    monkeypatch.setattr(row_jobs, "run_job", job)
    layout = Layout("2 workers on 1 GPU", 2, 2, (3,))
    RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(100.0)).run(["dense"], layout, recorded=True)
    (asked,) = job.specs
    assert (asked.devices, asked.share_gpu, asked.membership.num_workers) == ((3,), True, 2)


def test_the_options_reach_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    monkeypatch.setattr(row_jobs, "run_job", job)
    spec = SelftestSpec(batch_norm="replica", communication="ring", compression="bfloat16", kernels="tensorflow")
    RowJobs(spec, tmp_path, Signals(), Deadline(100.0)).run(["dense"], WORKERS, recorded=True)
    (asked,) = job.specs
    assert asked.options_in_common() == {
        "--batch-norm": "replica",
        "--check": "auto",
        "--checkpoint-every": "none",
        "--communication": "ring",
        "--compression": "bfloat16",
        "--jit": "auto",
        "--kernels": "tensorflow",
        "--share-gpu": "none",
        "--strict": "none",
        "--shard": "none",
        "--offload": "none",
        "--shard-embeddings": "none",
        "--shard-over": "all",
        "--tensor": "1",
        "--context": "1",
    }


def test_recorded_rows(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job()
    monkeypatch.setattr(row_jobs, "run_job", job)
    run = jobs.run(["dense"], WORKERS, recorded=True, perturbed=True)["dense"]
    assert [len(part.moments) for part in run.recordings] == [2, 2]
    # No wait is longer than the time that is left.
    assert job.specs[0].step_timeout <= 100.0
    request = job.specs[0].recording
    assert request is not None and request.replicas == 2 and request.perturbed


def test_rows_are_told_of_as_they_come_to_their_end(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(row_jobs, "run_job", Job(finished=1, code=4))
    ended = jobs.run(["dense", "masks"], WORKERS, recorded=True, finished=lambda name, run: told.append(name))
    # What fails is told by the result alone.
    assert (told, set(ended)) == (["dense"], {"dense", "masks"})


def test_a_row_without_a_step_on_a_worker_is_no_success(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_jobs, "run_job", Job(moments=False))
    assert jobs.run(["dense"], WORKERS, recorded=True)["dense"].problem == "a worker has no recording of it"


def test_the_failure_of_a_row(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_jobs, "run_job", Job(finished=1, code=4))
    ended = jobs.run(["dense", "masks"], DEVICES)
    assert not ended["dense"].problem
    assert ended["masks"].problem == "exit code 4: worker 1 (there) ValueError: bad"
    assert ended["masks"].detail == "one\ntwo"


def test_a_job_that_does_not_start(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(spec: JobSpec) -> int:
        raise FormingError("nobody came")

    monkeypatch.setattr(row_jobs, "run_job", fail)
    assert jobs.run(["dense"], DEVICES)["dense"].problem == "nobody came"


@pytest.mark.parametrize("code", [4, 3])
def test_a_job_that_ends_with_the_time_has_not_failed(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own timeouts are cut to the time that is left, and end it in the same moment."""
    jobs = RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(0.2))

    def end(spec: JobSpec) -> int:
        time.sleep(0.3)
        if code == 3:
            raise FormingError("nobody came")
        return code

    monkeypatch.setattr(row_jobs, "run_job", end)
    with pytest.raises(row_jobs.TimeUp):
        jobs.run(["dense"], DEVICES)


def test_a_signal_ends_everything(jobs: RowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_jobs, "run_job", lambda spec: 130)
    with pytest.raises(Interrupted) as interrupted:
        jobs.run(["dense"], DEVICES)
    assert interrupted.value.code == 130


def test_when_the_time_is_up_no_job_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_jobs, "run_job", lambda spec: pytest.fail("a job began"))
    with pytest.raises(TimeUp):
        RowJobs(SelftestSpec(), tmp_path, Signals(), Deadline(0.0)).run(["dense"], DEVICES)


def test_a_job_that_the_deadline_ends_is_no_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Signals() as signals, Deadline(0.05) as deadline:

        def wait_for_the_signal(spec: JobSpec) -> int:
            with Signals() as own:
                select.select([own], [], [], 10.0)
                return 128 + own.received[0]

        monkeypatch.setattr(row_jobs, "run_job", wait_for_the_signal)
        with pytest.raises(TimeUp):
            RowJobs(SelftestSpec(), tmp_path, signals, deadline).run(["dense"], DEVICES)
