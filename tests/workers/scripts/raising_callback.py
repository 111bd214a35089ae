"""A callback that raises on worker 1 alone, in the middle of an epoch."""

import keras
import numpy as np

import tfdist


class Raises(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if tfdist.worker_index() == 1 and batch == 2:
            raise LookupError("of the callback of one worker")


model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((40, 1)), np.ones((40, 1)), batch_size=4, epochs=3, callbacks=[Raises()], verbose=0)
