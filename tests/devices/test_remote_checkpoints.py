"""Checkpoints on a file system of TensorFlow's, here the one that it holds in memory."""

from __future__ import annotations

import contextlib
import errno
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist import keras_repairs
from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy, SavePolicy
from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_files import MARKER
from tfdist.checkpoint.checkpoint_store import CheckpointStore, RemoteCheckpointStore, open_store
from tfdist.errors import RunDirError
from tfdist.runtime import tensorflow_store
from tfdist.runtime.object_stores import path_of
from tfdist.storage.object_path import ObjectPath
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback

CONTENT = {"model.weights.h5": b"weights" * 9, "replicas.npz": b"rows", "summary.json": b"{}"}


@pytest.fixture
def url() -> Iterator[str]:
    folder = f"ram://tfdist/{secrets.token_hex(4)}"
    yield folder
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.rmtree(folder)


def write(store: CheckpointStore, step: int) -> None:
    with store.writing(step) as draft:
        for name, content in CONTENT.items():
            draft.add(name, content)


def read(path: ObjectPath) -> bytes:
    with path.open() as file:
        return file.read()


def whole(store: CheckpointStore) -> list[str]:
    return [entry.path.name for entry in store.stored() if entry.fault() is None]


def test_a_url_is_a_remote_store(url: str, tmp_path: Path) -> None:
    assert isinstance(open_store(url), RemoteCheckpointStore)
    assert not isinstance(open_store(tmp_path), RemoteCheckpointStore)


def test_the_latest_comes_first_and_what_is_removed_is_gone(url: str) -> None:
    store = open_store(url)
    assert store.stored() == []
    for step in (5, 100, 20, 20):
        write(store, step)
    assert whole(store) == ["step-00000100", "step-00000020.1", "step-00000020", "step-00000005"]
    store.remove(store.stored()[0])
    assert whole(store) == ["step-00000020.1", "step-00000020", "step-00000005"]


@pytest.mark.parametrize("name", [*CONTENT, MARKER])
def test_damage_is_noticed(name: str, url: str) -> None:
    store = open_store(url)
    write(store, 5)
    entry = store.stored()[0]
    for content in (b"x", b"x" * len(read(entry.path / name))):
        (entry.path / name).unlink()  # this file system appends to what is there
        with tf.io.gfile.GFile(str(entry.path / name), "wb") as file:
            file.write(content)
        assert name in str(entry.fault())
    (entry.path / name).unlink()
    assert name in str(entry.fault())


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("failure", [Killed(), OSError(errno.EIO, "gone"), OSError(errno.ENOSPC, "full")])
def test_what_fails_at_any_file_leaves_the_last_one_whole(
    failure: BaseException, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url)
    write(store, 5)
    write_bytes = ObjectPath.write_bytes
    for failing in range(len(CONTENT) + 1):
        left = [failing]

        def fail(self: ObjectPath, content: Any, left: list[int] = left) -> None:
            if not left[0]:
                raise failure
            left[0] -= 1
            write_bytes(self, content)

        with monkeypatch.context() as patch, pytest.raises(Killed if isinstance(failure, Killed) else RunDirError):
            patch.setattr(ObjectPath, "write_bytes", fail)
            if isinstance(failure, Killed):
                patch.setattr(ObjectPath, "rmtree", lambda self: None)  # who is killed tidies nothing up
            write(store, 10)
        assert whole(store) == ["step-00000005"]
        store.remove_unfinished()
        assert [entry.step for entry in store.stored()] == [5]
    write(store, 10)
    assert whole(store) == ["step-00000010", "step-00000005"]


