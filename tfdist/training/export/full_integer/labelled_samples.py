"""Labels of the samples that an artefact is tried with, and the metrics of outputs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import DataError
from tfdist.training.export.serving_function import ServingFunction, packed, safe_name
from tfdist.training.model_outputs.step_outputs import named_outputs, names_of


@dataclass(frozen=True)
class LabelledSamples:
    """Samples with labels: what their outputs are to be.

    Attributes:
        serving: The model, compiled.
        inputs: Name -> [samples, ...].
        labels: As the data has them.
        weights: Those of the samples; None without any.
    """

    serving: ServingFunction
    inputs: Mapping[str, NDArray]
    labels: Any
    weights: Any | None

    @classmethod
    def of(cls, serving: ServingFunction, inputs: Mapping[str, NDArray], batch: Any, key: str) -> LabelledSamples:
        """Those of a batch, whose inputs are `inputs`.

        Raises:
            DataError: It has none.
        """
        _, labels, weights = keras.utils.unpack_x_y_sample_weight(batch)
        if labels is None:
            raise DataError(
                f"The samples of {key} have no labels. Expected some, by which what is computed in integers is judged. "
                "Give --data with labels."
            )
        return cls(serving, inputs, labels, weights)

    def metrics(self, outputs: Mapping[str, NDArray]) -> dict[str, float]:
        """Loss and metrics of outputs, as `evaluate` has them.

        Args:
            outputs: Name -> [samples, ...].
        """
        model, predicted = self.serving.model, self._packed(outputs)
        model.reset_metrics()
        # First, as it has metrics of its own: the losses of several outputs.
        loss = model.compute_loss(None, self.labels, predicted, self.weights, training=False)
        found = model.compute_metrics(None, self.labels, predicted, self.weights)
        return {name: float(value) for name, value in {**found, "loss": loss}.items()}

    def _packed(self, outputs: Mapping[str, NDArray]) -> Any:
        """Outputs by name in the structure in which the model returns them."""
        first = [tf.constant(array) for array in _batch_of(self.serving, self.inputs).values()]
        made = self.serving.model(packed(self.serving.structure, iter(first)), training=False)
        names = {id(value): safe_name(name) for name, value in named_outputs(made, names_of(self.serving.model))}
        return tf.nest.map_structure(lambda value: tf.constant(outputs[names[id(value)]]), made)


def _batch_of(serving: ServingFunction, inputs: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
    return {name: array[: serving.fixed_batch or 1] for name, array in inputs.items()}
