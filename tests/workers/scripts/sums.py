"""Sums of all kinds over the replicas of a job: each worker writes which of them are right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import tfdist
from tfdist.runtime.transport.replica_sums import sum_gradients, sum_over_replicas
from tfdist.training.session import current_session

strategy = tfdist.strategy()
collectives = current_session.current().choice.communication
large = 7_500_005  # 30 MB: three workers sum it in several rings, with a rest


def values(worker):
    generator = np.random.default_rng(worker)
    shapes = [(), (3,), (large,), (2, 0), (4, 5), (7, 300), (7,), (9, 3)]
    dtypes = ["f4", "f4", "f4", "f4", "f2", "f4", "f8", tf.bfloat16.as_numpy_dtype]
    dense = [generator.integers(-9, 9, shape).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    return dense, generator.integers(-9, 9, (2, 3)).astype("f4"), np.array([worker, 5])


@tf.function
def reduced(dense, sparse, indices):
    def step(dense, sparse, indices):
        slices = tf.IndexedSlices(sparse, indices, dense_shape=tf.constant([8, 3], tf.int64))
        *totals, total = sum_over_replicas([*dense, slices])
        assert isinstance(total, tf.IndexedSlices)
        return totals, tf.convert_to_tensor(total)
    return strategy.run(step, args=(dense, sparse, indices))


for _ in range(3):
    totals, sparse_total = reduced(*values(tfdist.worker_index()))
per_worker = [values(worker) for worker in range(tfdist.num_workers())]
same = [bool(np.array_equal(total, sum(v[0][i] for v in per_worker))) for i, total in enumerate(totals)]
wanted = np.zeros((8, 3), "f4")
for _, rows, indices in per_worker:
    np.add.at(wanted, indices, rows)
same.append(bool(np.array_equal(sparse_total, wanted)))


@tf.function
def nested(x, times):
    """Sums in a branch and in a loop, between others."""

    def step(x, times):
        first = sum_over_replicas([x])[0]
        x = tf.cond(times > 1, lambda: sum_over_replicas([x, first])[1], lambda: x)
        for _ in tf.range(times):
            x = sum_over_replicas([x / 8.0])[0]
        return first, x, sum_over_replicas([x])[0]
    return strategy.run(step, args=(x, times))


workers = tfdist.num_workers()
for times in (1, 3):
    first, x, last = nested(tf.constant([1.0, 2.0]), tf.constant(times))
    wanted = np.array([1.0, 2.0], "f4") * (workers * workers if times > 1 else 1)
    for _ in range(times):
        wanted = sum([wanted / np.float32(8.0)] * workers)
    same += [bool(np.array_equal(x, wanted)), bool(np.array_equal(last, workers * wanted))]
now = strategy.run(lambda: sum_over_replicas([tf.fill([3], float(tfdist.worker_index()))])[0])
same.append(now.numpy().tolist() == [sum(range(workers))] * 3)

gradients = [tf.random.stateless_normal([1000], [3, worker]) for worker in range(tfdist.num_workers())]
sent = tf.function(lambda: strategy.run(lambda: sum_gradients([gradients[tfdist.worker_index()]])[0]))()
assert sent.dtype == tf.float32
off = float(tf.reduce_max(tf.abs(sent - sum(gradients)) / sum(map(tf.abs, gradients))))
said = {"same": same, "off": off, "collectives": collectives}
Path(f"{sys.argv[1]}.{tfdist.worker_index()}").write_text(json.dumps(said))
