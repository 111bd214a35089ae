"""An inference: what a worker of `tfdist predict`, `evaluate`, `quantize` and `prune` does."""

from __future__ import annotations

import functools
import json
import math
import sys
import time
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.data.pipeline import OpenedDataset
from tfdist.launch.environment import Assignment
from tfdist.launch.worker.config_handover import receive_config
from tfdist.rundir import atomic_files
from tfdist.text import format_count
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.config_objects.trained_model import load_model
from tfdist.training.inference.prediction_run import predict
from tfdist.training.inference.pruned_model_run import measure_pruned
from tfdist.training.inference_request import RESULT_FILE, InferenceRequest
from tfdist.training.quantization.quantization_run import quantize
from tfdist.training.session import current_session as sessions
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import announcer, describe


def run_inference(assignment: Assignment) -> None:
    """Predicts, evaluates, quantizes or measures as the argument of the target says; the chief writes the result.

    Raises:
        UsageError: The model or its outputs cannot be used.
        DataError: The data, or the model's file, cannot be read.
        RunDirError: The weights are of another model.
    """
    request = InferenceRequest.of(assignment.args[0])
    config = None if assignment.config_fd is None else receive_config(assignment.config_fd).config
    devices = sessions.requested_devices(assignment)
    if config is not None:
        devices = replace(devices, memory_growth=config.devices.memory_growth)
    session = sessions.start(assignment, devices)
    say = announcer(quiet=assignment.quiet or not session.is_chief, stream=sys.stderr)
    section = build(SourceConfig, dict(request.section), request.key)
    opened = data.from_config(section, request.batch_size, session.seed, session.strategy, request.key)
    samples = format_count(opened.samples, "sample")
    say(f"{request.verb}: {samples} of {request.key}, by {request.shown_model}, on {describe(session)}")
    load = functools.partial(load_model, request, config, opened.batches)
    if request.verb == "predict":
        of_all = functools.partial(load, session.strategy)
        result = predict(session, request, opened, of_all, lambda text: say(f"predict: {text}"))
    elif request.verb == "quantize":
        result = quantize(session, request, opened, load, lambda text: say(f"quantize: {text}"))
    elif request.verb == "prune":

        def of_file(file: str, strategy: tf.distribute.Strategy) -> keras.Model:
            return load_model(replace(request, model=file), config, opened.batches, strategy)

        result = measure_pruned(session, request, opened, of_file, lambda text: say(f"prune: {text}"))
    else:
        result = _evaluate(request.key, opened, load(session.strategy))
    if session.is_chief:
        _write_result(session, result)


def _evaluate(key: str, opened: OpenedDataset, model: keras.Model) -> dict[str, Any]:
    begun = time.monotonic()
    with naming_misfits(model, model.loss, {key: opened.batches}):
        metrics = model.evaluate(opened.batches, verbose=0, return_dict=True)
    numbers = {name: float(value) for name, value in metrics.items()}
    return {"samples": opened.samples, "seconds": time.monotonic() - begun, "metrics": numbers}


def _write_result(session: LaunchedSession, result: dict[str, Any]) -> None:
    assert all(math.isfinite(result.get(name, 0)) for name in ("samples", "seconds")), "metrics alone may be NaN"
    atomic_files.write_text(session.run.path / RESULT_FILE, json.dumps(result), durable=False)
