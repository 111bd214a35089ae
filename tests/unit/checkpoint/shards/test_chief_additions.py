"""The chief makes a checkpoint whole once every worker has said that its shard is on the disk, and not before."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.disks import small_disk
from tfdist.checkpoint.checkpoint_contents import CheckpointSummary
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.checkpoint.checkpoint_policies import RetentionPolicy
from tfdist.checkpoint.checkpoint_pruner import CheckpointPruner
from tfdist.checkpoint.checkpoint_store import open_store
from tfdist.checkpoint.checkpoint_writer import CheckpointWriter
from tfdist.checkpoint.shards import chief_additions
from tfdist.checkpoint.shards.chief_additions import ShardAssembly
from tfdist.checkpoint.shards.joined_file import SHARD_TABLE, opened_weights, shard_file_name
from tfdist.checkpoint.shards.sharded_saving import ShardJob
from tfdist.checkpoint.shards.staging_folder import Staging, make_folder, token_in
from tfdist.errors import RunDirError
from tfdist.launch.worker.launcher_channel import ChiefPost
from tfdist.rundir import atomic_files, direct_io
from tfdist.sharding.file_shards import FileShards, SharedValue

WORKERS = 3


class ChiefsWeights:
    """The file is `<aabbcc>`: each worker has two letters."""

    shards = FileShards(8, WORKERS, (SharedValue(1, (0, 2, 4, 6)),))

    def take(self) -> None:
        raise AssertionError("it is called before, in the main thread")

    def content(self) -> memoryview:
        return memoryview(b"aa")

    def rest(self) -> memoryview:
        return memoryview(b"<>")


def begun(folder: Path) -> Staging:
    return Staging(make_folder(folder, 5), is_common=True)


def chiefs_job(folder: Path, staging: Staging) -> CheckpointWriter:
    store = open_store(folder)
    summary = CheckpointSummary(0, 1, 5, 7, 32, 100, WORKERS, WORKERS, 0.0)
    pruner = CheckpointPruner(store, RetentionPolicy(2))
    return CheckpointWriter(store, ShardAssembly(staging, ChiefsWeights()), {"a": np.arange(3)}, summary, pruner)


def shard_job(staging: Staging, worker: int) -> ShardJob:
    assert staging.folder is not None
    return ShardJob(staging.folder, worker, WORKERS, memoryview(b"?bc"[worker : worker + 1] * 2))


def test_it_is_whole_when_the_last_part_has_come(tmp_path: Path) -> None:
    staging = begun(tmp_path)
    job = chiefs_job(tmp_path, staging)
    chief = threading.Thread(target=job.run)
    chief.start()
    shard_job(staging, 2).run()
    time.sleep(0.2)
    assert chief.is_alive() and not stored(tmp_path)
    shard_job(staging, 1).run()
    chief.join(20)
    (made,) = stored(tmp_path)
    assert job.is_whole and made.is_marked and made.fault() is None
    with opened_weights(made.path) as file:
        assert file.read() == b"<aabbcc>"
    names = sorted(path.name for path in tmp_path.joinpath(made.path.name).iterdir())
    assert [name for name in names if name.startswith(".")] == []
    assert names == ["checkpoint.json", "replicas.npz", "summary.json", "weights.parts.json", "weights.rest",
                     *(shard_file_name(worker, WORKERS) for worker in range(WORKERS))]  # fmt: skip


def test_a_part_that_does_not_come_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chief_additions.collect, "__defaults__", (0.2,))
    staging = begun(tmp_path)
    shard_job(staging, 1).run()
    with caplog.at_level(logging.WARNING, "tfdist"):
        job = chiefs_job(tmp_path, staging)
        job.run()
    assert not job.is_whole and list(tmp_path.iterdir()) == []
    assert "No checkpoint at step 5" in caplog.text and "did not come within 0 s: 2. Expected each" in caplog.text


def test_what_a_worker_could_not_write_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    staging = begun(tmp_path)

    def full(path: Path, content: Any) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with caplog.at_level(logging.WARNING, "tfdist"):
        with monkeypatch.context() as patch:
            patch.setattr(direct_io, "write_uncached", full)
            shard_job(staging, 1).run()
        assert "This worker's part of a checkpoint is missing. The disk is full" in caplog.text
        assert staging.folder is not None and not (staging.folder / shard_file_name(1, WORKERS)).exists()
        job = chiefs_job(tmp_path, staging)
        chief = threading.Thread(target=job.run)
        chief.start()
        time.sleep(0.2)
        assert chief.is_alive() and staging.folder.exists(), "another worker is still writing there"
        shard_job(staging, 2).run()
        chief.join(20)
    assert not job.is_whole and list(tmp_path.iterdir()) == []
    assert "Worker 1 could not write its part of the checkpoint. The disk is full" in caplog.text


def test_what_the_chief_could_not_write_is_removed_once_nobody_writes_there(tmp_path: Path) -> None:
    staging = begun(tmp_path)
    assert staging.folder is not None
    (staging.folder / SHARD_TABLE).mkdir()  # which cannot be replaced by a file
    job = chiefs_job(tmp_path, staging)
    chief = threading.Thread(target=job.run)
    chief.start()
    shard_job(staging, 1).run()
    time.sleep(0.2)
    assert chief.is_alive() and staging.folder.exists()
    shard_job(staging, 2).run()
    chief.join(20)
    assert not job.is_whole and list(tmp_path.iterdir()) == []


def test_a_worker_whose_chief_has_given_up_ends_quietly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    staging = begun(tmp_path)
    staging.discard()
    with caplog.at_level(logging.WARNING, "tfdist"):
        shard_job(staging, 1).run()
    assert "does not learn what became of this worker's part" in caplog.text


def test_what_became_of_a_part_comes_by_the_launchers_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No file can be written, also not what is said of it."""
    chief, worker = ChiefPost(), ChiefPost()
    worker.connect(lambda letter: chief.deliver(json.loads(json.dumps(letter))) is None)
    staging = begun(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(chief_additions, "chief_post", lambda: worker)
        patch.setattr(direct_io, "write_uncached", full)
        patch.setattr(atomic_files, "write_json", full)
        shard_job(staging, 1).run()
    with monkeypatch.context() as patch:
        patch.setattr(chief_additions, "chief_post", lambda: worker)
        shard_job(staging, 2).run()
    chief.deliver({"subject": str(staging.folder), "content": {"worker": 2, "bytes": "2"}})
    monkeypatch.setattr(chief_additions, "chief_post", lambda: chief)
    with caplog.at_level(logging.WARNING, "tfdist"):
        chiefs_job(tmp_path, staging).run()
    assert "Worker 1 could not write its part of the checkpoint. The disk is full" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_without_launchers_a_full_disk_takes_at_least_the_name_of_who_could_not_write(tmp_path: Path) -> None:
    """The chief waits for nobody then."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        staging = begun(disk)
        assert staging.folder is not None
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
            while filler.write(bytes(1024)):
                pass
        shard_job(staging, 1).run()
        with pytest.raises(RunDirError, match="Worker 1 could not write its part of the checkpoint, or what became of"):
            chief_additions.collect(staging.folder, 2)


def test_a_damaged_receipt_is_an_error(tmp_path: Path) -> None:
    staging = begun(tmp_path)
    assert staging.folder is not None
    (staging.folder / ".receipt-1.json").write_text("{")
    with pytest.raises(RunDirError, match="What worker 1 says of its part"):
        chief_additions.collect(staging.folder, 2)


def test_a_folder_is_known_by_its_token(tmp_path: Path) -> None:
    one, other = make_folder(tmp_path, 5), make_folder(tmp_path, 5)
    assert token_in(one) and token_in(one) != token_in(other)
    assert token_in(tmp_path / "absent") == ""
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="could not be written"):
        make_folder(tmp_path / "file", 5)


def test_what_a_killed_chief_left_is_removed(tmp_path: Path) -> None:
    shard_job(begun(tmp_path), 1).run()
    open_store(tmp_path).remove_unfinished()
    assert list(tmp_path.iterdir()) == []
