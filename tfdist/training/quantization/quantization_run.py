"""A quantization: measured before, quantized on the chief, and measured again by all workers.

The calibration of a quantization: all workers run the float model, and the chief rounds its kernels.

Result of a quantization, in JSON's types.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist import data
from tfdist.config.data_sections import SourceConfig
from tfdist.config.section import build
from tfdist.data.pipeline import OpenedDataset
from tfdist.errors import UnsupportedError
from tfdist.rundir import atomic_files
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import text_from_chief
from tfdist.runtime.workers import outside_strategy
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.inference_request import InferenceRequest, KernelCalibration, QuantizationRequest
from tfdist.training.quantization.input_moments import measure_moments, run_through
from tfdist.training.quantization.layer_choice import (
    DropBudget,
    JudgedMetric,
    LayerChoice,
    Metrics,
    choose_layers,
    choose_metric,
)
from tfdist.training.quantization.layer_quantization import (
    CalibratedMethod,
    KerasMethod,
    QuantizationMethod,
    input_sizes,
    layers_by_name,
    quantized_names,
    weight_bytes,
)
from tfdist.training.quantization.model_evaluation import (
    SAMPLES,
    FileEvaluation,
    first_samples,
    model_seconds,
    model_shows_nothing,
)
from tfdist.training.quantization.quantized_files import QuantizedFiles
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import Announce


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


def calibrate(
    asked: KernelCalibration,
    model: keras.Model,
    names: Sequence[str],
    batch_size: int,
    strategy: tf.distribute.Strategy,
    method: CalibratedMethod | None,
    announce: Announce,
) -> int:
    """Measures what layers take in, and rounds their kernels. All workers call it together.

    Args:
        asked: What is asked for.
        model: The float model, under the strategy.
        names: Its layers, by `layers_by_name`.
        batch_size: Samples of a step over all replicas, at most.
        strategy: The strategy in force.
        method: Takes the kernels, on the chief; None elsewhere.
        announce: Says a line.

    Returns:
        How many samples were read: those asked for, up to whole steps, or all there are.

    Raises:
        DataError: They cannot be read, or are not what the model takes.
    """
    section = build(SourceConfig, dict(asked.section), asked.key)
    steps = math.ceil(asked.samples / batch_size)
    size = math.ceil(asked.samples / steps)
    opened = data.from_config(section, size, asked.seed, strategy, asked.key)
    steps = min(steps, math.ceil(opened.samples / size))
    samples = min(steps * size, opened.samples)
    layers = layers_by_name(model)
    sizes = input_sizes({name: layers[name] for name in names})
    announce(f"calibrates {len(sizes)} layers on {samples:,} samples of {asked.key}")
    with naming_misfits(model, None, {asked.key: opened.batches}):
        chosen = {name: (layers[name], inputs) for name, inputs in sizes.items()}
        for name, moments in measure_moments(chosen, lambda: run_through(model, opened.batches, steps), strategy):
            if method is not None:
                method.take(name, layers[name], moments)
    return samples


@dataclass(frozen=True)
class Measured:
    """The results that were measured.

    Attributes:
        samples: On how many samples.
        before: What the float model has.
        metric: The metric that was judged by.
        choice: The layers that were chosen, and what came of them.
        shows_nothing: Why no metric could become worse, in words; empty where one could.
        is_bounded: Whether there is a budget.
    """

    samples: int
    before: Metrics
    metric: JudgedMetric
    choice: LayerChoice
    shows_nothing: str = ""
    is_bounded: bool = False

    @property
    def is_held(self) -> bool:
        """True if there is no budget, or one that is held and could be exceeded."""
        return self.choice.is_held and not (self.is_bounded and self.shows_nothing)

    def drop(self, after: Metrics) -> float:
        """Returns how much worse `after` is than the float model."""
        return self.metric.drop(self.before[self.metric.name], after[self.metric.name])

    def to_json(self) -> dict[str, Any]:
        """All of it but the layers."""
        return {
            "samples": self.samples,
            "metric": self.metric.name,
            "best": self.metric.best,
            "before": {"metrics": dict(self.before)},
            "after": {"metrics": dict(self.choice.after)},
            "drop": self.drop(self.choice.after),
            "held": self.is_held,
            "shows_nothing": self.shows_nothing,
        }


def layer_rows(
    files: QuantizedFiles, quantized: keras.Model, measured: Measured, kept: Set[str]
) -> list[dict[str, Any]]:
    """Returns what came of each layer that has weights, in the order of the model.

    Args:
        files: What was known of them before.
        quantized: The model as a file gave it back.
        measured: What was measured.
        kept: Those that the user has kept in float.

    Returns:
        For each layer its name and class, the bytes of its weights before and after, why it is in float (None where it
        is quantized), and where it was measured alone, the metrics and the drop.
    """
    after = {name: weight_bytes(layer) for name, layer in layers_by_name(quantized).items()}
    reasons = {
        **dict.fromkeys(files.layers.keys() - set(files.names), "not covered"),
        **dict.fromkeys(files.unrecordable, "no file could say so"),
        **dict.fromkeys(kept, "--keep-float"),
        **dict.fromkeys(measured.choice.freed, "--max-drop"),
    }
    rows = []
    for name, facts in files.layers.items():
        alone = measured.choice.alone.get(name)
        rows.append(
            {
                "name": name,
                "kind": facts.kind,
                "bytes_before": facts.size,
                "bytes_after": after[name],
                "float_because": reasons.get(name),
                "alone": None if alone is None else dict(alone),
                "drop_alone": None if alone is None else measured.drop(alone),
            }
        )
    return rows
