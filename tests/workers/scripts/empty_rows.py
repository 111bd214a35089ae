"""Trains on batches whose rows are there but have nothing in them, and predicts such rows; says what came of it."""

import json

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
SAMPLES, BATCH = 16, 8
labels = np.ones([SAMPLES, 1], "float32")
ragged = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int64), [0] * SAMPLES)


class Given(keras.Model):
    """Predicts what a function makes of its input."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def call(self, x):
        return self._function(x)


def summed(of_rows):
    return keras.layers.Lambda(of_rows, output_shape=(4,))


def losses(layers, data):
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(data, epochs=2, verbose=0).history["loss"]


def rows(values, *more):
    return tf.data.Dataset.from_tensor_slices((values, *more)).ragged_batch(BATCH)


def predicted(function, values):
    predictions = Given(function).predict(rows(values), verbose=0)
    return predictions.to_list() if isinstance(predictions, tf.RaggedTensor) else predictions.tolist()


words = keras.layers.TextVectorization(vocabulary=["a"], output_sequence_length=2)
widened = summed(lambda row: tf.cast(row.to_tensor(shape=(None, 4)), tf.float32))
totals = summed(lambda embedded: tf.reduce_sum(embedded, axis=1))
texts, nothing = [""] * SAMPLES, np.zeros([SAMPLES, 0], "int32")
found = {
    "texts": losses([keras.Input([], dtype="string"), words, keras.layers.Embedding(3, 4), keras.layers.Flatten()],
                    rows(texts, labels)),
    "ragged": losses([keras.Input([None], dtype="int64", ragged=True), widened], rows(ragged, labels)),
    "ids": losses([keras.Input([0], dtype="int32"), keras.layers.Embedding(10, 4), totals], rows(nothing, labels)),
    "predicted texts": [text.decode() for text in predicted(tf.strings.strip, texts)],
    "predicted ragged": predicted(tf.identity, ragged),
    "predicted features": predicted(lambda x: x[:, :0], labels),
}  # fmt: skip
print(json.dumps(found))
