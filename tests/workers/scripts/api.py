"""What a script asks tfdist, with and without `tfdist train`; trains under `tfdist.strategy()`."""

import json
import sys

import keras
import numpy as np

import tfdist

strategy = tfdist.strategy()
index, workers = tfdist.worker_index(), tfdist.num_workers()
tfdist.barrier()
said = {
    "index": index,
    "workers": workers,
    "replicas": tfdist.num_replicas(),
    "is_chief": tfdist.is_chief(),
    "reduced": {op: tfdist.all_reduce([index, 2.5 * index], op).tolist() for op in ("sum", "mean", "max", "min")},
    "gathered": tfdist.all_gather(np.array([index, 10], "int64")).tolist(),
    "broadcast": tfdist.broadcast(index + 0.5, root=workers - 1).tolist(),
}
with strategy.scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
x = np.linspace(0, 1, 21)[:, None]
said["losses"] = model.fit(x, x, batch_size=4, epochs=2, verbose=0).history["loss"]
print(json.dumps(said))
sys.exit()
