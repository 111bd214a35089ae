"""Repairs of variable updates: each replica updates its own copy.

Once gradients are summed, every replica holds the same numbers and makes the same update, so none needs the
others. Keras instead leaves the replicas for each update, which TensorFlow allows neither inside of `tf.cond` nor of
a loop: averages that overwrite weights, accumulated gradients and skipped steps crash on it.

Keras writes an update as a dozen operations, each of which reads and writes arrays of the model's size. On the CPU that
is a good part of a large model's step. SGD has kernels of TensorFlow's. TensorFlow's kernel for Adam takes 1 - beta in
the precision of the variable, which in float32 is off by 1e-5 from Keras's: too far from one replica's numbers. So
Keras's own formula is compiled, for large variables.

Keras's Adagrad computes with its whole state in each step, and changes some rows where a gradient is sparse.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.framework import op_callbacks
from tensorflow.python.ops import resource_variable_ops

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_copies import counts_once, is_first_replica, is_of_this_replica, own_copy, own_of
from tfdist.keras_repairs.base.replica_step import current_step, is_alone, is_one_of_several, replica_count
from tfdist.keras_repairs.base.variables import outside_of_replicas, value_outside
from tfdist.keras_repairs.sharding_policies.optimizer_policy import own_of_state, updates
from tfdist.runtime.offload.disk_tensor import DiskTensor
from tfdist.runtime.offload.offloading import Disk
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.compiled_sums import CompiledSums
from tfdist.runtime.workers import local_replicas


def sgd(original: Function) -> Function:
    """Repairs `SGD.update_step`, with and without momentum (Sutskever et al., 2013, for Nesterov's)."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        # One replica computes as Keras does, also where its optimizer is offloaded.
        target = own_copy(variable) if is_of_this_replica() and is_one_of_several() else None
        if target is None or not _assigns_as(keras.optimizers.SGD, self) or not _is_fit(gradient, target):
            original(self, gradient, variable, learning_rate)
            return
        rate = tf.cast(learning_rate, target.dtype)
        if not self.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=target.handle, alpha=rate, delta=gradient)
            return
        with _as_variable(own_copy(self.momentums[self._get_variable_index(variable)])) as momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=target.handle,
                accum=momentum.handle,
                lr=rate,
                grad=gradient,
                momentum=tf.cast(self.momentum, target.dtype),
                use_nesterov=self.nesterov,
            )

    return repaired


_COMPILED_FROM = 1 << 20
"""Elements of a variable from which its update is compiled, once for each shape."""


def adam(original: Function) -> Function:
    """Repairs `Adam.update_step` (Kingma and Ba, 2015), of AdamW as well, for large variables on CPUs.

    They change where they lie: one pass over memory instead of a dozen, and no memory for what is between.
    """

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        target = own_copy(variable) if is_of_this_replica() and is_one_of_several() else None
        is_own = self.amsgrad or not _assigns_as(keras.optimizers.Adam, self)
        if target is None or is_own or not _is_compiled(gradient, target):
            original(self, gradient, variable, learning_rate)
            return
        place = self._get_variable_index(variable)
        slots = own_copy(self._momentums[place]), own_copy(self._velocities[place])
        if not all(_is_beside(slot, target) for slot in slots):
            original(self, gradient, variable, learning_rate)
            return
        # As Keras computes them: in the precision of the variable, but for 1 - beta.
        rate, step, beta_1, beta_2 = (
            keras.ops.cast(number, target.dtype)
            for number in (learning_rate, self.iterations + 1, self.beta_1, self.beta_2)
        )
        rate *= tf.sqrt(1 - tf.pow(beta_2, step)) / (1 - tf.pow(beta_1, step))
        # From Python's float at once, and not by way of float32.
        constants = (
            tf.constant(number, target.dtype) if isinstance(number, float) else tf.cast(number, target.dtype)
            for number in (1 - self.beta_1, 1 - self.beta_2, self.epsilon)
        )
        handles = (each.handle for each in (target, *slots))
        _compiled_adam(*handles, gradient, rate, *constants)

    return repaired


