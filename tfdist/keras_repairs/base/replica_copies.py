"""The variables of this worker's replicas behind one variable of Keras, and that of the replica whose code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import variables as keras_variables

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.runtime.workers import local_replicas

_PLACE: AttachedValue[int] = AttachedValue("place_of_replica")
"""`_place_of` a context. TensorFlow adds a constant to the graph each time that it is asked for the replica."""


def copies(variable: Any) -> tuple[tf.Variable, ...]:
    """The variables of this worker's replicas behind a Keras variable."""
    value = variable.value
    return value.distribute_strategy.experimental_local_results(value) if _is_distributed(value) else (value,)


def of_this_replica() -> contextlib.AbstractContextManager[None]:
    """Inside, assignments go to this replica's copy alone. All replicas must assign the same."""
    return changing(REPLICA_SCOPE, assigns_own_copy=True)


def on_global_batch() -> contextlib.AbstractContextManager[None]:
    """As `of_this_replica`, for code that every replica runs on all samples: what is summed over replicas counts once.

    Such as the state of a metric that is updated inside, which the first replica assigns alone.
    """
    return changing(REPLICA_SCOPE, assigns_own_copy=True, counts_once=True)


def counts_once() -> bool:
    """Returns whether the code that runs is that of `on_global_batch`."""
    return REPLICA_SCOPE.get().counts_once


def is_first_replica() -> bool:
    """Returns whether the code that runs is that of the first replica of all. Call it in the context of a replica."""
    return not tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)


def is_of_this_replica() -> bool:
    """Returns whether assignments go to this replica's copy alone."""
    return REPLICA_SCOPE.get().assigns_own_copy


def own_copy(variable: Any) -> Any:
    """This replica's copy of a Keras or TensorFlow variable; of a table that is cut, the rows of this worker."""
    part = getattr(variable, "own_part", None)
    if part is not None:
        return part
    value = variable
    if isinstance(variable, keras.Variable):
        # As it is stored: in a layer's call in mixed precision Keras would cast it.
        with keras_variables.AutocastScope(None):
            value = variable.value
    if not isinstance(value, tf.distribute.DistributedValues):
        return value
    context = tf.distribute.get_replica_context()
    return own_of(context.strategy.experimental_local_results(value))


def own_of(values: Sequence[Any]) -> Any:
    """This replica's one of values that each of this worker's replicas has one of; outside of replicas the first."""
    context = tf.distribute.get_replica_context()
    if len(values) == 1 or context is None:
        return values[0]
    return values[_PLACE.get_or_make(context, lambda: _place_of(context))]


def _place_of(context: tf.distribute.ReplicaContext) -> int:
    """Returns which of this worker's replicas has the context."""
    replica = int(tf.get_static_value(context.replica_id_in_sync_group))
    return replica - local_replicas(context.strategy).start


def _is_distributed(value: Any) -> bool:
    return isinstance(value, tf.distribute.DistributedValues)
