"""Iterators over distributed datasets share their functions, and nothing else."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import func_graph

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.keras_repairs.inputs import data_adapters
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.runtime.batches.replica_batches import per_replica


def distributed(dataset: tf.data.Dataset, replicas: int = 2) -> tf.distribute.DistributedDataset:
    return per_replica(lambda ids: dataset, mirrored(replicas))


def values(element: Any) -> Any:
    """The numbers of an element, in the place of each a list of what the replicas have."""
    local = mirrored(2).experimental_local_results
    return tf.nest.map_structure(lambda each: [part.numpy() for part in local(each)], element)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that are traced."""
    names: list[str] = []
    original = func_graph.func_graph_from_py_func

    def noting(name: str, *args: Any, **options: Any) -> Any:
        names.append(name)
        return original(name, *args, **options)

    monkeypatch.setattr(func_graph, "func_graph_from_py_func", noting)
    return names


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_an_epoch_after_the_first_traces_nothing(replicas: int, traced: list[str]) -> None:
    numbers = tf.data.Dataset.from_tensor_slices(np.arange(12.0).reshape(6, 2, 1, 1))
    batches = distributed(numbers, replicas)
    assert len(list(batches)) == 6 // replicas
    assert traced
    traced.clear()
    for again in (batches, distributed(numbers.skip(replicas), replicas)):
        assert len(list(again)) == (6 if again is batches else 6 - replicas) // replicas
    assert not traced


@pytest.mark.parametrize("replicas", [2, 3])
def test_new_data_of_the_same_kind_are_cut_by_the_same_functions(
    replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: list[int] = []
    original = data_adapters.replica_batch_of

    def noting(*args: Any, **options: Any) -> Any:
        cuts.append(replicas)
        return original(*args, **options)

    monkeypatch.setattr(data_adapters, "replica_batch_of", noting)

    def sums(first: int, kind: str = "int32") -> list[Any]:
        rows = tf.data.Dataset.range(first, first + 7).map(lambda number: {"row": tf.cast(number, kind)}).batch(4)
        return [
            [int(tf.reduce_sum(part)) for part in strategy.experimental_local_results(batch.data["row"])]
            for batch in data_adapters.distribute(rows, strategy)
        ]

    strategy = mirrored(replicas)
    data_adapters._functions_of.cache_clear()
    expected = {2: [[1, 5], [9, 6]], 3: [[1, 2, 3], [4, 5, 6]]}[replicas]
    assert sums(0) == expected
    assert cuts
    cuts.clear()
    assert sums(100) == [
        [total + 100 * rows for total, rows in zip(batch, each, strict=True)]
        for batch, each in zip(expected, {2: [(2, 2), (2, 1)], 3: [(2, 1, 1), (1, 1, 1)]}[replicas], strict=True)
    ]
    assert not cuts
    assert sums(0, "float32") == expected
    assert cuts


def test_iterators_at_once_and_of_other_elements_have_their_own() -> None:
    numbers = distributed(tf.data.Dataset.range(8))
    texts = distributed(
        tf.data.Dataset.range(8).map(lambda number: {"text": tf.strings.as_string(number), "of": number})
    )
    first, second, other = iter(numbers), iter(numbers), iter(texts)
    assert values(next(first)) == [0, 1]
    assert values(next(first)) == [2, 3]
    assert values(next(second)) == [0, 1]
    assert values(next(other)) == {"text": [b"0", b"1"], "of": [0, 1]}
    del first
    assert values(next(second)) == [2, 3]
    with pytest.raises(StopIteration):
        for _ in range(3):
            next(second)


def test_a_loop_in_a_function_makes_its_own() -> None:
    batches = distributed(tf.data.Dataset.range(8))

    @tf.function
    def summed() -> tf.Tensor:
        total = tf.constant(0, tf.int64)
        for batch in batches:
            total += mirrored(2).reduce("SUM", batch, axis=None)
        return total

    assert [int(summed()), int(summed())] == [28, 28]


def test_ragged_and_sparse_elements() -> None:
    ragged = distributed(tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[["a"], []], [["b", "c"], ["d"]]])))
    sparse = distributed(tf.data.Dataset.from_tensor_slices(tf.sparse.eye(2)))
    for _ in range(2):
        (element,) = list(ragged)
        rows = mirrored(2).experimental_local_results(element)
        assert [row.to_list() for row in rows] == [[[b"a"], []], [[b"b", b"c"], [b"d"]]]
        (element,) = list(sparse)
        rows = mirrored(2).experimental_local_results(element)
        assert [tf.sparse.to_dense(row).numpy().tolist() for row in rows] == [[1.0, 0.0], [0.0, 1.0]]


