"""Variables: their initial values, those that are made in a step, and one with copies as a number.

Plain Keras builds in its first step what is not built yet, and TensorFlow lifts the variables out of that. On several
replicas a variable that the first of them makes would be its own, or one outside of any scope that each of them updates
in turn. Here it is made as by a script: in no graph, with a copy on each replica, at the place and under the name that
it has on one device.

TensorFlow can convert variables of one device, and not those of a strategy: `float` and `int` raise, a scalar is no
array where the strategy is in scope, and `if variable:` is taken whatever the value.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.lift_to_graph import lift_to_graph
from tensorflow.python.trackable.base import CheckpointInitialValue

from tfdist.keras_repairs.base.replica_step import replica_step
from tfdist.keras_repairs.base.thread_attributes import in_other_thread, outside_replica, strategy_of_replica
from tfdist.runtime.collectives.chief_broadcast import is_taken, value_from_chief
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.compiled_sums import CompiledSums
from tfdist.runtime.workers import makes_local_variables

Function = Callable[..., Any]


def variable_creator_initial_value(original: Function) -> Function:
    """Repairs `CollectiveAllReduceExtended._get_variable_creator_initial_value`.

    TensorFlow broadcasts over the network, also where workers share memory, and not every dtype.
    """

    @functools.wraps(original)
    def repaired(extended: Any, replica_id: int, device: str, primary_var: Any, **kwargs: Any) -> Any:
        strategy = extended._container_strategy()
        if replica_id != 0:
            return original(extended, replica_id, device, primary_var, **kwargs)

        def initial_value() -> tf.Tensor:
            with tf.device(device):
                value = _own_value(kwargs["initial_value"], kwargs.get("dtype"))
                name = kwargs.get("name") or "Variable"
                if is_taken(value, name, strategy):
                    return value_from_chief(value, name, strategy)
            as_before = {**kwargs, "initial_value": value}
            return original(extended, replica_id, device, primary_var, **as_before)()

        return initial_value

    return repaired


def _own_value(initial_value: Any, dtype: Any) -> tf.Tensor:
    """Returns what TensorFlow's function takes for this worker's value."""
    value = initial_value() if callable(initial_value) else initial_value
    if isinstance(value, CheckpointInitialValue):
        value = value.wrapped_value
    return tf.convert_to_tensor(value, dtype=dtype)


def converting(convert: Callable[[Any], Any]) -> Callable[[Any], Callable[..., Any]]:
    """Makes the method that `convert`, such as `float`, calls: of the value that the variable has outside of replicas.

    In a graph there is no value, and TensorFlow says so, as it does for a variable of one device.
    """

    def make(_: Any) -> Callable[..., Any]:
        def repaired(self: Any) -> Any:
            return convert(self.read_value())

        return repaired

    return make


def truth(_: Any) -> Callable[..., Any]:
    """Makes the method that `bool` and `if` call.

    TensorFlow's own code of strategies asks so whether it was given a variable.
    """

    def repaired(self: Any) -> bool:
        asks_for_one = sys._getframe(1).f_globals["__name__"].startswith("tensorflow.python.distribute.")
        return asks_for_one or bool(self.read_value())

    return repaired


def array(_: Any) -> Callable[..., Any]:
    """Makes the method that `np.array` calls, which gives a copy in any case."""

    def repaired(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.numpy(), dtype)

    return repaired


Result = TypeVar("Result")


def outside_of_replicas(function: Callable[[], Result]) -> Result:
    """Returns what `function` returns: in a replica it runs eagerly in the scope of the strategy, elsewhere as it is,
    as where variables are this worker's own.

    In a thread of its own, as TensorFlow keeps graph and strategy for each. All workers trace the same steps, so they
    come here in the same order, where a first value is that of the chief.
    """
    strategy = strategy_of_replica()
    if strategy is None or makes_local_variables():
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
