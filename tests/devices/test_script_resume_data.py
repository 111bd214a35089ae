"""Scripts whose data cannot resume within an epoch resume at the end of one."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.devices.killed_script import (
    BATCH,
    SAMPLES,
    STEPS,
    Script,
    assert_same,
    compiled,
    network,
    samples,
)
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.keras_repairs.files.weights_copy import WeightsCopy


def generated(script: Script) -> None:
    x, y = samples()

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, SAMPLES, BATCH):
            yield x[start : start + BATCH], y[start : start + BATCH]

    spec = (tf.TensorSpec([None, 5], tf.float32), tf.TensorSpec([None], tf.int64))
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    script.fit(compiled(network(), "sgd"), data, epochs=3)


def test_data_that_is_not_tfdists_goes_on_with_a_whole_epoch_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Script(tmp_path / "whole", generated)
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert whole.run()
    assert "its data is a tf.data.Dataset, and it calls Python code" in caplog.text
    killed = Script(tmp_path / "killed", generated, every=2)
    assert not killed.run("on_train_batch_begin", STEPS + 4)
    assert killed.said == f"the end of epoch 1 in {tmp_path / 'killed' / 'checkpoints'}"
    assert [entry.step for entry in stored(tmp_path / "killed" / "checkpoints")] == [STEPS]
    assert killed.run()
    # This one's order does not change.
    assert_same(killed, whole)


def test_a_stop_within_an_epoch_tells_of_no_checkpoint_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of data that goes on at the ends of epochs alone."""

    def fail(self: WeightsCopy) -> memoryview:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(WeightsCopy, "content", fail)
    script = Script(tmp_path, generated)
    assert not script.run("on_train_batch_begin", STEPS + 4)
    assert script.said is None
    assert not stored(tmp_path / "checkpoints")
