"""Judges an artefact: what its runtime computes beside Keras, with which metrics, its size and its speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import DataError, UnsupportedError
from tfdist.training.artifacts.artifact_run import ArtifactRun
from tfdist.training.artifacts.artifact_runtimes import CallTimes
from tfdist.training.artifacts.output_comparison import OutputComparison, compare_output, label_rule
from tfdist.training.export.export_request import CalibrationRequest
from tfdist.training.export.serving_function import ServingFunction, packed, safe_name
from tfdist.training.inference.outputs.step_outputs import named_outputs, names_of
from tfdist.training.quantization.layer_choice import DropBudget, choose_metric


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


def compare_metrics(
    asked: CalibrationRequest,
    samples: LabelledSamples,
    keras_outputs: Mapping[str, NDArray],
    outputs: Mapping[str, NDArray],
) -> dict[str, Any]:
    """The metrics of both, and whether the budget is held, in JSON's types.

    Args:
        asked: The budget.
        samples: What was computed.
        keras_outputs: Keras's, name -> [samples, ...].
        outputs: The artefact's.

    Raises:
        UsageError: There is no such metric.
    """
    before = samples.metrics(keras_outputs)
    after = samples.metrics(outputs)
    metric = choose_metric(asked.metric, before)
    drop = metric.drop(before[metric.name], after[metric.name])
    held = drop <= DropBudget.of(asked.max_drop).allowed(before[metric.name])
    facts = {"metric": metric.name, "drop": drop, "max_drop": asked.max_drop, "held": held}
    return {"metrics": {"keras": before, "artifact": after}, **facts}


_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2
_HALF = ("float16", "bfloat16")


def compare_outputs(
    reference: Mapping[str, NDArray], found: Mapping[str, NDArray], serving: ServingFunction, losses: Any
) -> list[OutputComparison]:
    """Every output beside Keras's.

    Args:
        reference: Keras's, by name.
        found: The artefact's.
        serving: What both are of.
        losses: The name of the loss, or the names by output; None where unknown.

    Raises:
        UnsupportedError: The artefact has outputs of other names.
    """
    if {*reference} != {*found}:
        raise UnsupportedError(
            f"What was written has the outputs {', '.join(found)}. Expected {', '.join(reference)}, as the model has. "
            "Choose another --format."
        )
    activations = _activations(serving)
    return [
        compare_output(
            name, array, found[name], label_rule(array, _loss_of(name, losses), activations.get(name, ""))
        )
        for name, array in reference.items()
    ]


def default_tolerance(model: keras.Model) -> float:
    """Up to which difference an artefact is the same: 1e-4, or 1e-2 where a layer computes in half precision."""
    return _HALF_TOLERANCE if half_precision(model) else _TOLERANCE


def half_precision(model: keras.Model) -> str:
    """The type of half precision that layers of the model compute in; empty where none does."""
    return next((layer.compute_dtype for layer in model.layers if layer.compute_dtype in _HALF), "")


def described(
    comparisons: Sequence[OutputComparison],
    run: ArtifactRun,
    keras_times: CallTimes,
    artifact: Path,
    model: keras.Model,
    **others: Any,
) -> dict[str, Any]:
    """Returns what `tfdist export` prints, in JSON's types; infinity as Python's JSON has it."""
    weights = sum(variable.value.dtype.size * _elements(variable.shape) for variable in model.weights)
    return {
        "outputs": [asdict(one) for one in comparisons],
        "runtime": run.runtime,
        "keras": asdict(keras_times),
        "artifact": asdict(run.times),
        "bytes": size_of(artifact),
        "weights_bytes": weights,
        **others,
    }


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _loss_of(name: str, losses: Any) -> str:
    if isinstance(losses, Mapping):
        losses = losses.get("name") or losses.get(name, "")
    return losses if isinstance(losses, str) else ""


def _activations(serving: ServingFunction) -> dict[str, str]:
    """The activation of the layer that an output is named after, or of the last layer where there is one output."""
    layers = {layer.name: layer for layer in serving.model.layers}
    names = list(serving.function.get_concrete_function().structured_outputs)
    if len(names) == 1 and serving.model.layers:
        layers = {names[0]: serving.model.layers[-1]}
    return {
        name: getattr(getattr(layers[name], "activation", None), "__name__", "") for name in names if name in layers
    }
