"""Scripts whose data cannot resume within an epoch resume at the end of one."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import keras
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


class Shuffling(keras.utils.PyDataset):
    """Orders its rows anew at the end of each epoch, by a generator of its own, and adds noise of the epoch."""

    def __init__(self, rows: int, seed: int) -> None:
        super().__init__()
        self.x, self.y = (values[:rows] for values in samples())
        self.generator, self.epoch = np.random.default_rng(seed), 0
        self.order = np.arange(rows)

    def __len__(self) -> int:
        return -(-len(self.order) // BATCH)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.order[number * BATCH : (number + 1) * BATCH]
        return self.x[rows] + 0.1 * self.epoch, self.y[rows]

    def on_epoch_end(self) -> None:
        self.generator.shuffle(self.order)
        self.epoch += 1


def shuffling(script: Script) -> None:
    data, validation = Shuffling(SAMPLES, 1), Shuffling(SAMPLES // 2, 2)
    script.fit(compiled(network(), "sgd"), data, epochs=4, validation_data=validation, validation_freq=[1, 2, 4])


def test_a_dataset_that_shuffles_between_epochs_has_the_order_that_it_would_have_had(tmp_path: Path) -> None:
    whole = Script(tmp_path / "whole", shuffling)
    assert whole.run()
    killed = Script(tmp_path / "killed", shuffling)
    assert not killed.run("on_train_batch_begin", 2 * STEPS + 1)
    assert killed.run()
    assert_same(killed, whole)
