"""Chooses the replica that writes what all of them have of the global batch."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, current_step, is_alone
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas


class Where(enum.Enum):
    """The place of what is written."""

    OUTSIDE = "a file, a terminal: the chief's first replica writes"
    IN_PROCESS = "an object of the process, which the script of each worker may read: its first replica writes"


def of_all() -> contextlib.AbstractContextManager[None]:
    """The code inside writes what is that of the global batch on every replica."""
    return changing(REPLICA_SCOPE, writes_of_all=True)


@contextlib.contextmanager
def writing_nothing(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Steps inside are made beside the training: they compute what they do, and write nothing."""
    # Replicas are threads, to which no context is handed down.
    settings_of(strategy).writes = False
    try:
        yield
    finally:
        settings_of(strategy).writes = True


def has_part() -> bool:
    """Returns whether the code that runs writes what a replica has of its part of the global batch."""
    return current_step() is not None and not REPLICA_SCOPE.get().writes_of_all


def writes(where: Where) -> bool:
    """Returns whether the replica that runs the code is the one that writes what is of the global batch."""
    if current_step() is None and not is_alone():
        return True
    if not settings_of(tf.distribute.get_strategy()).writes:
        return False
    context = tf.distribute.get_replica_context()
    replica = None if context is None else tf.get_static_value(context.replica_id_in_sync_group)
    if replica is None:
        return True
    first = 0 if where is Where.OUTSIDE else local_replicas(tf.distribute.get_strategy()).start
    return int(replica) == first


def nothing_written() -> Any:
    """Returns what an operation without a result gives, where it does not write."""
    return None if tf.executing_eagerly() else tf.no_op()
