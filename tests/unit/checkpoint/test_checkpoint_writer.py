"""What the background does with one checkpoint: it tells of its failures, and never raises."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.checkpoint.checkpoint_contents import CheckpointSummary
from tfdist.checkpoint.checkpoint_files import WEIGHTS, stored
from tfdist.checkpoint.checkpoint_policies import CheckpointInfo, RetentionPolicy
from tfdist.checkpoint.checkpoint_pruner import CheckpointPruner, info_of
from tfdist.checkpoint.checkpoint_store import open_store
from tfdist.checkpoint.checkpoint_writer import CheckpointWriter
from tfdist.errors import RunDirError


class FakeWeights:
    """Are a few bytes, and call `before` when they are written."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.before = before

    def take(self) -> None:
        raise AssertionError("it is called before, in the main thread")

    def content(self) -> memoryview:
        self.before()
        return memoryview(b"weights")


def summary(total: int, epoch: int = 0, step: int = 1, metrics: dict[str, float] | None = None) -> CheckpointSummary:
    return CheckpointSummary(epoch, step, total, 7, 32, 100, 1, 1, 0.0, metrics=metrics or {})


def write(
    folder: Path,
    told: CheckpointSummary,
    retention: RetentionPolicy | None = None,
    before: Callable[[], None] = lambda: None,
) -> bool:
    store = open_store(folder)
    pruning = CheckpointPruner(store, retention or RetentionPolicy(2))
    job = CheckpointWriter(store, FakeWeights(before), {"seeds/0": np.arange(3)}, told, pruning)
    job.run()
    return job.is_whole


def names(folder: Path) -> list[str]:
    return [entry.path.name for entry in stored(folder) if entry.fault() is None]


def test_it_writes_and_prunes(tmp_path: Path) -> None:
    assert all(write(tmp_path, summary(step)) for step in (5, 10, 15))
    assert names(tmp_path) == ["step-00000015", "step-00000010"]
    assert (tmp_path / "step-00000015" / WEIGHTS).read_bytes() == b"weights"


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def strange() -> None:
    raise ValueError("nobody expected this")


@pytest.mark.parametrize(("fail", "told"), [(full, "The disk is full"), (strange, "ValueError: nobody expected this")])
def test_a_failure_is_logged_and_the_next_is_tried(
    fail: Callable[[], None], told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, summary(5))
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert not write(tmp_path, summary(10), before=fail)
    assert "No checkpoint at step 10. The training continues without it." in caplog.text
    assert told in caplog.text
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000005"]
    assert write(tmp_path, summary(15))
    assert names(tmp_path) == ["step-00000015", "step-00000005"]


def test_what_is_too_much_and_out_of_reach_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (5, 10):
        write(tmp_path, summary(step))

    def prune(self: CheckpointPruner, step: int) -> None:
        raise RunDirError("out of reach")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "tfdist"):
        patch.setattr(CheckpointPruner, "prune", prune)
        assert write(tmp_path, summary(15))
    assert "Old checkpoints stay until the next one is written. out of reach" in caplog.text
    assert len(names(tmp_path)) == 3
    assert write(tmp_path, summary(20))
    assert len(names(tmp_path)) == 2


def test_the_best_is_known_from_the_disk(tmp_path: Path) -> None:
    """Another process resumes the run: what it removes does not depend on what the first one had in memory."""
    for epochs, loss in enumerate((0.5, 0.2, 0.4, 0.3), 1):
        told = summary(10 * epochs, epochs, 0, {"loss": 1.0, "val_loss": loss})
        write(tmp_path, told, RetentionPolicy(1, best="val_loss"))
        write(tmp_path, summary(10 * epochs + 5, epochs, 5), RetentionPolicy(1, best="val_loss"))
    assert names(tmp_path) == ["step-00000045", "step-00000020"]
    assert [info_of(entry) for entry in stored(tmp_path)] == [CheckpointInfo(45), CheckpointInfo(20, epochs=2)]
    assert info_of(stored(tmp_path)[1]).metrics == {"loss": 1.0, "val_loss": 0.2}


@pytest.mark.parametrize(("number", "stay"), [(errno.ETIMEDOUT, True), (errno.EMFILE, True), (errno.EIO, False)])
def test_the_best_stays_where_it_cannot_be_reached(
    number: int, stay: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which is not known of what goes; one that is damaged is no best any more."""
    retention = RetentionPolicy(1, best="val_loss")
    for epochs, loss in enumerate((0.2, 0.5), 1):
        write(tmp_path, summary(10 * epochs, epochs, 0, {"val_loss": loss}), retention)
    opened = os.open

    def fail(path: Any, *options: Any, **named: Any) -> int:
        if str(path).endswith("00000010/summary.json"):
            raise OSError(number, os.strerror(number))
        return opened(path, *options, **named)

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "tfdist"):
        patch.setattr(os, "open", fail)
        assert write(tmp_path, summary(30, 3, 0, {"val_loss": 0.4}), retention)
    assert ("step-00000010" in names(tmp_path)) == stay
    assert ("Old checkpoints stay" in caplog.text) == stay
    assert write(tmp_path, summary(40, 4, 0, {"val_loss": 0.3}), retention)
    assert names(tmp_path) == ["step-00000040", *(["step-00000010"] if stay else [])]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"step": 0}', '{"step": 0, "epoch": null}'])
def test_a_summary_that_cannot_be_read_says_only_the_step(content: str, tmp_path: Path) -> None:
    write(tmp_path, summary(5))
    entry = stored(tmp_path)[0]
    (entry.path / "summary.json").write_text(content)
    assert info_of(entry) == CheckpointInfo(5)


def test_a_metric_that_no_epoch_has_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    pruning = CheckpointPruner(store, RetentionPolicy(1, best="val_los"))
    with caplog.at_level(logging.WARNING, "tfdist"):
        for told in (summary(5), summary(10, 1, 0, {"loss": 0.1, "val_loss": 0.2}), summary(20, 2, 0, {"loss": 0.1})):
            CheckpointWriter(store, FakeWeights(), {}, told, pruning).run()
    assert [record.message for record in caplog.records] == [
        "checkpoint.best is val_los, which the epochs of this run do not have. Expected one of loss, val_loss. "
        "None is kept as the best."
    ]


def test_a_summary_from_before_a_field_was_there_is_read() -> None:
    content = summary(5).to_dict()
    del content["metrics"]
    assert CheckpointSummary.from_dict(content) == summary(5)
