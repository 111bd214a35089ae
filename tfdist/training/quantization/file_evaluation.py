"""Evaluation of a `.keras` file that the chief has written: by all workers, as one device would have it."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import keras
import tensorflow as tf

from tfdist.data.pipeline import Batches
from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives.chief_broadcast import file_from_chief, text_from_chief


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
