"""Where the data comes from."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import BATCH, case, classifier, fitted, fitted_on, numbers, tokens

layers = keras.layers


@case("strings and `StringLookup`")
def strings(samples: int) -> dict[str, Any]:
    _, y = numbers(samples)
    words = np.array(["red", "green", "blue"])[y].astype(object)
    model = keras.Sequential(
        [
            keras.Input((), dtype="string"),
            layers.StringLookup(vocabulary=["red", "green", "blue"]),
            layers.Embedding(4, 4),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((words.astype(str), y)).batch(BATCH)
    return fitted_on(model, data)


@case("`tf.data`, batched")
def dataset(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH))


@case("`tf.data` that shuffles")
def dataset_that_shuffles(samples: int) -> dict[str, Any]:
    ordered = tf.data.Dataset.from_tensor_slices(numbers(samples))
    return fitted_on(classifier(), ordered.shuffle(50).batch(BATCH), ordered.batch(BATCH))


@case("`tf.data` of unknown size")
def dataset_of_unknown_size(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH).filter(lambda x, y: True)
    return fitted_on(classifier(), data)


@case("`tf.data` without end, `steps_per_epoch`")
def dataset_that_repeats(samples: int) -> dict[str, Any]:
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH)
    return fitted_on(classifier(), data.repeat(), data, steps_per_epoch=5)


@case("`tf.data` that shuffles, of which an epoch takes a part, and after that all")
def dataset_that_shuffles_and_goes_on(samples: int) -> dict[str, Any]:
    ordered = tf.data.Dataset.from_tensor_slices(numbers(samples))
    data, model = ordered.shuffle(50).batch(4), classifier()
    model.compile("sgd", "sparse_categorical_crossentropy")
    # One device reads some batches more than it takes, and does not come to the next pass.
    model.fit(data.repeat(), steps_per_epoch=len(data) - 3, verbose=0)
    return fitted_on(model, data, ordered.batch(BATCH))


class Batches(keras.utils.PyDataset):
    def __init__(self, samples: int, **options: Any) -> None:
        super().__init__(**options)
        self.x, self.y = numbers(samples)

    def __len__(self) -> int:
        return -(-len(self.x) // BATCH)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[part], self.y[part]


@case("`PyDataset`")
def py_dataset(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), Batches(samples))


@case("`PyDataset` with threads")
def py_dataset_with_threads(samples: int) -> dict[str, Any]:
    return fitted_on(classifier(), Batches(samples, workers=2))


@case("a Python generator")
def generator(samples: int) -> dict[str, Any]:
    def forever() -> Any:
        while True:
            yield from (Batches(samples)[i] for i in range(len(Batches(samples))))

    return fitted_on(classifier(), forever(), Batches(samples), steps_per_epoch=5)


@case("ragged rows made dense in the pipeline")
def ragged(samples: int) -> dict[str, Any]:
    rows = [row[row > 0] for row in tokens(samples)]
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int64"),
            layers.Embedding(20, 4),
            layers.GlobalAveragePooling1D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((tf.ragged.constant([r.tolist() for r in rows]), numbers(samples)[1]))
    return fitted_on(model, data.batch(BATCH).map(lambda x, y: (x.to_tensor(shape=(None, 7)), y)))


@case("ragged inputs of the model, in batches whose size is known")
def ragged_inputs(samples: int) -> dict[str, Any]:
    rows = [row[row > 0].tolist() for row in tokens(samples)]
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int64", ragged=True),
            layers.Lambda(lambda ids: tf.one_hot(ids.to_tensor(shape=(None, 7)), 20, dtype="float64")),
            layers.GlobalAveragePooling1D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    data = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(rows, dtype=tf.int64), numbers(samples)[1]))
    return fitted_on(model, data.batch(BATCH, drop_remainder=True))


@case("sparse arrays, a model that `fit` builds")
def sparse_arrays(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    x[np.abs(x) < 0.5] = 0.0
    model = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(3, activation="softmax")])
    return fitted(model, tf.sparse.from_dense(x), y)


@case("sparse inputs of the model, in batches whose size is known")
def sparse_inputs(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    x[np.abs(x) < 0.5] = 0.0
    model = keras.Sequential(
        [keras.Input((6,), sparse=True), layers.Dense(8, activation="tanh"), layers.Dense(3, activation="softmax")]
    )
    data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(x), y))
    return fitted_on(model, data.batch(BATCH, drop_remainder=True))


class BesideTable(keras.Model):
    """Adds to each sample what a table says that lies beside the samples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = layers.Dense(3, activation="softmax")

    def call(self, inputs: Any) -> Any:
        return self.classes(inputs["x"] + keras.ops.sum(inputs["table"] ** 2, axis=0))


def _beside_table(samples: int, *, size: int, drop_remainder: bool) -> dict[str, Any]:
    table = tf.constant(np.random.default_rng(3).normal(size=(size, 6)))
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH, drop_remainder)
    data = data.map(lambda x, y: ({"table": table, "x": x}, y))
    return fitted_on(BesideTable(), data, compiled={"optimizer": keras.optimizers.SGD(0.01)})


@case("batches of samples with a table beside them, the same for all")
def table_beside_samples(samples: int) -> dict[str, Any]:
    """Keras counts the losses of batches by the rows of the first tensor, which is the table."""
    return _beside_table(samples, size=7, drop_remainder=False)


@case("batches of a fixed size of which one tensor has more rows than the others")
def more_rows_in_one_tensor(samples: int) -> dict[str, Any]:
    return _beside_table(samples, size=45, drop_remainder=True)


class DropsAsManyAsItBuilds(keras.Model):
    """Built by its first step, where it draws a kernel before the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.drop = layers.Dense(7, activation="tanh"), layers.Dropout(0.3)
        self.head = layers.Dense(3, activation="softmax")

    def call(self, x: Any, training: bool = False) -> Any:
        return self.head(self.drop(self.hidden(x), training=training))


@case("batches of a fixed size, of a model that draws a mask of the shape of a kernel that its first step makes")
def masks_of_the_shape_of_a_kernel(samples: int) -> dict[str, Any]:
    """Half of a batch has as many rows as the inputs have features."""
    data = tf.data.Dataset.from_tensor_slices(numbers(samples, BATCH // 2)).batch(BATCH, drop_remainder=True)
    return fitted_on(DropsAsManyAsItBuilds(), data)
