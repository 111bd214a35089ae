"""Judges an artefact: what its runtime computes beside Keras, its size and its speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.training.artifacts.artifact_run import ArtifactRun
from tfdist.training.artifacts.call_times import CallTimes
from tfdist.training.artifacts.output_comparison import OutputComparison, compare_output, label_rule
from tfdist.training.export.serving_function import ServingFunction

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
