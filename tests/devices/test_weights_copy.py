"""The copy of a model's weights in host memory: it is the file that Keras writes, of its moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.saving import saving_lib

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tests.helpers.small_training import batches, compiled, datasets, sequential
from tfdist.keras_repairs.files.hdf5_files import MemoryFile
from tfdist.keras_repairs.files.weights_copy import WeightsCopy

pytestmark = pytest.mark.usefixtures("repaired")


class Table(keras.layers.Layer):
    """Stores an array of its own, which is no variable."""

    def __init__(self) -> None:
        super().__init__()
        self.table = np.zeros(3)

    def call(self, inputs: Any) -> Any:
        return inputs

    def save_own_variables(self, store: Any) -> None:
        store["table"] = self.table

    def load_own_variables(self, store: Any) -> None:
        self.table = store["table"][()]


class Scale(keras.layers.Layer):
    """Multiplies with a single number of 16 bits, and has a weight without any."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(), dtype="bfloat16", initializer="ones")
        self.nothing = self.add_weight(shape=(0, 3), trainable=False)

    def call(self, inputs: Any) -> Any:
        return inputs * keras.ops.cast(self.scale, inputs.dtype)


def files_in_memory(monkeypatch: pytest.MonkeyPatch) -> list[MemoryFile]:
    """Those that Keras's store is asked to write from now on."""
    files: list[MemoryFile] = []
    init = saving_lib.H5IOStore.__init__

    def noting(store: saving_lib.H5IOStore, path_or_io: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(path_or_io, MemoryFile):
            files.append(path_or_io)
        init(store, path_or_io, *args, **kwargs)

    monkeypatch.setattr(saving_lib.H5IOStore, "__init__", noting)
    return files


def momentum() -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def averaging() -> Any:
    return keras.optimizers.Adam(0.01, use_ema=True, gradient_accumulation_steps=2)


def scaled() -> Any:
    return keras.optimizers.LossScaleOptimizer(momentum())


@pytest.mark.parametrize(
    ("extra", "optimizer", "replicas"),
    [
        ((), momentum, 1),
        slow((keras.layers.BatchNormalization, keras.layers.Dropout), averaging, 2),
        ((lambda: keras.layers.Dense(2, dtype="mixed_float16"),), scaled, 1),
        ((lambda: keras.layers.Dense(2, dtype="bfloat16"),), momentum, 1),
        ((Scale,), momentum, 1),
        ((Table,), momentum, 1),
    ],
    ids=["plain", "two replicas", "loss scale", "bfloat16", "one number or none", "a layer's own"],
)
def test_a_copy_writes_the_bytes_that_keras_writes(
    extra: tuple[Callable[..., Any], ...],
    optimizer: Callable[[], Any],
    replicas: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice, as the second copy is taken into the file of the first."""
    strategy = tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)
    with strategy.scope():
        layers = [make(0.3) if make is keras.layers.Dropout else make() for make in extra]
        model = compiled(sequential(*layers), optimizer())
    weights = WeightsCopy(model)
    files = files_in_memory(monkeypatch)
    for number in range(2):
        model.fit(batches(), epochs=1, verbose=0)
        if Table in extra:
            layers[0].table += 1
        weights.take()
        (tmp_path / f"{number}.weights.h5").write_bytes(weights.content())
        model.save_weights(tmp_path / f"keras-{number}.weights.h5")
        assert datasets(tmp_path / f"{number}.weights.h5") == datasets(tmp_path / f"keras-{number}.weights.h5")
    assert len(files) == 1


def test_a_file_that_holds_no_plain_values_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_dataset = h5py.Group.create_dataset

    def compressed(group: h5py.Group, name: str | None, data: Any = None, **options: Any) -> h5py.Dataset:
        return create_dataset(group, name, data=data, compression="gzip" if np.size(data) > 1 else None, **options)

    monkeypatch.setattr(h5py.Group, "create_dataset", compressed)
    model = compiled(sequential())
    weights = WeightsCopy(model)
    files = files_in_memory(monkeypatch)
    for _ in range(2):
        model.fit(batches(), epochs=1, verbose=0)
        weights.take()
    assert len(files) == 2
    model.save_weights(tmp_path / "keras.weights.h5")
    (tmp_path / "copy.weights.h5").write_bytes(weights.content())
    assert datasets(tmp_path / "copy.weights.h5") == datasets(tmp_path / "keras.weights.h5")


def test_a_copy_follows_a_layer_that_stores_something_else_each_time(tmp_path: Path) -> None:
    """Other numbers, of another kind, more of them, and none any more."""
    layer = Table()
    model = compiled(sequential(layer))
    model.fit(batches(), verbose=0)
    weights = WeightsCopy(model)
    for number, table in enumerate(([1, 2], [3, 4], [0.5, 1.5], [1, 2, 3], [True], 7, 7.5, [])):
        layer.table = table
        weights.take()
        model.save_weights(tmp_path / f"keras-{number}.weights.h5")
        (tmp_path / f"{number}.weights.h5").write_bytes(weights.content())
        assert datasets(tmp_path / f"{number}.weights.h5") == datasets(tmp_path / f"keras-{number}.weights.h5"), table


def test_a_copy_is_of_its_moment(tmp_path: Path) -> None:
    layer = Table()
    model = compiled(sequential(layer))
    model.fit(batches(), verbose=0)
    weights = WeightsCopy(model)
    weights.take()
    model.save_weights(tmp_path / "then.weights.h5")
    model.fit(batches(), verbose=0)
    layer.table += 1
    (tmp_path / "copy.weights.h5").write_bytes(weights.content())
    assert datasets(tmp_path / "copy.weights.h5") == datasets(tmp_path / "then.weights.h5")


def test_a_copy_follows_a_model_that_gets_other_variables(tmp_path: Path) -> None:
    model = compiled(sequential(), momentum())
    model.fit(batches(), verbose=0)
    weights = WeightsCopy(model)
    weights.take()
    model.compile("adam", "mse")
    model.fit(batches(), verbose=0)
    weights.take()
    (tmp_path / "copy.weights.h5").write_bytes(weights.content())
    model.save_weights(tmp_path / "keras.weights.h5")
    assert datasets(tmp_path / "copy.weights.h5") == datasets(tmp_path / "keras.weights.h5")
