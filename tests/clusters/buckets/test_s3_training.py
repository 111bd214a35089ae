"""Trainings whose data and checkpoints lie in a bucket: a kill, and going on after it; stores that fail."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import pytest

from tests.clusters.buckets.faulty_proxy import Fault, FaultyProxy
from tests.clusters.buckets.s3_training import config_with_data_in, write_records
from tests.clusters.buckets.stores import RunningStore, reaching
from tests.helpers.cli_process import begun, tfdist
from tests.helpers.ports import free_ports
from tests.helpers.waiting import until
from tfdist.rundir import RunDir, WorkerState

SECONDS = 120
OPTIONS = ("--set", "fit.epochs=2", "--set", "checkpoint.every_steps=10")


def weights(run: RunDir) -> list[bytes]:
    return [weight.tobytes() for weight in keras.models.load_model(run.model_file).get_weights()]


def whole(store: RunningStore, bucket: str) -> list[str]:
    """The checkpoints that have their marker."""
    return sorted(name.split("/")[1] for name in store.names(bucket, "run/") if name.endswith("/checkpoint.json"))


class Gated:
    """A training whose data is in a bucket; it waits after the fifth update of its weights, which is step 15.

    Args:
        store: Has the bucket.
        folder: Has the config.
    """

    def __init__(self, store: RunningStore, folder: Path) -> None:
        self.bucket = store.new_bucket()
        self._opened = folder / "open-0"
        self._environ = store.environment
        gate = {"folder": str(folder), "updates": [5]}
        fit = {"epochs": 2, "callbacks": [{"build": "tests.workers.step_gate.StepGate", "args": gate}]}
        self._config = config_with_data_in(write_records(store, self.bucket), folder, seed=3, fit=fit)

    def run(self, run: RunDir, *options: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Trains to the end."""
        self._opened.touch()
        done = tfdist(*self._command(run, options), timeout=SECONDS, environ=self._environ)
        assert done.returncode == code, done.stderr
        return done

    def kill(self, run: RunDir, *options: object, when: Callable[[], object]) -> None:
        """Trains, and kills the chief where it waits, as soon as something holds."""
        with begun(*self._command(run, options), environ=self._environ) as process:
            until(when, SECONDS)
            state = WorkerState.read(run.state_file(0))
            assert state is not None
            os.kill(state.pid, signal.SIGKILL)
            self._opened.touch()
            assert process.wait(SECONDS) == 4

    def _command(self, run: RunDir, options: Sequence[object]) -> list[object]:
        return ["train", self._config, *OPTIONS, "--run-dir", run.path, *options]


@pytest.fixture(scope="module")
def undisturbed(moto: RunningStore, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[bytes]]:
    """The weights after a training of so many workers to which nothing happens."""

    @functools.cache
    def trained(workers: int) -> list[bytes]:
        folder = tmp_path_factory.mktemp(f"undisturbed-{workers}")
        run = RunDir(folder / "run")
        Gated(moto, folder).run(run, "--nproc", workers)
        return weights(run)

    return trained


@pytest.mark.bound(500)
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_bit(
    workers: int, undisturbed: Callable[[int], list[bytes]], moto: RunningStore, tmp_path: Path
) -> None:
    training, run = Gated(moto, tmp_path), RunDir(tmp_path / "run")
    bucket = training.bucket
    options = ("--nproc", workers, "--set", f"checkpoint.directory=s3://{bucket}/run")
    training.kill(run, *options, when=lambda: whole(moto, bucket))
    left = whole(moto, bucket)[-1]
    if workers == 1:  # as on another host, which has nothing of the run but its config
        run = RunDir(tmp_path / "elsewhere")
    again = training.run(run, *options, "--resume", "auto" if workers == 1 else "must")
    assert f"from s3://{bucket}/run/{left}" in again.stdout
    assert weights(run) == undisturbed(workers)
    assert len(whole(moto, bucket)) == 2  # as the config says
    for name in ("config.yaml", "ledger.jsonl", "logs/worker-0.0.log"):
        assert "AWS_SECRET" not in (run.path / name).read_text()
    verbs_work_on(run, bucket, moto, tmp_path)


@pytest.mark.slow
@pytest.mark.bound(500)
def test_a_run_goes_on_by_its_copy_on_another_host(
    undisturbed: Callable[[int], list[bytes]], moto: RunningStore, tmp_path: Path
) -> None:
    """Checkpoints and all; and the host that had it before is told that it is behind."""
    training, run, elsewhere = Gated(moto, tmp_path), RunDir(tmp_path / "run"), RunDir(tmp_path / "elsewhere")
    copy = ("--copy-to", f"s3://{training.bucket}/copy")
    training.kill(run, *copy, when=lambda: list(run.checkpoints_dir.glob("step-*/checkpoint.json")))
    again = training.run(elsewhere, *copy, "--resume", "auto")
    assert "read the run from its copy in s3://" in again.stderr
    assert "resumes after step 10 " in again.stdout
    assert weights(elsewhere) == undisturbed(1)
    found = moto.objects(training.bucket, "copy/")
    there = {path.relative_to(elsewhere.path).as_posix() for path in elsewhere.path.rglob("*") if path.is_file()}
    assert {name.removeprefix("copy/") for name in found} == there
    assert found["copy/model.keras"] == elsewhere.model_file.read_bytes()
    assert "has the copy of a later start" in training.run(run, *copy, "--resume", "auto", code=2).stderr


