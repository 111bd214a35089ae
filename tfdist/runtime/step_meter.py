"""Counts what a worker's steps do while they run: samples, and the time they wait for other workers and for data."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import config

from tfdist.runtime.workers import local_variables

Values = Sequence[tf.Tensor | tf.IndexedSlices]


@dataclass(frozen=True)
class MeterReading:
    """A reading of a meter.

    Attributes:
        samples: Samples of all global batches trained since the meter was made.
        waited: Seconds spent in sums of gradients, from when this worker's own gradients were there.
        fetched: Seconds that training steps have waited for their data.
    """

    samples: float
    waited: float
    fetched: float = 0.0


class StepMeter:
    """Counts inside of compiled steps, in three variables that belong to this worker alone, and beside them.

    It costs a step an addition to a variable and a look at the clock, which `enable_op_determinism` forbids: after that
    no waiting is counted inside of compiled steps. The clock is read on the CPU: on a GPU an
    operation has run, for TensorFlow, when it is queued, so what is timed must run on the CPU.

    Attributes:
        waited_outside: Seconds spent in collectives outside of compiled steps.
    """

    def __init__(self) -> None:
        with tf.init_scope(), tf.device("CPU:0"), local_variables():
            self._samples, self._waited, self._fetched = (
                tf.Variable(0.0, dtype=tf.float64, trainable=False) for _ in range(3)
            )
        self.waited_outside = 0.0
        self._fetched_outside = 0.0

    def count(self, samples: tf.Tensor) -> None:
        """Adds the samples, a scalar, of a global batch. Call it on one replica of the worker, while it is traced."""
        with tf.device("CPU:0"):
            self._samples.assign_add(tf.cast(samples, tf.float64), read_value=False)

    def arrive(self, batch: Any) -> None:
        """Adds how long a step waits for its `batch`, a structure of tensors; called like `count`, before its work.

        Where the batch is fetched in the same compiled function the clock starts with that, else there is no wait.
        """
        leaves = [leaf for leaf in tf.nest.flatten(batch, expand_composites=True) if isinstance(leaf, tf.Tensor)]
        begun, arrived = _time_after([]), _time_after(leaves)
        with tf.device("CPU:0"):
            self._fetched.assign_add(arrived - begun, read_value=False)

    @contextlib.contextmanager
    def fetching(self) -> Iterator[None]:
        """Around the fetching of a batch outside of compiled steps."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._fetched_outside += time.perf_counter() - begun

    def timed(self, values: Values, compute: Callable[[Values], Values]) -> Values:
        """`compute(values)`, timed from when the last of `values` is there until all of the result is.

        The computation does not wait for the clock: each part of it starts as soon as its own input is there.
        """
        begun = _time_after(values)
        results = compute(values)
        ended = _time_after(results)
        with tf.device("CPU:0"):
            self._waited.assign_add(ended - begun, read_value=False)
        return results

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a collective outside of compiled steps."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.waited_outside += time.perf_counter() - begun

    def read(self) -> MeterReading:
        """The counts until now, which may include a part of the step that runs."""
        fetched = float(self._fetched.numpy()) + self._fetched_outside
        return MeterReading(float(self._samples.numpy()), float(self._waited.numpy()), fetched)


def _time_after(values: Values) -> tf.Tensor:
    """Seconds, float64, once all of `values` are there; always 0 where the script has TensorFlow refuse clocks."""
    if config.is_op_determinism_enabled():
        return tf.zeros([], tf.float64)
    with tf.device("CPU:0"), tf.control_dependencies([_tensor(value) for value in values]):
        seconds = tf.timestamp()
    if not tf.executing_eagerly():
        manager = seconds.graph.experimental_acd_manager
        if manager is not None:
            # TensorFlow runs operations with effects one after another; the sums would wait for the clock.
            manager.run_independently(seconds.op)
    return seconds


def _tensor(value: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    return value.values if isinstance(value, tf.IndexedSlices) else value
