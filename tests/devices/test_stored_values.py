"""Parts of values that lie in a file of weights, and which variables of a model all workers have alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from keras.src.saving import saving_lib

from tfdist.keras_repairs.base import stored_values
from tfdist.keras_repairs.base.stored_values import read_shard, stored_value
from tfdist.keras_repairs.files.shard_copy import ids_of_alike
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_parameters import cut_variable
from tfdist.keras_repairs.sharded_parameters.flat_weights import FlatParameterShard
from tfdist.runtime.strategy_settings import settings_of
from tfdist.sharding import cut as cuts
from tfdist.sharding.cut import Cut


@pytest.mark.parametrize(
    "cut",
    [
        cuts.evenly((97, 3), 2),
        cuts.evenly((7, 5), 3),
        cuts.evenly((1, 11), 2),
        cuts.evenly((11,), 4),
        cuts.evenly((2,), 4),
        cuts.evenly((), 2),
        cuts.evenly((0, 3), 2),
        cuts.evenly((100, 0), 2),
        cuts.evenly((5, 3), 1),
        cuts.rows_evenly((3, 2), 2),
        cuts.uncut((4, 3), 1, 3),
        cuts.uncut((), 1, 2),
    ],
)
def test_the_parts_are_the_array_and_no_more_is_read_than_rows_at_their_ends(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(cut.size, dtype=np.int32).reshape(cut.shape)
    original, elements = h5py.Dataset.__getitem__, 0

    def counted(self: Any, which: Any) -> Any:
        nonlocal elements
        found = original(self, which)
        elements += np.size(found)
        return found

    monkeypatch.setattr(h5py.Dataset, "__getitem__", counted)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = array
        for worker in range(cut.workers):
            elements = 0
            found = read_shard(file["a"], cut, worker)
            at_ends = 0 if cut.keeps_rank else 2 * (cut.row_size - 1)
            assert elements <= cut.shard_size(worker) + max(0, at_ends)
            assert found.shape == cut.shard_shape(worker) and found.dtype == np.int32
            assert found.reshape(-1).tolist() == array.reshape(-1)[slice(*cut.span(worker))].tolist()
            assert read_shard(array, cut, worker).tolist() == found.tolist()


def test_values_of_a_store_are_read_later(tmp_path: Path) -> None:
    store = saving_lib.H5IOStore(tmp_path / "a.weights.h5", mode="w")
    entry = store.make("a")
    entry["0"] = np.arange(6.0).reshape(3, 2)
    entry["1"] = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    store.close()
    store = saving_lib.H5IOStore(tmp_path / "a.weights.h5", mode="r")
    entry = store.get("a")
    assert isinstance(stored_value(entry, "0"), h5py.Dataset)
    assert stored_value(entry, "0")[1:2].tolist() == [[2.0, 3.0]]
    assert stored_value(entry, "1").astype("float32").tolist() == [1.5, -2.0]
    assert stored_value({"0": 7}, "0") == 7
    with pytest.raises(KeyError):
        stored_value(entry, "2")
    store.close()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers hold parts of tables."""
    monkeypatch.setattr(stored_values, "worker_count", lambda strategy: 2)
    monkeypatch.setattr(settings_of(tf.distribute.get_strategy()), "has_tables", True)


@pytest.mark.usefixtures("late")
def test_layers_load_large_values_late_and_as_they_are(tmp_path: Path) -> None:
    def model() -> keras.Model:
        return keras.Sequential([keras.Input((40,)), Doubling(500), keras.layers.Dense(3)])

    one, other = model(), model()
    one.save_weights(tmp_path / "a.weights.h5")
    with stored_values.late_values():
        other.load_weights(tmp_path / "a.weights.h5")
        store = saving_lib.H5IOStore(tmp_path / "a.weights.h5", mode="r")
        large, small = (store.get(f"layers/{name}")["0"] for name in ("doubling", "dense"))
        assert isinstance(large, stored_values.LateArray) and isinstance(small, np.ndarray)
        np.testing.assert_array_equal(large[3:5], one.layers[0].kernel.numpy()[3:5])
        assert large[-1, -1] == large.T[-1, -1] and len(large) == 40 and large.sum() == np.asarray(large).sum()
        store.close()
    np.testing.assert_array_equal(other.layers[0].kernel, 2 * np.asarray(one.layers[0].kernel))
    np.testing.assert_array_equal(other.layers[1].kernel, one.layers[1].kernel)
    assert saving_lib.H5IOStore.__getitem__.__name__ == "__getitem__", "the store is Keras's own again"


class Doubling(keras.layers.Dense):
    """Computes with what it loads."""

    def load_own_variables(self, store: Any) -> None:
        self.kernel.assign(2 * store["0"])
        self.bias.assign(store["1"])


@pytest.mark.parametrize("worker", [0, 1, 2])
@pytest.mark.parametrize("shape", [(200, 100), (7, 5001)])
def test_a_weight_in_parts_takes_its_part(worker: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    strategy = tf.distribute.get_strategy()
    variable = keras.Variable(np.zeros(shape, np.float32))
    cut_variable.cut_variable(variable, cut_variable.flat_shard(variable, strategy))
    cut = cuts.evenly(shape, 3)
    part = tf.Variable(tf.zeros(cut.shard_shape(worker)))
    variable._value = part
    variable.shard = FlatParameterShard(variable, cut, worker, strategy)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        whole = np.arange(cut.size, dtype=np.float64).reshape(shape)
        file["a"], file["b"] = whole, whole[1:]
        variable.assign(stored_values.LateArray(file["a"]))
        assert part.numpy().reshape(-1).tolist() == whole.reshape(-1)[slice(*cut.span(worker))].tolist()
        with pytest.raises(ValueError, match="must match"):
            variable.assign(stored_values.LateArray(file["b"]))


def test_a_table_takes_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableVariable("zeros", cuts.rows_evenly((4000, 8), 3), 1, "ids", name="table")
    whole = np.arange(32000, dtype=np.float32).reshape(4000, 8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = whole
        monkeypatch.setattr(stored_values.LateArray, "__array__", None)  # nobody reads all of it
        table.assign(stored_values.LateArray(file["a"]))
    np.testing.assert_array_equal(table.rows, whole[1333:2666])


def test_what_gradients_are_accumulated_in_may_differ_between_workers() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(gradient_accumulation_steps=2)), "mse")
    model.optimizer.build(model.trainable_variables)
    alike = ids_of_alike(model)
    inner = model.optimizer.inner_optimizer
    assert all(id(variable) in alike for variable in [*model.trainable_weights, *inner._momentums, *inner._velocities])
    assert not any(id(variable) in alike for variable in inner._accumulated_gradients)
    assert not any(id(variable) in alike for variable in model.non_trainable_weights)
