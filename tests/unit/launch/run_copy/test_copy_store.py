from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.unit.launch.run_copy.object_memory import ObjectMemory
from tfdist.errors import RunDirError, StoreError
from tfdist.launch.run_copy.copy_store import CopyStore, job_of
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.storage.object_store import Content, LocalFileError, NoAnswerError

URL = "s3://bucket/run"


def run_of(folder: Path, job: str) -> RunDir:
    run = RunDir(folder / "run")
    run.state_dir.mkdir(parents=True, exist_ok=True)
    write_json(run.run_file, {"job": job})
    return run


@pytest.fixture
def memory() -> ObjectMemory:
    return ObjectMemory()


@pytest.fixture
def store(memory: ObjectMemory) -> CopyStore:
    return CopyStore(memory, URL + "/")


def copied(store: CopyStore, memory: ObjectMemory, folder: Path, job: str) -> RunDir:
    """A run that has been copied."""
    run = run_of(folder, job)
    (run.path / "empty").touch()
    for name in ("state/run.json", "empty"):
        store.write(run.path, name)
    store.note_job(run)
    return run


def test_a_run_goes_on_where_there_is_nothing_but_its_copy(
    store: CopyStore, memory: ObjectMemory, tmp_path: Path
) -> None:
    copied(store, memory, tmp_path / "a", "1")
    memory.objects[f"{URL}/checkpoints/step-00000010/checkpoint.json"] = b"{}"
    elsewhere = RunDir(tmp_path / "b/run")
    assert store.begin(elsewhere, "auto", overwrite=False) == 3
    assert job_of(elsewhere.run_file) == "1"
    assert (elsewhere.path / "empty").read_bytes() == b""
    assert (elsewhere.path / "checkpoints/step-00000010/checkpoint.json").read_text() == "{}"
    assert [path.name for path in elsewhere.path.parent.iterdir()] == ["run"]
    # Once it is there, it is what counts.
    assert store.begin(elsewhere, "auto", overwrite=False) == 0


def test_an_earlier_run_is_replaced_on_demand_alone(store: CopyStore, memory: ObjectMemory, tmp_path: Path) -> None:
    new = RunDir(tmp_path / "new")
    assert store.begin(new, "never", overwrite=False) == 0
    copied(store, memory, tmp_path / "a", "1")
    with pytest.raises(RunDirError, match="copy of an earlier run.*--resume auto.*--overwrite"):
        store.begin(new, "never", overwrite=False)
    assert store.begin(new, "never", overwrite=True) == 0
    # It is removed once the run has begun, which somebody else may prevent.
    assert f"{URL}/state/run.json" in memory.objects


def test_a_directory_that_is_older_than_the_copy_is_refused(
    store: CopyStore, memory: ObjectMemory, tmp_path: Path
) -> None:
    run = copied(store, memory, tmp_path / "a", "1")
    # Begun here again, and killed before it was copied.
    run_of(tmp_path / "a", "2")
    assert store.begin(run, "auto", overwrite=False) == 0
    elsewhere = RunDir(tmp_path / "b/run")
    store.begin(elsewhere, "auto", overwrite=False)
    run_of(tmp_path / "b", "3")
    store.write(elsewhere.path, "state/run.json")
    with pytest.raises(RunDirError, match="later start of this run.*Move .* away"):
        store.begin(run, "auto", overwrite=False)


def test_what_cannot_be_written_is_told_before_the_training(
    store: CopyStore, memory: ObjectMemory, tmp_path: Path
) -> None:
    memory.fault = OSError(errno.EACCES, "forbidden. Let these credentials write there", URL)
    with pytest.raises(RunDirError, match=f"--copy-to {URL} cannot be used: forbidden. Let these"):
        store.begin(RunDir(tmp_path / "run"), "never", overwrite=False)
    memory.fault = NoAnswerError(errno.ETIMEDOUT, "no answer", URL)
    with pytest.raises(StoreError, match="no answer. Start it again"):
        store.begin(RunDir(tmp_path / "run"), "never", overwrite=False)


class Shortening(ObjectMemory):
    """A store under whose first writes somebody makes the file smaller."""

    def __init__(self, file: Path, times: int) -> None:
        super().__init__()
        self._file, self._times = file, times

    def write(self, url: str, content: Content) -> None:
        assert not isinstance(content, memoryview), "a map would end this process"
        begin = content[: len(content) // 2]
        if self._times and len(content):
            self._times -= 1
            os.truncate(self._file, len(begin) // 2)
        super().write(url, begin + content[len(begin) :])


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_file_that_becomes_smaller_is_read_again_and_then_named(times: int, tmp_path: Path) -> None:
    run = run_of(tmp_path, "1")
    file = run.path / "embeddings.npy"
    file.write_bytes(b"x" * 65536)
    memory = Shortening(file, times)
    store = CopyStore(memory, URL)
    if times < 3:
        store.write(run.path, file.name)
        assert memory.objects[f"{URL}/embeddings.npy"] == file.read_bytes()
        return
    with pytest.raises(LocalFileError, match="it became smaller while it was read"):
        store.write(run.path, file.name)
    assert not memory.objects


def test_a_copy_reaches_no_other_directory(store: CopyStore, memory: ObjectMemory, tmp_path: Path) -> None:
    copied(store, memory, tmp_path / "a", "1")
    memory.objects[f"{URL}/logs/../../../outside"] = b"bad"
    with pytest.raises(RunDirError, match="no file of a run"):
        store.begin(RunDir(tmp_path / "b/run"), "auto", overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
