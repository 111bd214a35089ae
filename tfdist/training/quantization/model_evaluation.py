"""Evaluation of a model's file by all workers, its time for a sample, and whether its outputs show what it computes."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.data.pipeline import Batches
from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives.chief_broadcast import file_from_chief, text_from_chief
from tfdist.training.artifacts.output_comparison import shows_nothing
from tfdist.training.inference.outputs.step_outputs import named_outputs, names_of
from tfdist.training.inference_request import InferenceRequest

_SECONDS = 0.5
_MOST = 200
_FIRST = 5


def sample_seconds(call: Callable[[], Any]) -> float:
    """The median of some calls, after a few that compile and warm up."""
    for _ in range(_FIRST):
        call()
    took: list[float] = []
    begun = time.perf_counter()
    while len(took) < _MOST and (len(took) < _FIRST or time.perf_counter() - begun < _SECONDS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def model_seconds(model: keras.Model, sample: Any) -> float:
    """Of a model in a `tf.function`, for a batch of one sample."""
    function = tf.function(lambda inputs: model(inputs, training=False))

    def call() -> None:
        # To the host, as whoever waits for a prediction has it.
        tf.nest.map_structure(lambda output: output.numpy(), function(sample))

    return sample_seconds(call)


SAMPLES = 32
"""The number of samples are looked at."""


def model_shows_nothing(model: keras.Model, inputs: Any) -> str:
    """Returns why none of its outputs shows what it computes, in words; empty where one does.

    Args:
        model: Under the default strategy.
        inputs: Some samples.
    """
    outputs = dict(named_outputs(model(inputs, training=False), names_of(model)))
    arrays = {name: _array(output) for name, output in outputs.items()}
    return shows_nothing(
        {name: array for name, array in arrays.items() if array.ndim}, [_array(x) for x in tf.nest.flatten(inputs)]
    )


def _array(value: Any) -> NDArray:
    if isinstance(value, tf.RaggedTensor):
        value = value.to_tensor()
    elif isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def first_samples(request: InferenceRequest, count: int, seed: int, default: tf.distribute.Strategy) -> Any:
    """The inputs of a batch of so many samples, or of all if there are fewer, read by this worker alone.

    Args:
        request: Which data.
        count: How many.
        seed: The session's.
        default: The default strategy, in force.
    """
    section = build(SourceConfig, dict(request.section), request.key)
    opened = data.from_config(section, count, seed, default, request.key)
    return keras.utils.unpack_x_y_sample_weight(next(iter(opened.batches)))[0]


class FileEvaluation:
    """Evaluates files on all workers together.

    Args:
        batches: The samples.
        strategy: The strategy in force.
        folder: Where this worker's copies go.
    """

    def __init__(self, batches: Batches, strategy: tf.distribute.Strategy, folder: Path) -> None:
        self._batches, self._strategy, self._folder = batches, strategy, folder

    def load(self, file: Path | None) -> keras.Model:
        """The chief's model, under the strategy, on all workers.

        Args:
            file: On the chief; None elsewhere.
        """
        copy = self._folder / "measured.keras"
        file_from_chief(copy if file is None else file, copy, self._strategy)
        with self._strategy.scope():
            return keras.models.load_model(copy)

    def measure(self, file: Path | None) -> dict[str, float]:
        """Loss and metrics, the chief's, so that all workers decide alike.

        Weight penalties are no part of the loss: the weights of quantized layers have none, and the difference would
        look like a gain.

        Args:
            file: On the chief; None elsewhere.

        Raises:
            UnsupportedError: The model cannot be evaluated once it was loaded from a file.
        """
        model = self.load(file)
        if not model.compiled:
            raise UnsupportedError(
                "The model is not compiled once Keras has loaded it from a file: its class has a compile() of its own. "
                "Expected one whose loss and metrics a file can hold. Compile a keras.Model of its layers, and save "
                "that."
            )
        without_penalties(model)
        with _without_retracing_warnings():
            metrics = model.evaluate(self._batches, verbose=0, return_dict=True)
        numbers = {name: float(value) for name, value in metrics.items()}
        del model
        gc.collect()  # of hundreds of models none may stay
        return json.loads(text_from_chief(json.dumps(numbers), self._strategy))


@contextlib.contextmanager
def _without_retracing_warnings() -> Iterator[None]:
    """Each model is traced once; TensorFlow takes their functions, of one name, for one that is traced often."""

    def is_other(record: logging.LogRecord) -> bool:
        return "triggered tf.function retracing" not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def without_penalties(model: keras.Model) -> None:
    """Takes the weight penalties (kernel regularizers and their kin) out of a model's loss."""
    for variable in model.variables:
        variable.regularizer = None
