"""What a script asks of its worker. The first call of any of these sets up this process's devices and strategy."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.runtime import collectives
from tfdist.training import session


def strategy() -> tf.distribute.Strategy:
    """The strategy of this process: MirroredStrategy for several devices, MultiWorkerMirroredStrategy for several
    workers, TensorFlow's default one for a single device.

    Call it before TensorFlow touches a device.

    Raises:
        UsageError: What `tfdist train` or TF_CONFIG asks for does not fit this machine.
    """
    return session.current().strategy


def worker_index() -> int:
    """This worker's index in the cluster; 0 is the chief."""
    return session.current().index


def num_workers() -> int:
    """How many workers the cluster has."""
    return session.current().num_workers


def num_replicas() -> int:
    """How many devices train in sync, over all workers."""
    return session.current().strategy.num_replicas_in_sync


def is_chief() -> bool:
    """Whether this worker is the one that writes files and talks to people."""
    return session.current().is_chief


def barrier() -> None:
    """Returns when every worker has called it; after the step timeout this process ends with an error."""
    collectives.barrier(strategy())


def all_reduce(value: Any, op: str = "sum") -> np.ndarray:
    """Reduces one array or number, of one shape and dtype on all workers, over the workers.

    Args:
        value: This worker's.
        op: `"sum"`, `"mean"`, `"max"` or `"min"`.

    Returns:
        An array of the shape of `value`, the same on every worker.

    Raises:
        UsageError: `op` is none of the four.
    """
    return collectives.all_reduce(value, op, strategy())


def all_gather(value: Any) -> np.ndarray:
    """Collects one array from every worker: shape `(workers, *value.shape)`, the same on every worker."""
    return collectives.all_gather(value, strategy())


def broadcast(value: Any, root: int = 0) -> np.ndarray:
    """The array of worker `root`, on every worker; all pass an array of one shape and dtype.

    Raises:
        UsageError: There is no worker `root`.
    """
    return collectives.broadcast(value, root, strategy())