def _assigns_as(kind: type, optimizer: Any) -> bool:
    """Returns whether an optimizer changes variables as one of Keras's does, and not in a way of its own."""
    names = ("assign", "assign_add", "assign_sub")
    return not any(name in vars(optimizer) or getattr(type(optimizer), name) is not getattr(kind, name)
                   for name in names)  # fmt: skip


def _is_compiled(gradient: Any, target: Any) -> bool:
    """Returns whether the update of a variable is compiled.

    Eagerly TensorFlow would warn of one more trace for each shape and device. A debugger looks at all operations, which
    XLA does not take.
    """
    return (
        not tf.executing_eagerly()
        and _is_fit(gradient, target)
        and isinstance(target, resource_variable_ops.BaseResourceVariable)
        and target.dtype in (tf.float32, tf.float64)
        and (gradient.shape.num_elements() or 0) >= _COMPILED_FROM
        and not settings_of(tf.distribute.get_strategy()).on_gpus
        and not op_callbacks.should_invoke_op_callbacks()
    )


def _is_beside(slot: Any, target: Any) -> bool:
    """Returns whether a slot is a variable in memory, on the device of what it is for."""
    return isinstance(slot, resource_variable_ops.BaseResourceVariable) and slot.device == target.device


@tf.function(jit_compile=True, autograph=False)
def _compiled_adam(
    variable: tf.Tensor,
    momentum: tf.Tensor,
    velocity: tf.Tensor,
    gradient: tf.Tensor,
    rate: tf.Tensor,
    rest_1: tf.Tensor,
    rest_2: tf.Tensor,
    epsilon: tf.Tensor,
) -> None:
    """Keras's update of variables that are given by their handles, by which one function serves all of a shape.

    Args:
        variable: To be updated, as its slots.
        momentum: The mean of gradients.
        velocity: That of their squares.
        gradient: Of the variable.
        rate: The learning rate, with the corrections of the means in it.
        rest_1: 1 - beta_1.
        rest_2: 1 - beta_2.
        epsilon: Of the denominator.
    """
    value, mean, squares = (
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=gradient.dtype) for handle in (variable, momentum, velocity)
    )
    mean += (gradient - mean) * rest_1
    squares += (tf.square(gradient) - squares) * rest_2
    value -= mean * rate / (tf.sqrt(squares) + epsilon)
    for handle, changed in ((variable, value), (momentum, mean), (velocity, squares)):
        tf.raw_ops.AssignVariableOp(resource=handle, value=changed)


