"""What a script asks tfdist, with and without `tfdist train`; trains under `tfdist.strategy()`."""

import json
import sys
import time

import keras
import numpy as np

import tfdist

EXCHANGES = 300


def message(exchange: int, worker: int) -> np.ndarray:
    """What a worker says in an exchange: of few bytes or many, another each time."""
    size = np.random.default_rng(exchange).integers(1, 200)
    return np.random.default_rng([exchange, worker]).integers(0, 255, size)


def exchange_many() -> bool:
    """Whether all workers are heard in every exchange, where one worker or another comes late to it at times."""
    for exchange in range(EXCHANGES):
        if exchange % 20 == index:
            time.sleep(0.01)
        heard = tfdist.all_gather(message(exchange, index))
        if not np.array_equal(heard, [message(exchange, worker) for worker in range(workers)]):
            return False
    return True


def refusal() -> str:
    """What a worker is told where the others give arrays of other sizes."""
    try:
        tfdist.all_gather(np.zeros(100 * index + 1))
    except tfdist.UsageError as error:
        return str(error)
    return "none"


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
    "exchanged": exchange_many(),
    "refused": refusal(),
}
with strategy.scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
x = np.linspace(0, 1, 21)[:, None]
said["losses"] = model.fit(x, x, batch_size=4, epochs=2, verbose=0).history["loss"]
print(json.dumps(said))
sys.exit()
