"""Saves where it cannot: into a directory that is missing, and then to a disk that is full."""

import json
import os
import resource
import sys

import keras
import numpy as np

os.chdir(sys.argv[1])
model = keras.Sequential([keras.Input((200,)), keras.layers.Dense(400)])
model.save("model.keras")
model.layers[0].bias.assign(np.ones(400))
errors = []
for save, path in ((model.save, "missing/model.keras"), (model.save_weights, "missing/all.weights.h5")):
    try:
        save(path)
    except OSError as error:
        errors.append(str(error))
print(json.dumps({"errors": errors}))
# What is larger than the limit fails to be written, as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
model.save("model.keras")
