"""Saves in every way, and loads again. Says how far what was loaded predicts from what was saved."""

import io
import json
import os
import pickle
import random
import sys

import keras
import numpy as np
import tensorflow as tf
from keras.src.saving import saving_lib

import tfdist

os.chdir(sys.argv[1])
keras.utils.set_random_seed(3)
X = np.random.normal(size=(45, 4)).astype("float32")
Y = np.eye(3)[np.random.randint(0, 3, 45)]


def build() -> keras.Model:
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(3, "softmax")]
    )
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    return model


def weights_from(path: str) -> keras.Model:
    model = build()
    model.load_weights(path)
    return model


def difference(loaded: keras.Model) -> float:
    return float(np.abs(loaded.predict(X, verbose=0) - predicted).max())


model = build()
model.fit(X, Y, batch_size=8, verbose=0)
predicted = model.predict(X, verbose=0)
np.save(f"predicted-{tfdist.worker_index()}.npy", predicted)
differences = {}
for time in ("first", "second"):
    model.save("model.keras")
    differences[f"keras, {time}"] = difference(keras.saving.load_model("model.keras"))
keras.saving.save_model(model, "function.keras")
differences["function"] = difference(keras.models.load_model("function.keras"))
model.save("model.h5")
differences["h5"] = difference(keras.saving.load_model("model.h5"))
model.save_weights("all.weights.h5")
differences["weights"] = difference(weights_from("all.weights.h5"))
model.save_weights("sharded.weights.json", max_shard_size=2e-7)
differences["sharded"] = difference(weights_from("sharded.weights.json"))
# Keras's own pickling writes past `save_model`; scikeras and others give it a file in memory.
differences["pickled"] = difference(pickle.loads(pickle.dumps(model)))
memory = io.BytesIO()
saving_lib.save_model(model, memory)
differences["in memory"] = difference(saving_lib.load_model(memory))
if tfdist.is_chief():
    model.save("chief.keras")
    model.save_weights("chief.weights.h5")
differences["weights of the chief"] = difference(weights_from("chief.weights.h5"))
loaded = keras.saving.load_model("chief.keras")
differences["model of the chief"] = difference(loaded)
# Saving left the workers in step: what they draw and train from here on agrees.
drawn = [random.random(), np.random.rand(), float(tf.random.uniform(()))]
trained = loaded.fit(X, Y, batch_size=8, verbose=0).history["loss"]
for _ in range(2):
    model.export("exported")
archive = keras.export.ExportArchive()
archive.track(model)
archive.add_endpoint("serve", model.call, input_signature=[tf.TensorSpec((None, 4))])
archive.write_out("archive")
print(json.dumps({"differences": differences, "drawn": drawn, "trained": trained}))
