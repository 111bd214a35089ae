"""A small transformer that says nothing of layouts. Prints what it has trained, and how weights are stored."""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
from keras import layers

place, policy, jit_compile = sys.argv[1], *(sys.argv[2:] or ("float64", "auto"))
keras.utils.clear_session()
keras.config.set_floatx("float64" if policy == "float64" else "float32")
keras.config.set_dtype_policy(policy)
keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
x, y = rng.integers(1, 2000, (65, 6)), rng.integers(0, 2000, 65)
ids = keras.Input((6,), dtype="int64")
hidden = layers.Embedding(2000, 64)(ids) + layers.Embedding(6, 64, name="places")(ids % 6)
attended = layers.MultiHeadAttention(3, 96, name="attention")(hidden, hidden, use_causal_mask=True)
hidden = layers.LayerNormalization()(hidden + layers.Dropout(0.1)(attended))
wide = layers.Dense(257, activation="gelu", name="wide")(hidden)
hidden = layers.LayerNormalization()(hidden + layers.Dense(64, name="narrow")(wide))
words = layers.Dense(2000, name="words", dtype=keras.config.floatx())
model = keras.Model(ids, words(layers.GlobalAveragePooling1D()(hidden)))
model.compile(
    keras.optimizers.Adam(0.01, global_clipnorm=0.5),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile={"auto": "auto", "jit": True}[jit_compile],
)
found = {"history": model.fit(x, y, batch_size=16, epochs=2, verbose=0).history}
found["evaluated"] = model.evaluate(x, y, verbose=0)
found["predicted"] = model.predict(x, verbose=0)[:, :20].tolist()
model.save(f"{place}.keras")
found["weights"] = {weight.path: float(np.abs(np.asarray(weight)).sum()) for weight in model.weights}
found["stored"] = {weight.path: list(weight._value.shape) for weight in model.trainable_weights}
print(json.dumps(found))
