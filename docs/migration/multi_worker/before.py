"""Every host has its own TF_CONFIG, and starts: python before.py digits.npz."""

import json
import os
import shutil
import sys

import keras
import numpy as np
import tensorflow as tf

BATCH_PER_WORKER = 64

task = json.loads(os.environ["TF_CONFIG"])["task"]
num_workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
global_batch = BATCH_PER_WORKER * num_workers

with np.load(sys.argv[1]) as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]

options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=7).repeat().batch(global_batch)
train = train.with_options(options)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input([64]),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.BatchNormalization(momentum=0.9, synchronized=True),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])

model.fit(train, epochs=5, steps_per_epoch=len(x) // global_batch, verbose=2 if task["index"] == 0 else 0)

# All workers must save, each to a place of its own; only the chief's is kept.
path = "digits.keras" if task["index"] == 0 else f"/tmp/worker-{task['index']}/digits.keras"
os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
model.save(path)
if task["index"] != 0:
    shutil.rmtree(os.path.dirname(path))
