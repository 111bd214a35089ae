"""Trains on data of several kinds whose samples are counted as they are made, and says what came of it.

Usage: fed.py FOLDER KIND...
"""

import json
import sys
import threading
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tfdist.runtime.strategy_settings import settings_of

folder, kinds = Path(sys.argv[1]), sys.argv[2:]
BATCH = 32


def arrays(samples):
    x = np.random.default_rng(0).normal(size=[samples, 8]).astype("float32")
    return x, (x @ np.arange(8))[:, None].astype("float32")


class Counted:
    """Counts, in a file of the worker's, the samples that are made of one kind of data."""

    def __init__(self, kind):
        self.file = folder / f"{kind}.{tfdist.worker_index()}"
        self.file.touch()

    def note(self, numbers):
        with self.file.open("a") as file:
            file.write("".join(f"{number}\n" for number in np.ravel(numbers)))
        return np.int64(np.ravel(numbers)[0])

    def __call__(self, number, *parts):
        number = tf.numpy_function(self.note, [number], tf.int64)
        with tf.control_dependencies([number]):
            return tuple(map(tf.identity, parts))

    def dataset(self, samples, shuffle=True):
        rows = tf.data.Dataset.from_tensor_slices((np.arange(samples), *arrays(samples)))
        rows = rows.shuffle(samples) if shuffle else rows
        return rows.map(self, num_parallel_calls=2).batch(BATCH)


def network():
    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def tf_data(counted):
    """Epochs of unequal batches, shuffled anew in each, and validations inside; some batches have one sample."""
    model, rest = network(), Counted("rest").dataset(65, shuffle=False).skip(2)
    history = model.fit(counted.dataset(65), epochs=2, verbose=0, validation_data=rest).history
    return [history, model.evaluate(counted.dataset(64), verbose=0)]


def python_dataset(counted):
    """Batches of Python code that draws random numbers, which the script then goes on drawing."""
    x, y = arrays(65)

    class Noisy(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            rows = slice(BATCH * index, BATCH * (index + 1))
            counted.note(np.arange(65)[rows])
            return x[rows] + np.random.normal(size=x[rows].shape).astype("float32"), y[rows]

    model = network()
    history = model.fit(Noisy(), epochs=2, verbose=0, shuffle=False).history
    order = np.random.permutation(65)
    return [history, model.fit(x[order], y[order], batch_size=BATCH, verbose=0).history]


def threaded(counted):
    """Batches that Keras's own threads make ahead."""
    x, y = arrays(64)

    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            rows = slice(BATCH * index, BATCH * (index + 1))
            counted.note(np.arange(64)[rows])
            return x[rows], y[rows]

    return network().fit(Rows(workers=2), epochs=2, verbose=0, shuffle=False).history


def generator(counted):
    """A generator without an end, of which each epoch takes some batches."""
    x, y = arrays(65)

    def batches():
        while True:
            for start in range(0, 65, BATCH):
                rows = slice(start, start + BATCH)
                counted.note(np.arange(65)[rows])
                yield x[rows], y[rows]

    return network().fit(batches(), steps_per_epoch=4, epochs=2, verbose=0).history


def unknown_size(counted):
    """A dataset that does not say how many batches it has."""
    data = counted.dataset(65, shuffle=False).filter(lambda x, y: tf.shape(x)[0] > 0)
    return network().fit(data, epochs=2, verbose=0).history


def ragged(counted):
    """Batches that are not handed over."""
    rows = tf.ragged.constant([[1.0] * (n % 3 + 1) for n in range(20)])
    data = tf.data.Dataset.from_tensor_slices((np.arange(20), rows, np.ones([20, 1], "float32")))
    summed = keras.layers.Lambda(lambda row: tf.reduce_sum(row.to_tensor(shape=(None, 3)), 1, keepdims=True))
    model = keras.Sequential([keras.Input([None], ragged=True), summed, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(data.map(counted).ragged_batch(8), verbose=0).history


def text(counted):
    """Batches of text, which are not handed over."""
    data = tf.data.Dataset.from_tensor_slices((np.arange(20), ["a b", "b"] * 10, np.ones([20, 1], "float32")))
    words = keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=2)
    layers = [words, keras.layers.Embedding(4, 1), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([], dtype="string"), *layers])
    model.compile("sgd", "mse")
    return model.fit(data.map(counted).batch(8), verbose=0).history


def files_of(kind, workers):
    """Files of 24 samples, of which each worker finds those that some workers need in batches of 8, and no others."""
    own = folder / f"{kind}_files.{tfdist.worker_index()}"
    own.mkdir()
    for number in range(24):
        if 8 * workers.start <= number % 8 * tfdist.num_workers() < 8 * workers.stop:
            text = np.full([8], number / 10, "float32").tobytes() if kind == "numbers" else b"a b" * (number % 3)
            (own / f"{number}").write_bytes(text)
    labels = np.arange(24, dtype="float32")[:, None] / 10
    return tf.data.Dataset.from_tensor_slices(([f"{own}/{number}" for number in range(24)], labels))


def texts(counted):
    """Texts in files that each worker reads for its replica alone."""
    index = tfdist.worker_index()
    data = files_of("texts", range(index, index + 1)).map(lambda path, y: (tf.io.read_file(path), y))
    words = keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=2)
    layers = [words, keras.layers.Embedding(4, 1), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([], dtype="string"), *layers])
    model.compile("sgd", "mse")
    return model.fit(data.batch(8), epochs=2, verbose=0).history


