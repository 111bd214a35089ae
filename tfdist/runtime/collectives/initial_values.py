"""The chief's initial values of variables, on all workers, where TensorFlow's broadcast is slower or has no kernel."""

from __future__ import annotations

import functools

import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.runtime.collectives.chief_broadcast import array_from_chief, content_from_chief
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.object_exchange import ObjectExchange
from tfdist.runtime.transport.text_tensors import from_bytes, to_bytes
from tfdist.runtime.transport.worker_sums import sum_over_workers
from tfdist.runtime.workers import worker_count, worker_rank

_BROADCAST = (tf.bool, tf.float32, tf.float16, tf.float64, tf.int32, tf.int64)
"""The dtypes that TensorFlow broadcasts."""


def is_taken(value: tf.Tensor, name: str, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether `value_from_chief` takes a value of a variable, and not TensorFlow; the same on all workers.

    It takes numbers and texts, outside of functions: all of them where all workers share memory, elsewhere those of
    dtypes that TensorFlow does not broadcast, such as bfloat16.

    Raises:
        UnsupportedError: Nobody takes it: it is made in a function, of a dtype that TensorFlow does not broadcast.
    """
    if worker_count(strategy) == 1:
        return False
    dtype = value.dtype
    is_better = settings_of(strategy).memory is not None or dtype not in _BROADCAST
    if not tf.executing_eagerly():
        _check_broadcast(dtype, name)
        return False
    has_numbers = dtype.is_bool or dtype.is_integer or dtype.is_floating or dtype.is_complex
    return is_better and (has_numbers or dtype == tf.string)


def value_from_chief(value: tf.Tensor, name: str, strategy: tf.distribute.Strategy) -> tf.Tensor:
    """The chief's value of a variable, on every worker; all call this together.

    Args:
        value: This worker's, which `is_taken`; of one shape and dtype on all workers.
        name: The variable's.
        strategy: The strategy in force.

    Raises:
        UsageError: The shape or the dtype is another one on another worker.
        WorkerFailedError: Another worker has ended.
    """
    _check_alike(f"{value.dtype.name} {value.shape}", name, strategy)
    if value.dtype == tf.string:
        return from_bytes(content_from_chief(to_bytes(value), strategy), value.shape)
    memory = settings_of(strategy).memory
    if memory is None:
        return tf.constant(array_from_chief(value.numpy(), strategy))
    (copy,) = memory.of_functions.copy([tf.reshape(value, [-1])])
    return tf.reshape(copy, value.shape)


def _check_broadcast(dtype: tf.DType, name: str) -> None:
    if dtype not in _BROADCAST:
        raise UnsupportedError(
            "In a tf.function TensorFlow gives all workers the chief's initial values, and has no broadcast of "
            f"{dtype.name}. Received: the variable '{name}' of that dtype, which a function makes. Make it before the "
            "function runs, outside of it, or give it one of the dtypes "
            f"{', '.join(sorted(each.name for each in _BROADCAST))}."
        )


def _check_alike(description: str, name: str, strategy: tf.distribute.Strategy) -> None:
    add_up = functools.partial(sum_over_workers, strategy=strategy)
    exchange = ObjectExchange(worker_rank(strategy), worker_count(strategy), add_up)
    described = [said.decode() for said in exchange(description.encode(), "initial value of a variable")]
    if len(set(described)) > 1:
        received = ", ".join(f"{each} on worker {worker}" for worker, each in enumerate(described))
        raise UsageError(
            "All workers make the same variables in the same order, each of one shape and dtype. Received: the initial "
            f"value of '{name}', as this worker names it, of {received}. Look for sizes that depend on the worker, "
            "such as those of its part of the data, or for a branch of the program that not all workers take."
        )
