""""""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.unit.launch.run_copy.object_memory import ObjectMemory
from tfdist.errors import RunDirError, StoreError
from tfdist.launch.run_copy.copy_store import (
    BYTES_PER_SECOND,
    Copied,
    CopyStore,
    LocalFile,
    dropped_names,
    due_files,
    is_copied,
    job_of,
    local_files,
)
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.storage.object_store import Content, LocalFileError, NoAnswerError


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("config.yaml", True),
        ("logs/worker-0.0.log", True),
        ("state/run.json", True),
        ("state/worker-3.json", True),
        ("state/copy.json", False),  # each side has its own
        ("checkpoints/step-00000010/checkpoint.json", True),
        ("checkpoints/fit-2/step-00000010/replicas.npz", True),
        ("checkpoints/.step-00000010.1a.tmp/replicas.npz", False),  # is being written
        (".model.ab12cd34.1-2-3.tmp.keras", False),
        ("events/train/events.out.tfevents.1.h", True),
        ("checkpoints/generations/00000001.json", False),
    ],
)
def test_what_belongs_to_a_copy(name: str, copied: bool) -> None:
    assert is_copied(name) is copied


def test_links_are_no_files_of_a_run(tmp_path: Path) -> None:
    for name in ("logs/a.log", "state/run.json", "state/worker-0.json", "other/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1234")
    (tmp_path / "link").symlink_to(tmp_path / "logs/a.log")
    (tmp_path / "folder").symlink_to(tmp_path / "other")
    assert [(file.name, file.size) for file in local_files(tmp_path)] == [
        ("logs/a.log", 4),
        ("other/b", 4),
        ("state/run.json", 4),
        ("state/worker-0.json", 4),
    ]
    assert local_files(tmp_path / "none") == []


MARK = "checkpoints/step-00000010/checkpoint.json"
WEIGHTS = "checkpoints/step-00000010/model.weights.h5"


def files(*names: str, size: int = 1, changed: int = 1) -> list[LocalFile]:
    return [LocalFile(name, size, changed) for name in names]


def test_a_run_is_marked_first_and_a_checkpoint_last() -> None:
    found = due_files(files(MARK, WEIGHTS, "config.yaml", "state/run.json"), {}, 0.0)
    assert [file.name for file in found] == ["state/run.json", WEIGHTS, "config.yaml", MARK]


def test_a_file_is_copied_again_when_it_has_changed_and_not_too_often() -> None:
    seconds = 20
    (before,) = files("log", size=seconds * BYTES_PER_SECOND)
    (now,) = files("log", size=seconds * BYTES_PER_SECOND, changed=2)
    copied = {"log": Copied(before, 100.0)}
    assert due_files([before], copied, 1e6, is_last=True) == []
    assert due_files([now], copied, 100.0 + seconds - 1) == []
    assert due_files([now], copied, 100.0 + seconds) == [now]
    assert due_files([now], copied, 100.0, is_last=True) == [now]


def test_states_are_copied_at_the_end() -> None:
    states = files("state/worker-0.json", "state/worker-1.1.error.json")
    assert due_files(states, {}, 0.0) == []
    assert due_files(states, {}, 0.0, is_last=True) == states


def test_what_a_copy_loses() -> None:
    there = [MARK, WEIGHTS, "failure.json", "history.json", "state/copy.json"]
    assert dropped_names(files("history.json", WEIGHTS, MARK), there) == ["failure.json"]
    assert dropped_names(files("history.json"), there) == [MARK, WEIGHTS, "failure.json"]


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
