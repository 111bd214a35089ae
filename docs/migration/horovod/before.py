"""horovodrun -np 2 python before.py digits.npz digits.weights.h5"""

import sys

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow import keras

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

with np.load(sys.argv[1]) as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(128, activation="relu"),
        hvd.SyncBatchNormalization(momentum=0.9),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()), backward_passes_per_step=2)
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], experimental_run_tf_function=False)

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=2),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(sys.argv[2], save_weights_only=True))
model.fit(x, y, batch_size=64, epochs=5, callbacks=callbacks, verbose=2 if hvd.rank() == 0 else 0)
