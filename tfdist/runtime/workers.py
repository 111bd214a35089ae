"""The workers of a strategy and their replicas, and what one worker makes or does alone while one is in force."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import default_variable_creator_v2


@contextlib.contextmanager
def local_variables() -> Iterator[None]:
    """Variables made inside are plain ones, which no strategy distributes.

    A distributed one asks the other workers for its first value, so that a worker that makes a variable alone would
    wait for them. TensorFlow has no public name for the creator of plain ones.
    """

    def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        return default_variable_creator_v2(None, **kwargs)

    before, _THREAD.makes_local = makes_local_variables(), True
    try:
        with tf.variable_creator_scope(creator):
            yield
    finally:
        _THREAD.makes_local = before


_THREAD = threading.local()


def makes_local_variables() -> bool:
    """Returns whether the code that runs in this thread is inside of `local_variables`."""
    return getattr(_THREAD, "makes_local", False)


@contextlib.contextmanager
def outside_strategy() -> Iterator[tf.distribute.Strategy]:
    """Inside, TensorFlow's default strategy is in force: models are made, saved and called as with one device.

    Under the one of several workers each variable, and each file that is loaded, waits for the others.

    Yields:
        The default strategy.
    """
    strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
    tf.distribute.experimental_set_strategy(None)
    try:
        yield tf.distribute.get_strategy()
    finally:
        tf.distribute.experimental_set_strategy(strategy)


def worker_count(strategy: tf.distribute.Strategy) -> int:
    """Returns how many workers take part in `strategy`."""
    return strategy.num_replicas_in_sync // len(local_replicas(strategy))


def worker_rank(strategy: tf.distribute.Strategy) -> int:
    """This worker's index."""
    return local_replicas(strategy).start // len(local_replicas(strategy))


def local_replicas(strategy: tf.distribute.Strategy) -> range:
    """The ids of the replicas that this worker runs."""
    resolver = strategy.cluster_resolver
    workers = len(resolver.cluster_spec().job_tasks("worker")) if resolver and resolver.cluster_spec() else 1
    each = strategy.num_replicas_in_sync // max(workers, 1)
    index = (resolver.task_id or 0) if workers > 1 else 0
    return range(index * each, (index + 1) * each)