def numbers(counted):
    """Numbers in files that one worker of each host reads for the replicas of that host alone."""
    feed = settings_of(tfdist.strategy()).feed
    files = files_of("numbers", range(feed.workers[0], feed.workers[-1] + 1) if feed else range(1))

    def read(path, y):
        return tf.ensure_shape(tf.io.decode_raw(tf.io.read_file(path), tf.float32), [8]), y

    model = network()
    return model.fit(files.map(read, num_parallel_calls=2).batch(8), epochs=2, verbose=0).history


def abandoned(counted):
    """Epochs and evaluations that end before their data does, and predictions of a part of it."""
    stop = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: setattr(model, "stop_training", True))
    endless, model = counted.dataset(65).repeat(), network()
    # Each validation takes an iterator of its own. Those over one dataset would take the seeds of its shuffling from
    # one another, as each is read ahead: plain Keras, too, validates now on these samples and now on those.
    other = counted.dataset(65, shuffle=False).repeat()
    history = model.fit(endless, steps_per_epoch=5, epochs=2, validation_data=other, validation_steps=2, verbose=0)
    model.fit(counted.dataset(65), epochs=2, verbose=0, callbacks=[stop])
    predictions = model.predict(counted.dataset(65, shuffle=False), steps=2, verbose=0)
    assert not [thread.name for thread in threading.enumerate() if thread.name == "tfdist-drawing"]
    return [history.history, predictions.sum(axis=1).tolist()]


def broken(counted):
    """A sample that cannot be made, in the third batch, and another fit after that."""
    steps = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))

    def check(x, y):
        good = tf.debugging.Assert(tf.reduce_sum(y) != 5, ["five is no label"])
        with tf.control_dependencies([good]):
            return tf.identity(x), y

    y = np.ones([128, 1], "float32")
    y[70] = 5
    data = tf.data.Dataset.from_tensor_slices((arrays(128)[0], y)).map(check).batch(BATCH)
    model = network()
    try:
        model.fit(data, verbose=0, callbacks=[count])
    except tf.errors.OpError as error:
        found = [type(error).__name__, "five is no label" in str(error), steps]
    return [found, model.fit(counted.dataset(64, shuffle=False), verbose=0).history]


for kind in kinds:
    keras.utils.set_random_seed(7)
    print(json.dumps({kind: globals()[kind](Counted(kind))}), flush=True)
