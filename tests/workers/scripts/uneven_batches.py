"""A Keras script that trains on batches which few numbers divide; says on how many replicas, and its numbers."""

import json

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
x = np.random.default_rng(3).normal(size=(37, 5)).astype("float32")
model = keras.Sequential(
    [keras.Input((5,)), keras.layers.Dense(7, "tanh"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
)
model.compile(keras.optimizers.Adam(0.01, global_clipnorm=0.1), "mse")
history = model.fit(x, x.sum(axis=1), batch_size=8, epochs=2, verbose=0).history
strategy = tf.distribute.get_strategy()
print(
    json.dumps(
        {
            "replicas": strategy.num_replicas_in_sync,
            "numbers": [history["loss"], [weight.tolist() for weight in model.get_weights()]],
        }
    )
)
