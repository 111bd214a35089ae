"""Writes with Keras's callbacks and downloads with `get_file`, as a script for one device does."""

import json
import os
import sys

import keras
import numpy as np

import tfdist


class Board(keras.callbacks.TensorBoard):
    """Notes which worker writes, where its base would need TensorBoard installed."""

    def set_model(self, model: keras.Model) -> None:
        pass

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        with open("board.txt", "a") as file:
            file.write(f"{tfdist.worker_index()}\n")

    on_train_begin = on_train_end = on_test_begin = on_test_end = lambda self, logs=None: None
    on_train_batch_begin = on_train_batch_end = lambda self, batch, logs=None: None


os.chdir(sys.argv[1])
x = np.linspace(0, 1, 21)[:, None]
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.5), "mse")
callbacks = [
    keras.callbacks.CSVLogger("log.csv"),
    Board(),
    keras.callbacks.ModelCheckpoint("best/{epoch:02d}.keras", save_best_only=True),
    keras.callbacks.ModelCheckpoint("last.weights.h5", save_weights_only=True, save_freq=3),
    keras.callbacks.EarlyStopping(patience=1, min_delta=1, restore_best_weights=True, start_from_epoch=2),
]
history = model.fit(x, x, batch_size=4, epochs=20, validation_data=(x, x), callbacks=callbacks, verbose=0).history
path = keras.utils.get_file("data.bin", sys.argv[2], cache_dir="cache", file_hash=sys.argv[3])
print(
    json.dumps(
        {
            "epochs": len(history["loss"]),
            "weights": [weight.tolist() for weight in model.get_weights()],
            "downloaded": os.path.getsize(path),
        }
    )
)