def test_an_error_of_the_data_arrives() -> None:
    numbers = tf.data.Dataset.from_tensors(np.nan).repeat(2)
    failing = distributed(numbers.map(lambda number: tf.debugging.check_numerics(number, "it is none")))
    with pytest.raises(tf.errors.InvalidArgumentError, match="it is none"):
        next(iter(failing))


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize(("is_of_arrays", "count"), [(True, 3), (False, 6)])
def test_epochs_of_arrays_make_one_iterator_each(
    is_of_arrays: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a dataset as many as Keras makes: what it shuffles follows from their number."""
    made: list[BatchIterator] = []
    original = BatchIterator.__init__

    def noting(self: BatchIterator, *args: Any) -> None:
        made.append(self)
        original(self, *args)

    monkeypatch.setattr(BatchIterator, "__init__", noting)
    x = np.arange(10.0).reshape(10, 1)
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = {"x": x, "y": x, "batch_size": 4} if is_of_arrays else {"x": tf.data.Dataset.from_tensors((x, x))}
        model.fit(**data, epochs=3, verbose=0)
    assert len(made) == count


@pytest.mark.parametrize("replicas", [2, 3])
def test_nothing_is_read_that_one_device_would_not_read(replicas: int) -> None:
    """Of data that go on, by epochs, evaluations and predictions of some steps; one device reads one to four batches
    more, by chance, so that several calls are counted together."""
    keras_repairs.install()
    read: list[int] = []

    def note(number: tf.Tensor) -> tf.Tensor:
        read.append(int(number))
        return number

    def noted(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        row = tf.ensure_shape(tf.numpy_function(note, [number], tf.int64), [])
        return tf.cast([row], tf.float32), tf.constant(0.0)

    data = tf.data.Dataset.range(10**6).map(noted).batch(2 * replicas)
    with mirrored(replicas).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    calls: list[tuple[int, Any]] = [
        (6, lambda: model.fit(data, steps_per_epoch=3, epochs=2, verbose=0)),
        (2, lambda: model.evaluate(data, steps=2, verbose=0)),
        (2, lambda: model.predict(data, steps=2, verbose=0)),
    ]
    for steps, call in calls:
        call()
        read.clear()
        for _ in range(8):
            call()
        assert 8 * steps <= len(read) // (2 * replicas) <= 8 * (steps + 4)


def test_an_epoch_of_some_steps_goes_on_with_whole_batches_as_the_first_batch_was() -> None:
    """Where the tensors of a batch have other numbers of rows each, replicas get whole batches; in all epochs."""
    keras_repairs.install()

    def batches() -> Any:
        for number in range(8):
            yield np.full((4, 1), number, "float32"), np.full((4 if number % 2 else 6, 1), number + 1.0, "float32")

    class OfBoth(keras.Model):
        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                loss = tf.add_n([tf.reduce_sum(self(part)) for part in data])
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    def trained() -> np.ndarray:
        inputs = keras.Input((1,))
        model = OfBoth(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
        model.compile(keras.optimizers.SGD(1e-3))
        data = tf.data.Dataset.from_generator(batches, output_signature=2 * (tf.TensorSpec([None, 1]),))
        model.fit(data, steps_per_epoch=1, epochs=4, verbose=0)
        return np.concatenate([weight.ravel() for weight in model.get_weights()])

    expected = trained()
    with mirrored(2).scope():
        np.testing.assert_allclose(trained(), expected, rtol=1e-6)