def verbs_work_on(run: RunDir, bucket: str, moto: RunningStore, folder: Path) -> None:
    """What `tfdist checkpoints` does with them, without TensorFlow."""

    def checkpoints(*arguments: object, code: int = 0) -> str:
        done = tfdist("checkpoints", *arguments, timeout=SECONDS, environ=moto.environment)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    older, latest = whole(moto, bucket)
    assert checkpoints("ls", run.path).count(" yes") == 2
    assert checkpoints("verify", run.path).count(": whole") == 2
    assert "model.weights.h5" in checkpoints("inspect", run.path, "--json")
    checkpoints("export", run.path, folder / "a.weights.h5")
    key = f"run/{latest}/model.weights.h5"
    assert (folder / "a.weights.h5").read_bytes() == moto.objects(bucket, key)[key]
    moto.client().put_object(Bucket=bucket, Key=f"run/{older}/replicas.npz", Body=b"other")
    assert f"{older}: replicas.npz has 5 bytes instead of" in checkpoints("verify", run.path, code=5)
    assert f"removed {older}" in checkpoints("prune", run.path, "--keep", 1)
    assert whole(moto, bucket) == [latest]
    assert not [name for name in moto.names(bucket, "run/") if older in name]


@pytest.mark.slow
@pytest.mark.bound(300)
def test_a_store_that_fails_and_throttles_ends_no_training(
    moto: RunningStore, proxy: FaultyProxy, tmp_path: Path
) -> None:
    """Every fifth request fails, and every seventh of the data ends early."""
    bucket = moto.new_bucket()
    config = config_with_data_in(write_records(moto, bucket), tmp_path, seed=3)

    def decide(method: str, path: str) -> Fault | None:
        count = len(proxy.requests)
        if count % 5 == 0:
            return Fault(status=503, code="SlowDown") if count % 2 else Fault(status=500, code="InternalError")
        return Fault(cut_after=100) if count % 7 == 0 and method == "GET" and "/data/" in path else None

    proxy.decide = decide
    run = RunDir(tmp_path / "run")
    start = ("train", config, *OPTIONS, "--set", f"checkpoint.directory=s3://{bucket}/run", "--run-dir", run.path)
    done = tfdist(*start, timeout=SECONDS, environ=reaching(proxy.endpoint))
    assert done.returncode == 0, done.stderr
    assert "No checkpoint at step" not in run.log_file(0, 0).read_text()
    assert len(whole(moto, bucket)) == 2


def test_what_is_wrong_with_the_store_is_told_before_the_training(moto: RunningStore, tmp_path: Path) -> None:
    config = config_with_data_in(f"s3://{moto.new_bucket()}/data/train-*", tmp_path)
    start = ("train", config, "--set", "checkpoint.directory=s3://no-such-bucket-here/run", "--run-dir", tmp_path / "a")
    done = tfdist(*start, timeout=SECONDS, environ=moto.environment)
    assert done.returncode == 2
    assert "The checkpoints in s3://no-such-bucket-here/run are out of reach: " in done.stderr
    assert "answered 404 NoSuchBucket: there is no such bucket. Make it, or correct the URL" in done.stderr
    start = ("train", config, "--run-dir", tmp_path / "b")
    done = tfdist(*start, timeout=SECONDS, environ=moto.environment)
    assert done.returncode == 5
    assert "No file matches s3://" in done.stderr


@pytest.mark.parametrize("what", ["Cannot look for s3://", "The checkpoints in s3://"])
def test_a_store_that_does_not_answer_is_no_fault_of_the_jobs(what: str, tmp_path: Path) -> None:
    """Kubernetes ends a job for good on 2 and 5."""
    (port,) = free_ports(1)
    config = config_with_data_in("s3://bucket/data/train-*", tmp_path)
    start = ["train", config, "--run-dir", tmp_path / "a"]
    if "checkpoints" in what:
        start += ["--set", "checkpoint.directory=s3://bucket/run"]
    done = tfdist(*start, timeout=SECONDS, environ=reaching(f"http://127.0.0.1:{port}"))
    assert done.returncode == 4, done.stderr
    assert what in done.stderr
    assert "the store does not answer: no whole answer from http://127.0.0.1" in done.stderr
