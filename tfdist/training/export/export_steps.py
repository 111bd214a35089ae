"""The steps of an export: the model, its samples, the artefact, and the comparison of both.

What Keras itself computes, which an artefact is compared with, and how long it takes.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.dotted_path import search_in
from tfdist.config.section import build
from tfdist.errors import UnsupportedError, UsageError
from tfdist.training.artifacts.artifact_formats import FORMATS, ArtifactFormat
from tfdist.training.artifacts.artifact_run import run_artifact
from tfdist.training.artifacts.artifact_runtimes import Arrays, CallTimes, batches_of, take_times
from tfdist.training.artifacts.output_comparison import compare_output, shows_nothing
from tfdist.training.config_objects.trained_model import load_model
from tfdist.training.export.artifact_judgement import (
    LabelledSamples,
    compare_metrics,
    compare_outputs,
    default_tolerance,
    described,
    half_precision,
)
from tfdist.training.export.export_request import ExportRequest
from tfdist.training.export.litert_writer import float_layers, write_integers, write_litert
from tfdist.training.export.onnx_writer import write_onnx, write_tensorrt
from tfdist.training.export.sample_inputs import (
    calibration_samples,
    filled,
    first_batch,
    flat_inputs,
    made_inputs,
    sample_arrays,
)
from tfdist.training.export.saved_model_writer import MODEL_FILE, write_openvino, write_saved_model, write_warmup
from tfdist.training.export.serving_function import ServingFunction, packed, serving_function
from tfdist.training.export.unsupported_layers import refuse_python
from tfdist.training.inference.outputs.step_outputs import arrays_of
from tfdist.training.inference_request import InferenceRequest, Verb
from tfdist.training.libraries import check_libraries

BATCH_SIZE = 32
"""Samples of a batch in the comparison, where the signature does not fix it."""

Say = Callable[[str], None]
_REPEATED = 1e-6


def export(request: ExportRequest, say: Say) -> dict[str, Any]:
    """Writes the artefact, runs it, and compares it with Keras.

    Args:
        request: What is asked for.
        say: Says how far it is.

    Returns:
        What came of it, as `described`.

    Raises:
        TfdistError: It cannot be exported.
    """
    check_libraries()
    # A training may be using the GPUs, and the runtimes compute on the CPU.
    tf.config.set_visible_devices([], "GPU")
    search_in(os.getcwd())
    batches = _batches(request)
    model = _model(request, batches)
    batch = None if batches is None else first_batch(batches, request.key)
    samples = None if batch is None else sample_arrays(batch[0], request.key)
    serving = serving_function(model, samples, request.signature, shown=request.shown_model)
    if not model.built or samples is None:
        _build(serving)
    inputs = made_inputs(serving.inputs, request.samples)
    if samples is not None:
        inputs = flat_inputs(samples, serving, request.key)
    count = len(next(iter(inputs.values())))
    size = serving.fixed_batch or min(BATCH_SIZE, count)
    inputs = filled(inputs, size) if serving.fixed_batch else inputs
    labelled = None if request.calibration is None else LabelledSamples.of(serving, inputs, batch, request.key)
    refuse_python(serving)
    reference = reference_outputs(serving, inputs, size)
    # Before a converter is loaded, whose threads would take part.
    times = keras_times(serving, inputs, size)
    form = FORMATS[request.format]
    with _advice_for_half_precision(model):
        say(f"writes {form.title} of {request.shown_model}")
        begun = time.monotonic()
        artifact = _write(form, request, serving, inputs, size)
        say(f"written in {time.monotonic() - begun:.1f} s; runs it beside Keras")
        is_fixed = serving.fixed_batch is not None
        run = run_artifact(form.runtime, artifact, inputs, size, is_fixed=is_fixed, seconds=request.seconds)
    losses = None if request.config is None else request.config.compile.loss
    comparisons = compare_outputs(reference, run.outputs, serving, losses)
    facts = {"samples": count, "key": request.key, "tolerance": _tolerance(request, model), "inputs": _inputs(serving)}
    facts["shows_nothing"] = shows_nothing(_first(reference, count), _first(inputs, count).values())
    if labelled is not None:
        facts |= _in_integers(request, labelled, artifact, _first(reference, count), _first(run.outputs, count))
    return described(comparisons, run, times, Path(request.target), model, **facts)


def _in_integers(
    request: ExportRequest,
    labelled: LabelledSamples,
    artifact: Path,
    reference: Mapping[str, NDArray],
    found: Mapping[str, NDArray],
) -> dict[str, Any]:
    """Returns what is known of an artefact in integers besides."""
    asked = request.calibration
    assert asked is not None, "labels are read for what is calibrated"
    return {
        "calibration": {"samples": asked.samples, "key": asked.key},
        "float_layers": float_layers(artifact, labelled.serving),
        **compare_metrics(asked, labelled, reference, found),
    }


def _tolerance(request: ExportRequest, model: keras.Model) -> float:
    """Up to which difference the artefact is the same; integers are judged by metrics."""
    if request.tolerance is not None:
        return request.tolerance
    return default_tolerance(model) if request.calibration is None else math.inf


def _first(outputs: Mapping[str, NDArray], count: int) -> dict[str, NDArray]:
    """Outputs without those of the samples that fill up the last batch."""
    return {name: array[:count] for name, array in outputs.items()}


@contextlib.contextmanager
def _advice_for_half_precision(model: keras.Model) -> Iterator[None]:
    """Adds what mends it to the error of a format that lacks operations, which may have them in float32."""
    try:
        yield
    except UnsupportedError as error:
        half = half_precision(model)
        if not half:
            raise
        raise UnsupportedError(
            f"{error} Layers of the model compute in {half}, in which formats have fewer operations: a run is exported "
            "in float32, with the same weights, by --set precision=float32."
        ) from error


def _batches(request: ExportRequest) -> Any | None:
    """The data, whose first batch has all samples that are needed."""
    if request.section is None:
        return None
    section = build(SourceConfig, dict(request.section), request.key)
    return data.from_config(section, request.samples, 0, tf.distribute.get_strategy(), request.key).batches


def _model(request: ExportRequest, batches: Any | None) -> keras.Model:
    # Metrics are those of a compiled model.
    verb: Verb = "predict" if request.calibration is None else "evaluate"
    asked = InferenceRequest(
        verb, request.model, request.is_whole_model, request.shown_model, {}, request.key, 1, request.modules
    )
    if batches is None and not request.is_whole_model:
        # What a model is built by, where it is not by its Input.
        spec = {entry.name: tf.TensorSpec(entry.shape, entry.dtype) for entry in request.signature}
        batches = _Described(next(iter(spec.values())) if len(spec) == 1 else spec) if spec else _Described(None)
    return load_model(asked, request.config, batches, tf.distribute.get_strategy())


class _Described:
    """Stands for data of which the types and shapes alone are known."""

    def __init__(self, x: Any) -> None:
        self._x = x

    @property
    def element_spec(self) -> Any:
        if self._x is None:
            raise UsageError(
                "The model has no variables before it has seen data. Expected what it takes. Give --data, or "
                "--input-signature once for each input."
            )
        return (self._x,)


def _build(serving: ServingFunction) -> None:
    """Calls the model once: what it makes in its first call is then there."""
    made = made_inputs(serving.inputs, serving.fixed_batch or 1)
    serving(*map(tf.constant, made.values()))


def _write(
    form: ArtifactFormat, request: ExportRequest, serving: ServingFunction, inputs: Mapping[str, NDArray], size: int
) -> Path:
    """Writes the artefact; returns what its runtime opens."""
    target = Path(request.target)
    folder = target / request.version if request.version else target
    if form.name == "onnx":
        write_onnx(serving, target)
        return target
    if request.calibration is not None:
        write_integers(serving, target, calibration_samples(request.calibration, serving), form.activation_bits)
        return target
    if form.name == "litert":
        write_litert(serving, target)
        return target
    folder.mkdir(parents=True)
    if form.name == "tensorrt":
        return write_tensorrt(serving, folder, request.name, BATCH_SIZE)
    if form.name == "openvino":
        write_openvino(serving, folder)
        return folder / MODEL_FILE
    write_saved_model(serving, folder)
    sizes = [serving.fixed_batch] if serving.fixed_batch else sorted({1, size})
    write_warmup(folder, request.name, [{name: array[:k] for name, array in inputs.items()} for k in sizes])
    return folder


def _inputs(serving: ServingFunction) -> list[dict[str, Any]]:
    return [vars(entry) | {"shape": list(entry.shape)} for entry in serving.inputs]


def reference_outputs(serving: ServingFunction, inputs: Arrays, batch_size: int) -> dict[str, NDArray]:
    """The outputs of the model's `call` without training, step by step and not as the graph that is exported.

    Args:
        serving: The model.
        inputs: Name -> [samples, ...].
        batch_size: Samples of a call.

    Returns:
        Name -> [samples, ...]; texts as bytes, bfloat16 as float32.

    Raises:
        UnsupportedError: The model gives other outputs each time, or an output without a row for each sample.
    """
    batches = batches_of(inputs, batch_size)
    found = [_outputs(serving, batch) for batch in batches]
    for name, again in _outputs(serving, batches[0]).items():
        apart = compare_output(name, found[0][name], again).difference
        if apart > _REPEATED:
            raise UnsupportedError(
                f"The model draws at random: two calls of Keras with the same samples differ by {apart:.2g} in the "
                f"output {name!r}, so that nothing can be compared with it. Expected the same outputs for the same "
                "samples. Draw outside of the model, or only while it trains."
            )
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def keras_times(serving: ServingFunction, inputs: Arrays, batch_size: int) -> CallTimes:
    """Returns how long Keras takes: the model as a `tf.function`, as `predict` calls it, without the work around
    that."""

    def forward(*flat: tf.Tensor) -> Any:
        return serving.model(packed(serving.structure, iter(flat)), training=False)

    function = tf.function(forward, reduce_retracing=True, autograph=False)

    def call(batch: Arrays) -> Any:
        return tf.nest.map_structure(lambda value: value.numpy(), function(*map(tf.constant, batch.values())))

    return take_times(call, inputs, batch_size, is_fixed=serving.fixed_batch is not None)


def _outputs(serving: ServingFunction, batch: Arrays) -> dict[str, NDArray]:
    samples = len(next(iter(batch.values())))
    found = serving(*map(tf.constant, batch.values()))
    arrays = {name: arrays_of(value, (), samples)["output"] for name, value in found.items()}
    return {name: array.astype(np.bytes_) if array.dtype.hasobject else array for name, array in arrays.items()}
