"""Shapes and types of samples and labels, by headers or by batches, against what a config's model takes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import SourceConfig
from tfdist.data.format_registry import sample_specs
from tfdist.data.sample_source import ArraySpec, SampleSpecs
from tfdist.errors import DataError, UsageError
from tfdist.keras_repairs.distillation.distilled_loss import labels_of
from tfdist.text import safe_str
from tfdist.training.config_objects.problems import Problems
from tfdist.training.supervision.error_report import explain


def check_samples(
    model: keras.Model | None, values: Mapping[str, Any], skipped: Collection[str], problems: Problems
) -> None:
    """Compares what the headers of the data say with the model. No sample is read.

    Args:
        model: The model; None leaves out the comparison. Labels are compared with it where nothing is wrong so far.
        values: The config's values, by dotted key.
        skipped: The dotted keys of sections whose files are known to be missing.
        problems: Takes what is wrong: data that is damaged, or does not fit.
    """
    fitting: list[SampleSpecs] = []
    loss = None if problems.found else values.get("compile.loss")
    for key in ("data.train", "data.validation"):
        source = values.get(key)
        if source is None or key in skipped:
            continue
        try:
            specs = sample_specs(source)
        except (DataError, UsageError) as error:
            problems.add(key, safe_str(error), error.exit_code)
            continue
        if specs is None or specs in fitting or model is None or not model.built:
            continue
        problem = _problem_of(model, loss, _batched(specs.x), _batched(specs.y))
        if problem is None:
            fitting.append(specs)
        else:
            problems.add(key, problem, DataError.exit_code)


def misfit_of(model: keras.Model, source: SourceConfig) -> str | None:
    """Returns why a model cannot take the samples of a section, by its headers; None where they show no fault.

    Raises:
        DataError: The data is missing or damaged.
    """
    specs = sample_specs(source)
    if specs is None or not model.built:
        return None
    return _problem_of(model, None, _batched(specs.x), _batched(specs.y))


@contextlib.contextmanager
def naming_misfits(model: keras.Model, loss: Any, datasets: Mapping[str, Any]) -> Iterator[None]:
    """Raises what `diagnose_shapes` finds in place of an error of Keras or TensorFlow that the code inside raises.

    Args:
        model: The model.
        loss: Its loss, as a config has it; None where labels are not looked at.
        datasets: See `diagnose_shapes`.

    Raises:
        DataError: The samples or the labels do not fit the model.
    """
    try:
        yield
    except Exception as error:
        if explain(error) is not None:
            raise
        reason = diagnose_shapes(model, loss, datasets)
        if reason is None:
            raise
        raise reason from error


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
    for key, batches in datasets.items():
        if batches is None:
            continue
        # Weights may come third.
        x, y = tf.nest.map_structure(_of_one_replica, batches.element_spec[:2])
        problem = _problem_of(model, loss, x, labels_of(y))
        if problem is not None:
            return DataError(f"{key}: {problem}")
    return None


def _problem_of(model: keras.Model, loss: Any, x: Any, y: Any) -> str | None:
    try:
        outputs = keras.tree.flatten(model.compute_output_spec(keras.tree.map_structure(_symbolic, x)))
        problem = None if _takes_strings(model) or not _has_strings(x) else "the model takes numbers"
    except (ValueError, TypeError) as error:
        problem = _line(error)
    if problem:
        return (
            f"the samples do not fit the model: {problem}. Received samples of {_shown(x)}. "
            "Change the data, or the model's inputs."
        )
    problem = None if loss is None else next(_faults_of_labels(loss, keras.tree.flatten(y), outputs), None)
    if problem:
        return (
            f"the labels do not fit the model's output and compile.loss: {problem}. Received labels of "
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


def _batched(spec: ArraySpec | Mapping[str, ArraySpec]) -> Any:
    if isinstance(spec, Mapping):
        return {name: _batched(entry) for name, entry in spec.items()}
    return tf.TensorSpec((None, *spec.shape), spec.dtype)


def _of_one_replica(spec: Any) -> tf.TensorSpec:
    """The spec of what one replica gets; a batch for several has one such spec for each."""
    first = tf.nest.flatten(spec, expand_composites=True)[0]
    return tf.TensorSpec(first.shape, first.dtype)


def _symbolic(spec: tf.TensorSpec) -> keras.KerasTensor:
    return keras.KerasTensor(spec.shape, spec.dtype.name)


def _has_strings(specs: Any) -> bool:
    return any(spec.dtype == tf.string for spec in keras.tree.flatten(specs))


def _takes_strings(model: keras.Model) -> bool:
    """Returns whether a model takes text; one that does not say what it takes may."""
    try:
        return any(keras.backend.standardize_dtype(value.dtype) == "string" for value in model.inputs)
    except (AttributeError, TypeError):
        return True


def _shown(values: Any) -> str:
    """`float32 (None, 64)`, with a comma between several."""
    return ", ".join(f"{tf.as_dtype(value.dtype).name} {tuple(value.shape)}" for value in keras.tree.flatten(values))


def _line(error: Exception) -> str:
    """Keras's text on one line, without a full stop."""
    return " ".join(safe_str(error).split()).rstrip(".")