def test_errors_are_those_of_the_system(url: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read(path_of(url) / "absent")
    assert caught.value.filename == f"{url}/absent"


def test_a_file_system_without_an_answer_is_waited_for_no_longer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error, and not taken for an empty one."""
    write(open_store(url), 5)
    go = threading.Event()
    monkeypatch.setattr(tensorflow_store, "ANSWER_SECONDS", 0.01)
    for name, act in (
        ("listdir", lambda store: store.stored()),
        ("stat", lambda store: store.stored()[0].is_marked),
        ("remove", lambda store: store.stored()[0].path.unlink()),
        ("rmtree", lambda store: store.stored()[0].path.rmtree()),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tf.io.gfile, name, lambda path: go.wait(50))
            with pytest.raises((RunDirError, TimeoutError), match="no answer within 0.01 s"):
                act(open_store(url))
    go.set()


def unavailable(path: str) -> Any:
    raise tf.errors.UnavailableError(None, None, "gone")


def test_what_is_out_of_reach_is_not_taken_for_absent_or_damaged(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(url)
    assert store.stored() == []
    write(store, 5)
    entry = store.stored()[0]
    for name, act in (
        ("listdir", store.stored),
        ("stat", store.remove_unfinished),
        ("stat", entry.fault),
    ):
        with monkeypatch.context() as patch, pytest.raises(RunDirError, match="are out of reach: gone. Expected a dir"):
            patch.setattr(tf.io.gfile, name, unavailable)
            act()
    with monkeypatch.context() as patch, pytest.raises(RunDirError, match="are out of reach: gone"):
        patch.setattr(tf.io.gfile, "listdir", as_if_absent)
        patch.setattr(tf.io.gfile, "stat", unavailable)
        store.stored()
    assert whole(store) == ["step-00000005"]


def as_if_absent(path: str) -> Any:
    """As TensorFlow's `listdir`, where it cannot ask whether this is a directory."""
    raise tf.errors.NotFoundError(None, None, "Could not find directory")


def test_large_files_are_written_in_blocks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow_store, "BLOCK_BYTES", 7)
    content = np.random.default_rng(1).bytes(100)
    store = open_store(url)
    with store.writing(5) as draft:
        draft.add("file", memoryview(content))
    assert read(store.stored()[0].path / "file") == content
    assert whole(store) == ["step-00000005"]


def fit(url: str, epochs: int) -> list[np.ndarray]:
    """Trains from the latest checkpoint on, until so many epochs are done; returns the weights."""
    strategy = tf.distribute.get_strategy()
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = np.random.default_rng(1).normal(size=(24, 5)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4)
    checkpoints = CheckpointManager(url, RetentionPolicy(2), strategy)
    found = checkpoints.latest()
    resumed = None if found is None else found[0]
    model.optimizer.build(model.trainable_variables)
    facts = CheckpointSummary(0, 0, 0, 3, 4, 24, 1, 1, 0.0)
    callback = CheckpointCallback(checkpoints, SavePolicy(4), facts, 6, dict, resumed, strategy)
    begin = 0 if resumed is None else resumed.epoch
    model.fit(data, initial_epoch=begin, epochs=epochs, verbose=0, shuffle=False, callbacks=[callback])
    assert writer().wait(50)
    return model.get_weights()


def test_a_training_resumes_from_there(url: str) -> None:
    keras_repairs.install()
    expected = fit(f"{url}/whole", 2)
    fit(f"{url}/ended", 1)
    assert whole(open_store(f"{url}/ended"))[0].startswith("step-00000006")
    received = fit(f"{url}/ended", 2)
    assert [weight.tobytes() for weight in received] == [weight.tobytes() for weight in expected]
    assert len(whole(open_store(f"{url}/ended"))) == 2


def test_a_checkpoint_that_disappears_is_an_error(url: str) -> None:
    fit(url, 1)
    checkpoints = CheckpointManager(url, RetentionPolicy(2), tf.distribute.get_strategy())
    assert checkpoints.latest() is not None
    tf.io.gfile.rmtree(url)
    with pytest.raises(RunDirError, match="replicas.npz of the checkpoint .* has disappeared since it was checked"):
        checkpoints.replica_values()


def test_a_run_that_starts_does_not_take_those_of_another(url: str) -> None:
    checkpoints = CheckpointManager(url, RetentionPolicy(2), tf.distribute.get_strategy())
    checkpoints.check_none()
    write(open_store(url), 5)
    with pytest.raises(RunDirError, match=f"There are checkpoints of another run in {url}. Expected none"):
        checkpoints.check_none()
