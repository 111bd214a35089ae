"""Metrics whose state is the same on every replica: updated with the rows of all of them, and never added up.

The metric stays the user's object, wherever the user keeps it. What changes is how TensorFlow reads and assigns its
variables from outside of the replicas: as those of the first replica, where it would add up or divide.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import alone, current_step
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.forward.metric_scope import Kind, kinds_of
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.workers import worker_count

_FIRST = tf.VariableAggregation.ONLY_FIRST_REPLICA

_ADDED_UP = frozenset({"float16", "bfloat16", "float32", "float64", "int32", "int64"})
"""Dtypes of which TensorFlow sums variables over replicas and workers."""


def add_variable(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `Metric.add_variable`: of bools and small integers, which nothing adds up, each replica keeps all."""

    @functools.wraps(original)
    def repaired(
        self: Any, shape: Any, initializer: Any, dtype: Any = None, aggregation: str = "sum", name: str | None = None
    ) -> Any:
        several = tf.distribute.get_strategy().num_replicas_in_sync > 1
        if several and aggregation == "sum" and keras.backend.standardize_dtype(dtype or self.dtype) not in _ADDED_UP:
            aggregation = "only_first_replica"
        return original(self, shape, initializer, dtype, aggregation, name)

    return repaired


def has_full_state(variable: keras.Variable) -> bool:
    """Returns whether each replica holds all of a variable of a metric, and not its summand of it."""
    return getattr(variable._value, "aggregation", None) == _FIRST


def adds_up(variable: keras.Variable) -> bool:
    """Returns whether the replicas' values of a variable are summands of it, as those of most metrics are."""
    value = variable._value
    if not isinstance(value, tf.distribute.DistributedValues) or has_full_state(variable):
        return False
    return bool(value.synchronization == tf.VariableSynchronization.ON_READ)


def keep_full_state(metric: keras.metrics.Metric, *, together: bool = False) -> None:
    """Lets each replica hold the whole state of a metric, as it is now; on every worker, before it is updated.

    Args:
        metric: The metric.
        together: Whether all workers surely call this at the same moment, as in a step. Otherwise nothing has been
            counted yet, of which several workers would have to tell each other.
    """
    todo = [variable for variable in metric.variables if adds_up(variable)]
    if not todo:
        return
    with tf.init_scope():
        reset = dict(zip(map(id, metric.variables), metric.stateless_reset_state(), strict=True))
        for variable in todo:
            distributed = variable._value
            at_reset = np.asarray(reset[id(variable)])
            alone_here = worker_count(distributed.distribute_strategy) == 1
            state = _state(distributed, at_reset) if together or alone_here else at_reset
            for part in distributed.values:
                part.assign(tf.cast(tf.convert_to_tensor(state), part.dtype))
            distributed._aggregation = _FIRST


def _state(distributed: Any, at_reset: np.ndarray) -> np.ndarray:
    """The value of a variable over the replicas of all workers, which call this together."""
    mine = np.stack([part.numpy() for part in distributed.values])
    parts = np.concatenate(list(all_gather(mine, distributed.distribute_strategy)))
    # TensorFlow has divided what it was reset to among the replicas, and the sum would be rounded.
    is_reset = np.array_equal(parts, np.broadcast_to(at_reset / len(parts), parts.shape))
    return at_reset if is_reset else parts.sum(axis=0, dtype=parts.dtype)


def update_on_global_batch(
    metric: keras.metrics.Metric, update: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Updates a metric with the rows of all replicas, as one device would; all replicas call it together.

    A scalar of a step, such as its loss, is taken over the replica's samples, and for their mean.

    Args:
        metric: The metric.
        update: Its update, called with the gathered arguments.
        args: The replica's arguments.
        kwargs: The replica's arguments by name.

    Raises:
        UnsupportedError: An argument cannot be gathered.
    """
    leaves = tf.nest.flatten((args, kwargs))
    try:
        whole = [_whole(leaf, kind) for leaf, kind in zip(leaves, kinds_of(leaves), strict=True)]
    except UnsupportedError as error:
        raise UnsupportedError(
            f"The metric {metric.name!r} ({type(metric).__qualname__}) is computed on the rows of all replicas, as it "
            f"is not known to be a sum over samples. {error}"
        ) from error
    args, kwargs = tf.nest.pack_sequence_as((args, kwargs), whole)
    with alone():
        update(*args, **kwargs)


def _whole(leaf: Any, kind: Kind) -> Any:
    if kind is Kind.ROWS:
        return all_rows(leaf)
    if kind is Kind.CONSTANT:
        return leaf
    step = current_step()
    if kind is Kind.SCALAR and step is not None and leaf.dtype.is_floating:
        return replica_sums.sum_over_replicas([step.share.summand_of_mean(leaf)])[0]
    raise UnsupportedError(
        f"It was given a tensor of shape {tuple(leaf.shape)} and dtype {leaf.dtype.name}, which has no row for each "
        "sample. Give update_state(...) values with the samples first, or train on one device (`tfdist train` without "
        "--workers, --nproc and --logical-devices)."
    )
