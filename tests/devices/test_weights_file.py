"""Weights that a training begins with: those of a file, on every replica, and an optimizer that begins anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.errors import DataError, RunDirError
from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.training.weights_file import load_initial_weights

X, Y = np.random.default_rng(1).normal(size=(20, 4)).astype("float32"), np.arange(20) % 3


def compiled(
    rate: float, optimizer: Callable[..., keras.optimizers.Optimizer], width: int = 5, *, is_built: bool = False
) -> keras.Model:
    layers = [keras.layers.Dense(width, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    model = keras.Sequential([*([keras.Input([4])] if is_built else []), *layers])
    model.compile(optimizer(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(6)


@pytest.fixture(params=["SGD", "Adam"])
def optimizer(request: pytest.FixtureRequest) -> Callable[..., keras.optimizers.Optimizer]:
    return getattr(keras.optimizers, request.param)


@pytest.mark.parametrize("name", ["trained.keras", "trained.weights.h5"])
@pytest.mark.parametrize("is_built", [True, False])
@pytest.mark.usefixtures("repaired")
def test_the_weights_of_a_file_and_an_optimizer_that_begins_anew(
    is_built: bool, name: str, optimizer: Callable[..., keras.optimizers.Optimizer], tmp_path: Path
) -> None:
    trained = compiled(0.5, optimizer)
    trained.fit(batches(), epochs=2, verbose=0)
    (trained.save if name.endswith("keras") else trained.save_weights)(tmp_path / name)
    strategy = mirrored(2)
    with strategy.scope():
        model = compiled(0.125, optimizer, is_built=is_built)
    load_initial_weights(model, str(tmp_path / name), batches(), strategy)
    assert len(model.weights) == 8
    for mine, other in zip(model.weights, trained.weights, strict=True):
        for copy in copies(mine):
            np.testing.assert_array_equal(copy.numpy(), other.numpy())
    assert float(model.optimizer.learning_rate.numpy()) == 0.125
    assert int(model.optimizer.iterations.numpy()) == 0


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    strategy = tf.distribute.get_strategy()
    with pytest.raises(DataError, match=r"There is no file .*absent.keras on the chief's machine"):
        load_initial_weights(compiled(0.1, keras.optimizers.SGD), str(tmp_path / "absent.keras"), batches(), strategy)
    other = compiled(0.1, keras.optimizers.SGD, width=6)
    other(X)
    other.save(tmp_path / "other.keras")
    with pytest.raises(RunDirError, match=r"of another model than the config builds: .*Name another file in model"):
        load_initial_weights(compiled(0.1, keras.optimizers.SGD), str(tmp_path / "other.keras"), batches(), strategy)
    (tmp_path / "cut.weights.h5").write_bytes(b"\x89HDF")
    with pytest.raises(DataError, match="cannot be read"):
        load_initial_weights(compiled(0.1, keras.optimizers.SGD), str(tmp_path / "cut.weights.h5"), batches(), strategy)