def adagrad(original: Function) -> Function:
    """Repairs `Adagrad.update_step` (Duchi et al., 2011) for sparse gradients of several replicas."""

    def repaired(self: Any, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if not is_of_this_replica() or not isinstance(gradient, tf.IndexedSlices):
            original(self, gradient, variable, learning_rate)
            return
        target = own_copy(variable)
        sums = own_copy(self._accumulators[self._get_variable_index(variable)])
        values, rows = tf.cast(gradient.values, target.dtype), gradient.indices
        # A row that comes twice counts each slice's square, as with Keras.
        sums.scatter_add(tf.IndexedSlices(tf.square(values), rows))
        rate, epsilon = (tf.constant(number, target.dtype) if isinstance(number, float) else number
                         for number in (learning_rate, self.epsilon))  # fmt: skip
        steps = tf.cast(rate, target.dtype) * values / tf.sqrt(tf.gather(sums, rows) + epsilon)
        target.scatter_sub(tf.IndexedSlices(steps, rows))

    return repaired


def _as_variable(value: Any) -> contextlib.AbstractContextManager[Any]:
    return value.as_variable() if isinstance(value, DiskTensor) else contextlib.nullcontext(value)


def _is_fit(gradient: Any, target: Any) -> bool:
    """Returns whether the kernels take them; sparse gradients and those of another precision are left to Keras."""
    return isinstance(gradient, tf.Tensor) and gradient.dtype == target.dtype


Function = Callable[..., Any]


_IS_OF_METRIC: AttachedValue[bool] = AttachedValue("is_of_metric")


def _is_summed(value: Any) -> bool:
    """Returns whether the copies of a variable are summed where it is read outside of the replicas."""
    return (
        isinstance(value, tf.distribute.DistributedValues)
        and value.synchronization == tf.VariableSynchronization.ON_READ
        and value.aggregation == tf.VariableAggregation.SUM
    )


def is_of_metric(variable: tf.Variable) -> bool:
    """Returns whether a variable of TensorFlow's, with a part of a sum on each replica, was made for a metric of
    Keras."""
    return bool(_IS_OF_METRIC.get(variable))


def direct_assign(original: Function) -> Function:
    """Repairs `keras.Variable._direct_assign`: an assigned value is not read again, and is of samples.

    TensorFlow returns the new value, and reading a metric's variable over all replicas is a collective: two for each
    metric that is reset at the start of an epoch. The state of a metric stays as it is on a replica without samples.
    Outside of the replicas, as where a script updates a metric by hand, what is assigned is what is read then.
    """

    def repaired(self: Any, value: Any) -> None:
        if is_of_this_replica():
            if counts_once() and _is_summed(self._value) and not is_first_replica():
                return
            copy = own_copy(self._value)
            copy.assign(tf.cast(value, copy.dtype))
        elif _is_summed(self._value) and tf.distribute.in_cross_replica_context():
            _assign_sum(self._value, value)
        elif isinstance(sums := settings_of(tf.distribute.get_strategy()).sums, CompiledSums):
            copy = own_copy(self._value)
            copy.assign(_aggregated(self._value, _of_samples(self, tf.cast(value, copy.dtype)), sums))
        elif isinstance(self._value, tf.distribute.DistributedValues):
            self._value.assign(_of_samples(self, tf.cast(value, self._value.dtype)), read_value=False)
        else:
            original(self, value)

    return repaired


def _aggregated(variable: Any, value: tf.Tensor, sums: CompiledSums) -> tf.Tensor:
    """Returns what a replica's copy becomes where each replica assigns a value of its own, in a step that XLA compiles
    whole.

    TensorFlow would leave the replicas for it, which they cannot in a compiled function.
    """
    aggregation = getattr(variable, "aggregation", tf.VariableAggregation.NONE)
    if aggregation not in (tf.VariableAggregation.MEAN, tf.VariableAggregation.SUM):
        return value
    if variable.synchronization == tf.VariableSynchronization.ON_READ:
        return value
    (total,) = sums.sum([value])
    is_mean = aggregation == tf.VariableAggregation.MEAN
    return total / tf.cast(replica_count(), total.dtype) if is_mean else total


def own_assign(original: Function) -> Function:
    """Repairs `DistributedVariable.assign`, `assign_add` and `assign_sub`, where replicas assign each its own copy."""

    def repaired(self: Any, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True) -> Any:
        if not is_of_this_replica() or tf.distribute.in_cross_replica_context():
            return original(self, value, use_locking, name, read_value)
        copy = own_of(tf.distribute.get_strategy().experimental_local_results(self))
        if copy is self:  # In a trial, whose emulated replicas have no copies.
            return original(self, value, use_locking, name, read_value)
        if counts_once() and _is_summed(self) and not is_first_replica():
            return copy if read_value else None
        return getattr(copy, original.__name__)(value, use_locking, name, read_value)

    return repaired


def scatter_nd(scattered: Callable[[Any, Any, Any], tf.Tensor]) -> Callable[[Function], Function]:
    """Repairs `DistributedVariable.scatter_nd_add`, `_sub` and `_update`, which TensorFlow has for one device alone.

    Args:
        scattered: What it is for tensors, such as `tf.tensor_scatter_nd_update`.
    """

    def make(_: Function) -> Function:
        def repaired(self: Any, indices: Any, updates: Any, name: Any = None) -> Any:
            return self.assign(scattered(self.read_value(), indices, updates), name=name)

        return repaired

    return make


def initialize(original: Function) -> Function:
    """Repairs `keras.Variable._initialize`: what a metric's state begins with counts once, and not once a replica.

    What is made in a replica's step is made in the scope of the strategy. Where another function is traced that makes
    a metric's variable, such as the first update of F1Score, it is made outside of the function, by which TensorFlow
    would give it its value in every copy, and only later.
    """

    def initialized(variable: Any, value: Any, *, is_whole: bool) -> None:
        with tf.init_scope() if variable.synchronization == "on_read" else contextlib.nullcontext():
            original(variable, value_outside(value))
            if not _is_summed(variable._value):
                return
            _IS_OF_METRIC.set(variable._value, True)
            if is_whole:
                variable._value._aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
            else:
                _assign_sum(variable._value, variable._value.values[0].read_value())

    def repaired(self: Any, value: Any) -> None:
        # The first update of a metric that each replica updates with the rows of all: see `global_batch_metrics`.
        is_whole = is_alone() and not is_of_this_replica()
        outside_of_replicas(lambda: initialized(self, value, is_whole=is_whole))

    return repaired


def _assign_sum(variable: Any, value: Any) -> None:
    """Makes `value` the sum of the copies: the first replica has it.

    TensorFlow gives each its share, which is cut to a whole number where the variable holds those: MeanIoU would be 0.
    """
    strategy = variable.distribute_strategy
    given = tf.cast(value, variable.dtype)
    for replica, copy in zip(local_replicas(strategy), strategy.experimental_local_results(variable), strict=True):
        copy.assign(given if replica == 0 else tf.zeros_like(given), read_value=False)


def _of_samples(variable: keras.Variable, value: tf.Tensor) -> tf.Tensor:
    """`value`; where a replica without samples assigns it to a variable of a metric, the value that is there."""
    step = current_step()
    # Variables that are summed when they are read are those of metrics.
    if step is None or step.share.surely_has_samples or variable.synchronization != "on_read":
        return value
    return tf.where(step.share.samples > 0, value, own_copy(variable))


def assign(original: Function) -> Function:
    """Repairs `TFOptimizer.assign`, `assign_add` and `assign_sub`."""

    def repaired(self: Any, variable: Any, value: Any) -> None:
        if is_of_this_replica():
            original(self, own_copy(variable), value)
        else:
            original(self, variable, own_of_state(self, variable, value))

    return repaired


def update_step(original: Function) -> Function:
    """Repairs `TFOptimizer._backend_update_step`."""

    def repaired(self: Any, grads: Sequence[Any], trainable_variables: Sequence[Any], learning_rate: Any) -> None:
        if not is_of_this_replica():
            original(self, grads, trainable_variables, learning_rate)
            return
        pairs = [pair for pair in zip(grads, trainable_variables, strict=True) if updates(self, pair[1])]
        disk = _disk_of(self)
        if disk is None:
            for gradient, variable in pairs:
                self.update_step(gradient, own_copy(variable), learning_rate)
            return
        with disk.turns.updates() as turns:
            # What comes last in a model has its gradient first, which is in memory until then.
            for gradient, variable in reversed(pairs):
                with turns.of_variable():
                    self.update_step(gradient, own_copy(variable), learning_rate)

    return repaired


def _disk_of(optimizer: Any) -> Disk | None:
    """Returns where an optimizer that updates in a function keeps its state on disk; None where it does not."""
    offload = settings_of(optimizer._distribution_strategy).offload
    return None if offload is None or tf.executing_eagerly() else offload.disk


def as_without_strategy(original: Function) -> Function:
    """Repairs the methods of `TFOptimizer` that leave the replicas where the optimizer of no backend would not."""
    plain = getattr(BaseOptimizer, original.__name__)

    def repaired(self: Any, *args: Any) -> Any:
        return plain(self, *args) if is_of_this_replica() else original(self, *args)

    return repaired


def scaled_apply(original: Function) -> Function:
    """Repairs `LossScaleOptimizer._tf_apply`: gradients are finite, or not, on all replicas alike."""

    def repaired(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        if is_of_this_replica():
            self._common_apply(grads, trainable_variables)
        else:
            original(self, grads, trainable_variables)

    return repaired
