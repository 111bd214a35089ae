"""A script written for TensorFlow alone: makes its own strategy, sets up devices, clears the session between models."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

kind = getattr(tf.distribute, sys.argv[1])
tf.config.threading.set_intra_op_parallelism_threads(3)
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 5
)
strategy = kind()
x = np.linspace(0, 1, 21)[:, None]
losses = []
for _ in range(2):
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
    losses.append(model.fit(x, x, batch_size=4, epochs=2, verbose=0).history["loss"])
print(
    json.dumps(
        {
            "losses": losses,
            "is_instance": isinstance(strategy, kind),
            "is_other": isinstance(strategy, tf.distribute.TPUStrategy),
            "replicas": strategy.num_replicas_in_sync,
            "current": tf.distribute.get_strategy() is strategy,
        }
    )
)
