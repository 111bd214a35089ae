"""Diagnosis of data whose shapes or types do not fit a config's model, once Keras has refused to train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import DataError


def diagnose_shapes(model: keras.Model, loss: Any, datasets: Mapping[str, Any]) -> DataError | None:
    """Finds the first dataset whose samples or labels the model cannot take, by shapes and types alone.

    Args:
        model: The compiled model.
        loss: The config's `compile.loss`.
        datasets: Dotted key of the config -> batches `(x, y)` as `tfdist.data` makes them, or None where there are
            none.

    Returns:
        None when shapes and types show no fault.
    """
    if not model.built:
        return None
    found = (_problem_of(model, loss, key, batches) for key, batches in datasets.items() if batches is not None)
    return next((DataError(problem) for problem in found if problem), None)


def _problem_of(model: keras.Model, loss: Any, key: str, batches: Any) -> str | None:
    x, y = tf.nest.map_structure(_of_one_replica, batches.element_spec)
    try:
        outputs = keras.tree.flatten(model(keras.tree.map_structure(_symbolic, x)))
        problem = None if _takes_strings(model) or not _has_strings(x) else "the model takes numbers"
    except (ValueError, TypeError) as error:
        problem = _line(error)
    if problem:
        return (
            f"{key}: the samples do not fit the model: {problem}. Received samples of {_shown(x)}. "
            "Change the data, or the model's inputs."
        )
    problem = next(_faults_of_labels(loss, keras.tree.flatten(y), outputs), None)
    if problem:
        return (
            f"{key}: the labels do not fit the model's output and compile.loss: {problem}. Received labels of "
            f"{_shown(y)} for an output of {_shown(outputs)}, and the loss {loss}. "
            "Change the data, the model's last layer or the loss."
        )
    return None


def _faults_of_labels(loss: Any, labels: list[Any], outputs: list[Any]) -> Iterator[str]:
    if any(label.dtype == "string" for label in labels):
        yield "labels must be numbers"
    elif len(labels) != len(outputs):
        yield f"expected labels for {len(outputs)} output(s), received them for {len(labels)}"
    elif isinstance(loss, str) and len(outputs) == 1:
        specs = [tf.TensorSpec(value.shape, value.dtype) for value in (labels[0], outputs[0])]
        try:
            tf.function(keras.losses.get(loss), autograph=False).get_concrete_function(*specs)
        except (ValueError, TypeError) as error:
            yield _line(error)


def _of_one_replica(spec: Any) -> tf.TensorSpec:
    """The spec of what one replica gets; a batch for several has one such spec for each."""
    first = tf.nest.flatten(spec, expand_composites=True)[0]
    return tf.TensorSpec(first.shape, first.dtype)


def _symbolic(spec: tf.TensorSpec) -> keras.KerasTensor:
    return keras.KerasTensor(spec.shape, spec.dtype.name)


def _has_strings(specs: Any) -> bool:
    return any(spec.dtype == tf.string for spec in keras.tree.flatten(specs))


def _takes_strings(model: keras.Model) -> bool:
    """Whether a model takes text; one that does not say what it takes may."""
    try:
        return any(keras.backend.standardize_dtype(value.dtype) == "string" for value in model.inputs)
    except (AttributeError, TypeError):
        return True


def _shown(values: Any) -> str:
    """`float32 (None, 64)`, with a comma between several."""
    return ", ".join(f"{tf.as_dtype(value.dtype).name} {tuple(value.shape)}" for value in keras.tree.flatten(values))


def _line(error: Exception) -> str:
    """Keras's text on one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".")
