"""A quantization: measured before, quantized on the chief, and measured again by all workers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.pipeline import OpenedDataset
from tfdist.errors import UnsupportedError
from tfdist.rundir import atomic_files
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.outside_strategy import outside_strategy
from tfdist.training.announcements import Announce
from tfdist.training.quantization.calibration_run import calibrate
from tfdist.training.quantization.drop_budget import DropBudget, choose_metric
from tfdist.training.quantization.file_evaluation import FileEvaluation
from tfdist.training.quantization.layer_choice import Metrics, choose_layers
from tfdist.training.quantization.layer_quantization import quantized_names, weight_bytes
from tfdist.training.quantization.quantization_method import (
    CalibratedMethod,
    KerasMethod,
    QuantizationMethod,
)
from tfdist.training.quantization.quantization_result import Measured, layer_rows
from tfdist.training.quantization.quantized_files import QuantizedFiles
from tfdist.training.quantization.sample_time import model_seconds
from tfdist.training.quantization.shown_outputs import SAMPLES, model_shows_nothing
from tfdist.training.requests.first_samples import first_samples
from tfdist.training.requests.inference_request import InferenceRequest
from tfdist.training.requests.quantization_request import QuantizationRequest
from tfdist.training.session.session import LaunchedSession


def quantize(
    session: LaunchedSession,
    request: InferenceRequest,
    opened: OpenedDataset,
    load: Callable[[tf.distribute.Strategy], keras.Model],
    announce: Announce,
) -> dict[str, Any]:
    """Quantizes a model, measures it, and makes the file where the budget is held. All workers call it together.

    Args:
        session: The session.
        request: What is asked for.
        opened: The samples to measure on.
        load: Returns the float model under a strategy; called on the chief alone, with the default one.
        announce: Says a line.

    Returns:
        What came of it, on the chief, in JSON's types; elsewhere nothing.

    Raises:
        UsageError: The model or the options cannot be used.
        UnsupportedError: The mode covers no layer of the model.
    """
    asked = request.quantization
    assert asked is not None, "a quantization is asked for"
    method = _method(asked)
    with temporary_folder("quantization") as folder:
        files = None
        if session.is_chief:
            with outside_strategy() as default:
                files = QuantizedFiles(load(default), request.shown_model, method, folder)
        evaluation = FileEvaluation(opened.batches, session.strategy, folder)
        before = evaluation.measure(files.float_file if files else None)
        metric = choose_metric(asked.metric, before)
        budget = None if asked.max_drop is None else DropBudget.of(asked.max_drop)
        layers = _layers_to_quantize(files, asked, session.strategy)
        calibrated = None
        if asked.calibration is not None:
            model = evaluation.load(files.float_file if files else None)
            kernels = method if files and isinstance(method, CalibratedMethod) else None
            calibrated = calibrate(
                asked.calibration, model, layers, request.batch_size, session.strategy, kernels, announce
            )

        def measure(quantized: Set[str]) -> Metrics:
            with outside_strategy():
                file = files.write(quantized) if files else None
            metrics = evaluation.measure(file)
            announce(f"{_described(quantized, layers)}: {metric.name} {metrics[metric.name]:.6g}")
            return metrics

        announce(f"{len(layers)} layers in float: {metric.name} {before[metric.name]:.6g}")
        choice = choose_layers(layers, measure, before, metric, budget, sensitivity=asked.sensitivity)
        if files is None:
            return {}
        measured = Measured(opened.samples, before, metric, choice, is_bounded=budget is not None)
        result = _tried(files, request, asked, measured, layers, session.seed)
        return result | {"calibration": _calibration(asked, calibrated)}


def _tried(
    files: QuantizedFiles,
    request: InferenceRequest,
    asked: QuantizationRequest,
    measured: Measured,
    layers: tuple[str, ...],
    seed: int,
) -> dict[str, Any]:
    """Looks at what the model says of some samples, and makes the file."""
    kept = frozenset(files.names) - frozenset(layers)
    with outside_strategy() as default:
        samples = first_samples(request, SAMPLES, seed, default)
        why = model_shows_nothing(keras.models.load_model(files.float_file, compile=False), samples)
        sample = first_samples(request, 1, seed, default)
        return _finish(files, asked, request.shown_model, replace(measured, shows_nothing=why), kept, sample)


def _method(asked: QuantizationRequest) -> QuantizationMethod:
    if asked.calibration is None:
        return KerasMethod(asked.mode)
    return CalibratedMethod(asked.mode, asked.calibration.bits, asked.calibration.group_size)


def _calibration(asked: QuantizationRequest, samples: int | None) -> dict[str, Any] | None:
    calibration = asked.calibration
    if calibration is None:
        return None
    return {
        "samples": samples,
        "key": calibration.key,
        "bits": calibration.bits,
        "group_size": calibration.group_size,
    }


def _layers_to_quantize(
    files: QuantizedFiles | None, asked: QuantizationRequest, strategy: tf.distribute.Strategy
) -> tuple[str, ...]:
    """Those that no option keeps in float, the same on all workers."""
    names: list[str] = []
    if files is not None:
        kept = files.kept(asked.keep_float)
        names = [name for name in files.names if name not in kept]
    return tuple(json.loads(text_from_chief(json.dumps(names), strategy)))


def _described(quantized: Set[str], layers: tuple[str, ...]) -> str:
    if len(quantized) == 1 < len(layers):
        return f"{next(iter(quantized))} alone"
    if len(quantized) == len(layers):
        return "all quantized"
    return f"{len(quantized)} of {len(layers)} quantized"


def _finish(
    files: QuantizedFiles,
    asked: QuantizationRequest,
    shown: str,
    measured: Measured,
    kept: frozenset[str],
    sample: Any,
) -> dict[str, Any]:
    """Makes the file, where the budget is held, and says what came of it."""
    choice = measured.choice
    written = files.write(choice.quantized)
    model = keras.models.load_model(written, compile=False)
    if quantized_names(model) != choice.quantized:
        raise UnsupportedError(
            f"Keras loads {shown} with other layers quantized than were. Expected that its layers are made as their "
            "configs say. Keep those of your own in float with --keep-float."
        )
    of_float = keras.models.load_model(files.float_file, compile=False)
    result = {
        **measured.to_json(),
        "mode": asked.mode,
        "max_drop": asked.max_drop,
        "output": asked.path if measured.is_held else None,
        "layers": layer_rows(files, model, measured, kept),
    }
    for moment, file, loaded in (("before", files.float_file, of_float), ("after", written, model)):
        facts = {"bytes": file.stat().st_size, "weight_bytes": weight_bytes(loaded)}
        result[moment] |= {**facts, "sample_ms": model_seconds(loaded, sample) * 1e3}
    if measured.is_held:
        with atomic_files.replacing(Path(asked.path), named_by="--output") as temporary:
            shutil.copyfile(written, temporary)
    return result
