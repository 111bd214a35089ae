"""The workers of a strategy and their replicas, of which each has equally many."""

from __future__ import annotations

import tensorflow as tf


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
