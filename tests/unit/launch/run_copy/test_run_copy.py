from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import until
from tests.unit.launch.run_copy.object_memory import ObjectMemory
from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.run_copy import run_copy as module
from tfdist.launch.run_copy.copy_store import CopyStore
from tfdist.launch.run_copy.run_copy import RunCopy, run_with_copy
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.storage.object_store import LocalFileError

URL = "s3://bucket/run"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.01)


@pytest.fixture
def memory() -> ObjectMemory:
    return ObjectMemory()


def spec(run: RunDir, **options: Any) -> JobSpec:
    return JobSpec(Membership(None, (0,)), "script", "train.py", run_dir=str(run.path), **options)


def write(run: RunDir, **content: str) -> None:
    for name, text in content.items():
        (run.path / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (run.path / name.replace("__", "/")).write_text(text)


def mark(run: RunDir, job: str) -> None:
    run.state_dir.mkdir(parents=True, exist_ok=True)
    write_json(run.run_file, {"job": job})


def copied(memory: ObjectMemory, run: RunDir, does: Callable[[], int], **options: Any) -> None:
    """A job that does something, with its copy."""
    job = spec(run, **options)
    copy = RunCopy(job, run, CopyStore(memory, URL))
    copy.check()
    copy.close(does())


def test_a_copy_is_made_while_the_job_runs_and_when_it_has_ended(memory: ObjectMemory, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")

    def train() -> int:
        mark(run, "1")
        write(run, log="one", checkpoints__step_1="x")
        until(lambda: memory.objects.get(f"{URL}/log") == b"one")
        write(run, log="one, two", model="trained")
        return 0

    copied(memory, run, train)
    found = memory.below(URL)
    assert {name: found[name] for name in ("log", "model")} == {"log": b"one, two", "model": b"trained"}
    assert "state/run.json" in found
    # What has not changed was copied once.
    assert memory.written.count(f"{URL}/state/run.json") == 1


def test_the_checkpoints_of_the_copy_are_those_of_the_run(memory: ObjectMemory, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    first, second = (run.checkpoints_dir / f"step-0000000{number}" for number in (1, 2))

    def train() -> int:
        mark(run, "1")
        for folder in (first, second):
            folder.mkdir(parents=True)
            (folder / "checkpoint.json").touch()
            until(lambda folder=folder: f"{URL}/checkpoints/{folder.name}/checkpoint.json" in memory.objects)
        (first / "checkpoint.json").unlink()
        first.rmdir()
        return 143

    copied(memory, run, train)
    kept = [name for name in memory.below(URL) if name.startswith("checkpoints/")]
    assert kept == ["checkpoints/step-00000002/checkpoint.json"]


def test_a_directory_of_another_job_is_not_copied(memory: ObjectMemory, tmp_path: Path) -> None:
    """Which runs there, so that this one ends with an error."""
    run = RunDir(tmp_path / "run")
    mark(run, "1")
    write(run, log="of the other")
    copied(memory, run, lambda: 2, overwrite=True)
    assert list(memory.below(URL)) == ["state/copy.json"]
    # A job that has nothing left to train completes the copy.
    copied(memory, run, lambda: 0, resume="auto")
    assert memory.below(URL)["log"] == b"of the other"


def test_a_replaced_copy_has_nothing_of_the_earlier_run(memory: ObjectMemory, tmp_path: Path) -> None:
    memory.objects |= {f"{URL}/state/run.json": b'{"job": "0"}', f"{URL}/history.json": b"old"}
    run = RunDir(tmp_path / "run")

    def train() -> int:
        mark(run, "1")
        return 0

    copied(memory, run, train, overwrite=True)
    assert sorted(memory.below(URL)) == ["state/copy.json", "state/run.json"]


def test_a_store_that_fails_is_told_of_and_ends_nothing(
    memory: ObjectMemory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(tmp_path / "run")
    told = []

    def train() -> int:
        memory.fault = OSError(errno.ENOSPC, "the store is full", URL)
        mark(run, "1")
        until(lambda: told.append(capsys.readouterr().err) or "is behind: the store is full. " in "".join(told))
        memory.fault = None
        until(lambda: f"{URL}/state/run.json" in memory.objects)
        memory.fault = OSError(errno.ENOSPC, "the store is full", URL)
        write(run, log="more")
        return 0

    copied(memory, run, train)
    said = "".join(told) + capsys.readouterr().err
    assert said.count("is behind: ") == 1
    assert f"warning: the copy of the run in {URL} is not complete: the store is full. All of it is in {run}" in said


@pytest.mark.parametrize("fault", [LocalFileError(errno.EIO, "it cannot be read"), MemoryError()], ids=repr)
def test_a_file_that_cannot_be_read_is_named_and_holds_up_no_other(
    fault: Exception,
    memory: ObjectMemory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = RunDir(tmp_path / "run")
    reads = CopyStore.write

    def fails(store: CopyStore, folder: Path, name: str) -> None:
        if name.endswith("1/weights"):
            raise fault
        reads(store, folder, name)

    monkeypatch.setattr(CopyStore, "write", fails)

    def train() -> int:
        mark(run, "1")
        for number in (1, 2):
            write(run, **{f"checkpoints__{number}__weights": "x", f"checkpoints__{number}__checkpoint.json": "{}"})
        return 0

    copied(memory, run, train)
    said = capsys.readouterr().err
    if isinstance(fault, MemoryError):
        assert "is not complete: MemoryError. All of it is in" in said
        return
    assert "is not complete: checkpoints/1/weights is not in it: it cannot be read. All of it is in" in said
    kept = {name for name in memory.below(URL) if name.startswith("checkpoints/")}
    # What marks a checkpoint as whole is not copied without all of its files.
    assert kept == {"checkpoints/2/weights", "checkpoints/2/checkpoint.json"}


def test_an_elastic_job_asks_with_each_start_of_its_workers(memory: ObjectMemory, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    copy = RunCopy(spec(run), run, CopyStore(memory, URL))
    copy.check()
    mark(run, "1")
    until(lambda: f"{URL}/state/run.json" in memory.objects)
    copy.check()
    mark(run, "2")
    copy.close(0)
    assert memory.objects[f"{URL}/state/run.json"] == run.run_file.read_bytes()
    assert memory.written.count(f"{URL}/state/copy.json") == 1


def test_two_starts_do_not_write_one_copy(
    memory: ObjectMemory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(tmp_path / "run")

    def train() -> int:
        mark(run, "1")
        until(lambda: run.copy_file.exists())
        memory.objects[f"{URL}/state/run.json"] = b'{"job": "of another host"}'
        write(run, log="mine")
        return 0

    copied(memory, run, train)
    assert "log" not in memory.below(URL)
    assert "another start of this run writes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("gs://bucket/run", {}, "Expected s3://BUCKET/RUN"),
        ("runs/a", {}, "Expected s3://BUCKET/RUN"),
        ("s3://bucket", {}, "Expected s3://BUCKET/RUN, of this run alone"),
        ("s3://bucket/run-*", {}, "Expected s3://BUCKET/RUN"),
        (URL, {"run_dir": None}, "Expected --run-dir DIR beside it"),
    ],
)
def test_where_there_can_be_no_copy(tmp_path: Path, url: str, options: dict[str, Any], says: str) -> None:
    job = JobSpec(Membership(None, (0,)), "script", "train.py", **{"run_dir": str(tmp_path), **options})
    with pytest.raises(UsageError, match=says.replace(".", r"\.")):
        run_with_copy(job, url, lambda job: 0)


def test_a_launcher_without_the_chief_copies_nothing(tmp_path: Path) -> None:
    from tfdist.cluster.cluster_spec import Cluster

    cluster = Cluster.parse("10.0.0.1:20000,10.0.0.2:20000")
    job = JobSpec(Membership(cluster, (1,)), "script", "train.py", run_dir=str(tmp_path))
    assert run_with_copy(job, URL, lambda given: 7 if given is job else 1) == 7
