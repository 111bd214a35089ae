"""Moments of what layers take in, over the samples of all workers: what GPTQ and AWQ go by."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.batch_rows import without_stand_in
from tfdist.keras_repairs.base.replica_step import is_tried_out
from tfdist.keras_repairs.loop.predictions import taking_predictions

MOST_BYTES = 1 << 30
"""Bytes of memory that moments may take at once; those of more layers are measured in several passes."""


@dataclass(frozen=True)
class InputMoments:
    """Of the inputs of one layer.

    Attributes:
        gram: Mean product of two numbers of an input, float64 [inputs, inputs].
        magnitudes: Mean magnitude of each number, float64 [inputs].
    """

    gram: NDArray
    magnitudes: NDArray


def measure_moments(
    layers: Mapping[str, tuple[keras.layers.Layer, int]],
    run: Callable[[], None],
    strategy: tf.distribute.Strategy,
) -> Iterator[tuple[str, InputMoments]]:
    """Measures the inputs of layers, while their model runs.

    Args:
        layers: Name -> the layer and the numbers of an input of it.
        run: Runs the model on all samples, on all workers together. It is called once for each pass.
        strategy: The strategy in force.

    Yields:
        Each layer's name and moments, the same on all workers.
    """
    for names in _passes({name: inputs for name, (_, inputs) in layers.items()}):
        with strategy.scope():
            sums = {name: _Sums(layers[name][1]) for name in names}
        with contextlib.ExitStack() as hooks:
            for name in names:
                hooks.enter_context(_adding_inputs(layers[name][0], sums[name]))
            run()
        for name in names:
            yield name, sums[name].moments()


def run_through(model: keras.Model, batches: Any, steps: int) -> None:
    """Runs a model as `predict` does, and keeps nothing of what it gives. All workers call it together."""
    model.predict_function = None
    with taking_predictions(lambda outputs: None):
        model.predict(batches, steps=steps, verbose=0)


class _Sums:
    """Sums over the inputs of a layer: each replica has its own until they are read."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._gram, self._magnitudes, self._rows = (
            tf.Variable(
                tf.zeros(shape, tf.float64),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for shape in ([inputs, inputs], [inputs], [])
        )

    def add(self, inputs: Any) -> None:
        """Adds inputs of any shape, the last axes of which have `inputs` numbers."""
        rows = tf.reshape(without_stand_in(tf.convert_to_tensor(inputs)), [-1, self._inputs])
        rows = rows if rows.dtype == tf.float64 else tf.cast(rows, tf.float32)
        self._gram.assign_add(tf.cast(tf.matmul(rows, rows, transpose_a=True), tf.float64))
        self._magnitudes.assign_add(tf.reduce_sum(tf.abs(tf.cast(rows, tf.float64)), axis=0))
        self._rows.assign_add(tf.cast(tf.shape(rows)[0], tf.float64))

    def moments(self) -> InputMoments:
        gram, magnitudes, rows = (
            tf.convert_to_tensor(variable).numpy() for variable in (self._gram, self._magnitudes, self._rows)
        )
        return InputMoments(gram / max(rows, 1), magnitudes / max(rows, 1))


@contextlib.contextmanager
def _adding_inputs(layer: keras.layers.Layer, sums: _Sums) -> Iterator[None]:
    call = layer.call

    def adding_call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_tried_out():
            sums.add(inputs)
        return call(inputs, *args, **kwargs)

    layer.call = adding_call
    try:
        yield
    finally:
        layer.call = call


def _passes(inputs: Mapping[str, int]) -> Iterator[list[str]]:
    """Names of layers whose moments fit the memory together, in the order of the model."""
    names: list[str] = []
    taken = 0
    for name, count in inputs.items():
        size = 8 * math.prod((count, count))
        if names and taken + size > MOST_BYTES:
            yield names
            names, taken = [], 0
        names.append(name)
        taken += size
    if names:
        yield names
