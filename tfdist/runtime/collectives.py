"""Worker-level collectives: every worker calls the same function in the same order and all get the same answer.

These run outside of training steps: decisions, small values, barriers. The process's watchdog bounds how long each may
take.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.feeding import local_replicas
from tfdist.runtime.meter import meter_of
from tfdist.runtime.sums import ring_of

_REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


def worker_count(strategy: tf.distribute.Strategy) -> int:
    """How many workers take part in `strategy`."""
    return strategy.num_replicas_in_sync // len(local_replicas(strategy))


def worker_rank(strategy: tf.distribute.Strategy) -> int:
    """This worker's index."""
    return local_replicas(strategy).start // len(local_replicas(strategy))


def all_gather(value: Any, strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """Collects one array from every worker.

    Args:
        value: An array or number, of one shape and dtype on all workers.
        strategy: The strategy; TensorFlow's current one when None.

    Returns:
        An array of shape `(workers, *value.shape)` and the dtype of `value`, the same on every worker.

    Raises:
        UsageError: `value` is no array of numbers or texts, or it has another shape or dtype on another worker. Where
            the sizes in bytes differ, too, it is TensorFlow that raises.
    """
    strategy = strategy or tf.distribute.get_strategy()
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise UsageError(
            "Workers exchange arrays, of one shape and dtype on all of them. Received: a "
            f"{type(value).__name__}, which is none. Give a number or an array on every worker, also where its value "
            "does not matter."
        )
    workers = worker_count(strategy)
    if workers == 1:
        return array[np.newaxis]
    # A sum in which each worker fills its own row and all other summands are zero copies bits, of integers.
    content = array.tobytes()
    kind = np.array([zlib.crc32(f"{array.dtype} {array.shape}".encode())], np.uint32).tobytes()
    words = np.frombuffer(kind + content.ljust(-(-len(content) // 4) * 4, b"\0"), np.int32)
    rows = np.zeros((workers, words.size), np.int32)
    rows[worker_rank(strategy)] = words
    total = _sum_over_workers(rows, strategy)
    _check_kinds(total[:, 0], array, worker_rank(strategy))
    return np.stack(
        [np.frombuffer(row[1:].tobytes()[: len(content)], array.dtype).reshape(array.shape) for row in total]
    )


def all_reduce(value: Any, op: str = "sum", strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """Reduces one array over all workers, in the order of the workers.

    Args:
        value: An array or number, of one shape and dtype on all workers.
        op: `"sum"`, `"mean"`, `"max"` or `"min"`.
        strategy: The strategy; TensorFlow's current one when None.

    Returns:
        An array of the shape of `value`, the same on every worker.

    Raises:
        UsageError: `op` is none of the four; or see `all_gather`.
    """
    if op not in _REDUCTIONS:
        raise UsageError(f"all_reduce knows the operations {sorted(_REDUCTIONS)}. Received: op={op!r}")
    return np.asarray(_REDUCTIONS[op](all_gather(value, strategy), axis=0))


def broadcast(value: Any, root: int = 0, strategy: tf.distribute.Strategy | None = None) -> np.ndarray:
    """The array of worker `root`, on every worker. All workers pass an array of one shape and dtype.

    Raises:
        UsageError: There is no worker `root`; or see `all_gather`.
    """
    rows = all_gather(value, strategy)
    if not 0 <= root < len(rows):
        raise UsageError(f"broadcast needs a root among the workers 0 to {len(rows) - 1}. Received: root={root}")
    return rows[root]


def gather_objects(value: Any, strategy: tf.distribute.Strategy | None = None) -> list[Any]:
    """Collects one JSON-serialisable object from every worker; their sizes may differ."""
    data = json.dumps(value).encode()
    size = int(all_reduce(len(data), "max", strategy))
    rows = all_gather(np.frombuffer(data.ljust(size), np.uint8), strategy)
    return [json.loads(row.tobytes()) for row in rows]


def barrier(strategy: tf.distribute.Strategy | None = None) -> None:
    """Returns when every worker has called it."""
    all_gather(0, strategy)


def _check_kinds(kinds: np.ndarray, array: np.ndarray, rank: int) -> None:
    """Bits of one dtype read as another would be other numbers: 0.5 on a worker, and 0 on one that has nothing."""
    others = np.flatnonzero(kinds != kinds[rank]).tolist()
    if others:
        raise UsageError(
            "Workers exchange arrays of one shape and dtype. Received: "
            f"{array.dtype} of shape {array.shape} on worker {rank}, and another on {', '.join(map(str, others))}. "
            "Convert the value on every worker, as with float(value) or numpy.asarray(value, 'float32')."
        )


def _sum_over_workers(rows: np.ndarray, strategy: tf.distribute.Strategy) -> np.ndarray:
    local = len(local_replicas(strategy))

    def contribution(context: tf.distribute.ValueContext) -> tf.Tensor:
        speaks = context.replica_id_in_sync_group % local == 0
        return tf.constant(rows if speaks else np.zeros_like(rows))

    meter, ring = meter_of(strategy), ring_of(strategy)
    with contextlib.nullcontext() if meter is None else meter.waiting():
        if ring is not None:
            return ring.sum_now(rows)
        values = strategy.experimental_distribute_values_from_function(contribution)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None).numpy()
