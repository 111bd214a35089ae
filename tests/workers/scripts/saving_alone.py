"""The chief alone saves by TensorFlow, and looks at what it has; all workers restore. Says how far they then are."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

os.chdir(sys.argv[1])
keras.utils.set_random_seed(3)
X = np.random.normal(size=(45, 4)).astype("float32")
Y = np.eye(3)[np.random.randint(0, 3, 45)]


def build() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy", keras.metrics.F1Score()])
    return model


def of_the_chief(call: Callable[[], Any]) -> None:
    if tfdist.is_chief():
        call()


model = build()
model.fit(X, Y, batch_size=8, verbose=0)
saved = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
manager = tf.train.CheckpointManager(saved, "managed", max_to_keep=2)
of_the_chief(lambda: saved.write("written"))
of_the_chief(lambda: saved.save("saved"))
of_the_chief(lambda: [manager.save() for _ in range(3)])
served = tf.Module()
served.model = model
served.serve = tf.function(lambda x: model(x), input_signature=[tf.TensorSpec((None, 4))])
of_the_chief(lambda: tf.saved_model.save(served, "exported"))
of_the_chief(lambda: [keras.optimizers.serialize(model.optimizer), model.optimizer.variables, model.get_weights()])
tfdist.barrier()
differences = {}
for name in ("written", "saved-1", "managed/ckpt-4"):
    again = build()
    loaded = tf.train.Checkpoint(model=again, optimizer=again.optimizer)
    status = loaded.read(name) if name == "written" else loaded.restore(name)
    again.optimizer.build(again.trainable_variables)
    status.assert_existing_objects_matched()
    before, now = ([np.asarray(value) for value in each.weights + each.optimizer.variables] for each in (model, again))
    differences[name] = max(float(np.abs(one - two).max()) for one, two in zip(before, now, strict=True))
exported = tf.saved_model.load("exported")
differences["exported"] = float(np.abs(exported.serve(X) - model.predict(X, verbose=0)).max())
restored = build()
tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore("saved-1")
logs = [each.fit(X, Y, batch_size=8, verbose=0, shuffle=False).history for each in (model, restored)]
before, now = ([np.ravel(each[key]) for key in ("accuracy", "f1_score")] for each in logs)
differences["fit"] = float(np.abs(np.concatenate(before) - np.concatenate(now)).max())
print(json.dumps({"worker": tfdist.worker_index(), "differences": differences}))
