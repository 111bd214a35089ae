"""Trains a step or two and says things in the ways that scripts do."""

import sys

import keras
import numpy as np
from absl import logging

logging.use_absl_handler()
logging.set_verbosity(logging.INFO)
logging.info("said by absl")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2), "float32"), np.ones((8, 1), "float32"), batch_size=4, verbose=0)
for percent in range(0, 101, 10):
    print(f"\r{percent}% ü", end="", file=sys.stderr, flush=True)
print(file=sys.stderr)
