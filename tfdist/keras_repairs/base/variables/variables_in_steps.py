"""Variables that are made while a replica runs or is traced: in the scope of the strategy, outside of all replicas.

Plain Keras builds in its first step what is not built yet, and TensorFlow lifts the variables out of that. On several
replicas a variable that the first of them makes would be its own, or one outside of any scope that each of them updates
in turn. Here it is made as by a script: in no graph, with a copy on each replica, at the place and under the name that
it has on one device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.eager.lift_to_graph import lift_to_graph

from tfdist.keras_repairs.base.replica_step import replica_step
from tfdist.keras_repairs.base.thread_attributes import in_other_thread, outside_replica, strategy_of_replica
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.compiled_sums import CompiledSums

Result = TypeVar("Result")


def outside_of_replicas(function: Callable[[], Result]) -> Result:
    """Returns what `function` returns: in a replica it runs eagerly in the scope of the strategy, elsewhere as it is.

    In a thread of its own, as TensorFlow keeps graph and strategy for each. All workers trace the same steps, so they
    come here in the same order, where a first value is that of the chief.
    """
    strategy = strategy_of_replica()
    if strategy is None:
        return function()

    settings = settings_of(strategy)
    sums = settings.sums

    def run() -> Result:
        left = sums.left(settings) if isinstance(sums, CompiledSums) else contextlib.nullcontext()
        with left, outside_replica(), replica_step(None), strategy.scope():
            return function()

    return in_other_thread(run, name="tfdist-building")


def value_outside(value: Any) -> Any:
    """The value of a tensor of a graph, for code outside of it; anything else as it is. Call it there.

    Raises:
        tensorflow.python.eager.lift_to_graph.UnliftableError: It depends on what the graph is given, such as a batch.
            So it is on one device.
    """
    if not isinstance(value, tf.Tensor) or isinstance(value, tf.__internal__.EagerTensor):
        return value

    @tf.function(autograph=False)
    def lifted() -> tf.Tensor:
        return lift_to_graph([value], tf.compat.v1.get_default_graph())[value]

    return lifted()
