"""Repairs of TensorFlow's own saving, `tf.train.Checkpoint` and `tf.saved_model.save`, by which the chief saves alone.

Between workers a variable that is made is every worker's, with the chief's value, and a metric's is summed over all of
them where it is read: a worker that saves alone would wait for the others. What saving makes is its own here, such as
the number of a checkpoint, and a metric is saved as it begins.

Under a strategy TensorFlow makes the variables of what it loads distributed, and gives its functions placeholders for
them outside of the replicas, which fail when they run: it expects them to be called by the layers of a model alone. A
script that looks at what it has exported calls them as on one device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.checkpoint import graph_view
from tensorflow.python.training.saving import saveable_object

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.optimizer.variable_updates import is_of_metric
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.runtime.workers import local_variables, worker_count


def call_flat(original: Function) -> Function:
    """Repairs `_WrapperFunction._call_flat`: outside of the replicas, variables are those of the first one here."""

    def repaired(self: Any, args: Sequence[Any], captured_inputs: Sequence[Any]) -> Any:
        if tf.distribute.in_cross_replica_context():
            captured_inputs = [_handle(captured) for captured in captured_inputs]
        return original(self, args, captured_inputs)

    return repaired


def _handle(captured: Any) -> Any:
    """The resource of a variable that is the same on every replica; anything else as it is."""
    is_distributed = isinstance(captured, tf.distribute.DistributedValues) and isinstance(captured, tf.Variable)
    if not is_distributed or captured.synchronization == tf.VariableSynchronization.ON_READ:
        return captured
    return captured._primary.handle


Function = Callable[..., Any]


def whole_alone(original: Function) -> Function:
    """Repairs `Checkpoint._write`, by which all its methods save, and `tf.saved_model.save`: of what comes first.

    Raises:
        UnsupportedError: The chief has a shard of it.
    """
    save_alone = alone(original)

    @functools.wraps(original)
    def repaired(saved: Any, *args: Any, **kwargs: Any) -> Any:
        if worker_count(tf.distribute.get_strategy()) > 1:
            for shard in _sharded_in(saved):
                raise UnsupportedError(
                    f"tf.train.Checkpoint and tf.saved_model.save need all values as variables of one process, and "
                    f"{shard} between workers. Save the model with model.save(...) on all workers, or train with "
                    "--shard none and without sharded embeddings."
                )
        return save_alone(saved, *args, **kwargs)

    return repaired


def _sharded_in(saved: Any) -> Iterator[str]:
    """Yields what there is of which each worker has a shard, in words."""
    for found in graph_view.ObjectGraphView(saved).breadth_first_traversal()[0]:
        if isinstance(found, keras.optimizers.Optimizer) and is_sharded(found):
            yield f"the state of the optimizer {found.name!r} is cut"
        elif (shard := shard_of(found)) is not None:
            yield shard.description


def alone(original: Function) -> Function:
    """Repairs `Checkpoint._maybe_create_save_counter`, and others that make variables while the chief alone saves."""

    @functools.wraps(original)
    def repaired(*args: Any, **kwargs: Any) -> Any:
        if worker_count(tf.distribute.get_strategy()) == 1:
            return original(*args, **kwargs)
        with local_variables():
            return original(*args, **kwargs)

    return repaired


def on_read_saveable(original: Function) -> Function:
    """Repairs `get_on_read_saveable`: between workers the state of a metric is saved as it is before any sample.

    `fit` and `evaluate` begin so, whatever was restored. What is no metric's is summed as TensorFlow does it, which all
    workers do together.
    """

    def repaired(var: Any, primary_var: Any, name: str) -> tuple[Callable[[], tf.Tensor], list[Any]]:
        if worker_count(var.distribute_strategy) == 1 or not is_of_metric(var):
            return original(var, primary_var, name)

        def tensor() -> tf.Tensor:
            return tf.zeros(primary_var.shape, primary_var.dtype)

        spec = saveable_object.SaveSpec(tensor, "", name, dtype=var.dtype, device=primary_var.device)
        return tensor, [spec]

    return repaired
