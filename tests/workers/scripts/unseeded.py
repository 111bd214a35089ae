"""A Keras script that seeds nothing: says what it drew, and which samples this process read in each step."""

import json
import random
import sys

import keras
import numpy as np
import tensorflow as tf

SAMPLES, BATCH, EPOCHS = 37, 8, 3

x = np.arange(SAMPLES, dtype="float32")[:, None]
y = np.zeros(SAMPLES)
read: list[list[int]] = []


def note(ids: np.ndarray) -> np.ndarray:
    read.append(ids.ravel().astype(int).tolist())
    return ids


class Noting(keras.layers.Layer):
    """Passes on its input, and notes the samples that it sees in training."""

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        # Where tfdist tries layers out they run eagerly, on rows that it makes up.
        if not training or not tf.inside_function():
            return inputs
        return tf.ensure_shape(tf.numpy_function(note, [inputs], tf.float32), inputs.shape)


def fit(*data: object, **options: object) -> dict[str, object]:
    """Trains a new model and returns its history, its weights and the samples that each step read here."""
    model = keras.Sequential([keras.Input((1,)), Noting(), keras.layers.Rescaling(1 / SAMPLES), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    read.clear()
    history = model.fit(*data, epochs=EPOCHS, verbose=0, **options).history
    return {"read": list(read), "history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


class Wandering(keras.Model):
    """Moves its weights by noise alone, and logs how far."""

    def train_step(self, data: object) -> dict[str, tf.Tensor]:
        (weight,) = self.trainable_variables
        noise = tf.random.normal(weight.shape)
        self.optimizer.apply_gradients([(noise, weight)])
        return {"squared": tf.reduce_sum(tf.square(noise))}


def wander() -> dict[str, float]:
    """Trains for a step; returns how far the weights have moved, and how far the step has said that they would."""
    inputs = keras.Input((1,))
    model = Wandering(inputs, keras.layers.Dense(9, use_bias=False, kernel_initializer="zeros")(inputs))
    model.compile(keras.optimizers.SGD(1.0))
    history = model.fit(x, y, batch_size=SAMPLES, verbose=0).history
    return {"moved": float(np.square(model.get_weights()[0]).sum()), "said": history["squared"][0]}


class Generator(keras.utils.PyDataset):
    """Batches of whole samples, shuffled anew by the script's own generator."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._order = np.random.permutation(SAMPLES)

    def __len__(self) -> int:
        return -(-SAMPLES // BATCH)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self._order[index * BATCH : (index + 1) * BATCH]
        return x[rows], y[rows]


dataset = tf.data.Dataset.from_tensor_slices((x, y))
left, right = keras.utils.split_dataset(x, left_size=0.5, shuffle=True)
fits = {
    "arrays": fit(x, y, batch_size=BATCH),
    "arrays again": fit(x, y, batch_size=BATCH),
    "tf.data": fit(dataset.shuffle(SAMPLES).batch(BATCH)),
    "PyDataset": fit(Generator()),
    # Keras ends these processes with SIGTERM, some of them as soon as it has forked them.
    "PyDataset in processes": fit(Generator(workers=2, use_multiprocessing=True)),
}
drawn = {
    "random": random.random(),
    "numpy": np.random.rand(),
    "numpy generators": [np.random.default_rng().random() for _ in range(2)],
    "RandomState": np.random.RandomState().rand(),
    "tensorflow": float(tf.random.uniform(())),
    "keras": float(keras.random.uniform(())),
    "split": [[int(row[0]) for row in part] for part in (left, right)],
    "set": list({"a", "b", "c", "d"}),
}
print(json.dumps({"fits": fits, "drawn": drawn, "wandered": wander()}))
sys.exit(0)
