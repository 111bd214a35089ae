"""The steps of an export: the model, its samples, the artefact, and the comparison of both."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from numpy.typing import NDArray

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.dotted_path import search_in
from tfdist.config.section import build
from tfdist.errors import UnsupportedError, UsageError
from tfdist.training.artifacts.artifact_formats import FORMATS, ArtifactFormat
from tfdist.training.artifacts.artifact_run import run_artifact
from tfdist.training.export.artifact_judgement import compare_outputs, default_tolerance, described, half_precision
from tfdist.training.export.export_request import ExportRequest
from tfdist.training.export.litert_writer import write_litert
from tfdist.training.export.onnx_writer import write_onnx
from tfdist.training.export.openvino_writer import MODEL_FILE, write_openvino
from tfdist.training.export.reference_outputs import keras_times, reference_outputs
from tfdist.training.export.sample_inputs import filled, first_samples, flat_inputs, made_inputs
from tfdist.training.export.saved_model_writer import write_saved_model
from tfdist.training.export.serving_function import ServingFunction, serving_function
from tfdist.training.export.tensorrt_writer import write_tensorrt
from tfdist.training.export.unsupported_layers import refuse_python
from tfdist.training.export.warmup_file import write_warmup
from tfdist.training.inference.inference_model import load_model
from tfdist.training.inference.inference_request import InferenceRequest
from tfdist.training.libraries import check_libraries

BATCH_SIZE = 32
"""Samples of a batch in the comparison, where the signature does not fix it."""

Say = Callable[[str], None]


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
    samples = None if batches is None else first_samples(batches, request.key)
    serving = serving_function(model, samples, request.signature, shown=request.shown_model)
    if not model.built or samples is None:
        _build(serving)
    inputs = made_inputs(serving.inputs, request.samples)
    if samples is not None:
        inputs = flat_inputs(samples, serving, request.key)
    count = len(next(iter(inputs.values())))
    size = serving.fixed_batch or min(BATCH_SIZE, count)
    inputs = filled(inputs, size) if serving.fixed_batch else inputs
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
    tolerance = default_tolerance(model) if request.tolerance is None else request.tolerance
    facts = {"samples": count, "key": request.key, "tolerance": tolerance, "inputs": _inputs(serving)}
    return described(comparisons, run, times, Path(request.target), model, **facts)


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
    asked = InferenceRequest(
        "predict", request.model, request.is_whole_model, request.shown_model, {}, request.key, 1, request.modules
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
