"""Measurement of a pruned model beside the one from before; the chief makes the file where the budget is held.

Lists what is left of each layer of a pruned model.
"""

from __future__ import annotations

import math
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.pipeline import OpenedDataset
from tfdist.rundir import atomic_files
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.workers import outside_strategy
from tfdist.training.inference_request import InferenceRequest, PruningRequest
from tfdist.training.pruning.channel_removal import remove_channels
from tfdist.training.pruning.prunable_layers import PrunableLayer, prunable_layers
from tfdist.training.pruning.sparsity import CHANNELS, UNSTRUCTURED, Structure
from tfdist.training.quantization.layer_choice import DropBudget, choose_metric
from tfdist.training.quantization.layer_quantization import weight_bytes
from tfdist.training.quantization.model_evaluation import (
    SAMPLES,
    FileEvaluation,
    first_samples,
    model_seconds,
    model_shows_nothing,
)
from tfdist.training.quantization.quantized_files import without_slots
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import Announce


def layer_rows(before: keras.Model, after: keras.Model) -> list[dict[str, Any]]:
    """Each layer whose kernel can be pruned, in JSON's types.

    Args:
        before: The model, as it was.
        after: The same model, pruned: of some layers it may have fewer channels.

    Returns:
        Name and class, the shapes of the kernel before and after, its weights before, and those after that are not 0.
    """
    pairs = zip(_kernels(before), _kernels(after), strict=True)
    return [
        {
            "name": was.name,
            "kind": type(was.layer).__name__,
            "shape_before": list(was.kernel.shape),
            "shape_after": list(now.kernel.shape),
            "weights": math.prod(was.kernel.shape),
            "left": int(np.count_nonzero(keras.ops.convert_to_numpy(now.kernel))),
        }
        for was, now in pairs
    ]


def sparsity(rows: Sequence[dict[str, Any]]) -> float:
    """The share of the weights of all these layers that is gone."""
    return 1 - sum(row["left"] for row in rows) / sum(row["weights"] for row in rows)


def _kernels(model: keras.Model) -> list[PrunableLayer]:
    return prunable_layers(model, Structure(UNSTRUCTURED))


Load = Callable[[str, tf.distribute.Strategy], keras.Model]
"""Returns the model with the weights of a file, under a strategy."""


def measure_pruned(
    session: LaunchedSession, request: InferenceRequest, opened: OpenedDataset, load: Load, announce: Announce
) -> dict[str, Any]:
    """Measures a model before and after it was pruned, and makes the file. All workers call it together.

    Args:
        session: The session.
        request: What is asked for.
        opened: The samples to measure on.
        load: Called on the chief alone.
        announce: Says a line.

    Returns:
        What came of it, on the chief, in JSON's types; elsewhere nothing.

    Raises:
        UsageError: The model or the options cannot be used.
        UnsupportedError: The model cannot be written to a file and read again.
    """
    asked = request.pruning
    assert asked is not None, "a pruning is asked for"
    with temporary_folder("pruning") as folder:
        before = after = None
        kept: Mapping[str, str] = {}
        if session.is_chief:
            with outside_strategy() as default:
                before = _written(load(request.model, default), folder / "before.keras")
                pruned, kept = _without_channels(load(asked.pruned, default), asked)
                after = _written(pruned, folder / "after.keras")
        evaluation = FileEvaluation(opened.batches, session.strategy, folder)
        was = evaluation.measure(before)
        metric = choose_metric(asked.metric, was)
        announce(f"before: {metric.name} {was[metric.name]:.6g}")
        now = evaluation.measure(after)
        announce(f"after: {metric.name} {now[metric.name]:.6g}")
        if before is None or after is None:
            return {}
        with outside_strategy() as default:
            why = _shows_nothing(before, first_samples(request, SAMPLES, session.seed, default))
            sample = first_samples(request, 1, session.seed, default)
        drop = metric.drop(was[metric.name], now[metric.name])
        is_within = asked.max_drop is None or drop <= DropBudget.of(asked.max_drop).allowed(was[metric.name])
        held = is_within and (asked.max_drop is None or not why)
        result: dict[str, Any] = {
            "samples": opened.samples,
            "metric": metric.name,
            "best": metric.best,
            "drop": drop,
            "max_drop": asked.max_drop,
            "held": held,
            "shows_nothing": why,
            "structure": asked.structure,
            "output": asked.path if held else None,
            "kept_channels": dict(kept),
        }
        with outside_strategy():
            result |= _facts(before, after, was, now, sample)
        if held:
            _keep(after, asked)
        return result


def _shows_nothing(file: Path, samples: Any) -> str:
    return model_shows_nothing(keras.models.load_model(file, compile=False), samples)


def _without_channels(model: keras.Model, asked: PruningRequest) -> tuple[keras.Model, Mapping[str, str]]:
    """The model without pruned channels, compiled as it was, and which layers keep theirs, with the reasons."""
    if asked.structure != CHANNELS:
        return model, {}
    smaller = remove_channels(model)
    if smaller.model is not model:
        smaller.model.compile_from_config(model.get_compile_config())
    return smaller.model, smaller.kept


def _written(model: keras.Model, file: Path) -> Path:
    """The model as a file, without the state of an optimizer, which would be most of its size."""
    without_slots(model)
    model.save(file)
    return file


def _facts(
    before: Path, after: Path, was: Mapping[str, float], now: Mapping[str, float], sample: Any
) -> dict[str, Any]:
    """Sizes and times of both files, and what is left of each layer."""
    models = [keras.models.load_model(file, compile=False) for file in (before, after)]
    rows = layer_rows(*models)
    found: dict[str, Any] = {"layers": rows, "sparsity": sparsity(rows)}
    for moment, file, model, metrics in zip(("before", "after"), (before, after), models, (was, now), strict=True):
        found[moment] = {
            "metrics": dict(metrics),
            "bytes": file.stat().st_size,
            "compressed_bytes": _compressed(file),
            "weight_bytes": weight_bytes(model),
            "sample_ms": model_seconds(model, sample) * 1e3,
        }
    return found


def _compressed(file: Path) -> int:
    """Bytes of a file as gzip makes them, which zeros hardly count in."""
    packing, size = zlib.compressobj(), 0
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            size += len(packing.compress(block))
    return size + len(packing.flush())


def _keep(file: Path, asked: PruningRequest) -> None:
    with atomic_files.replacing(Path(asked.path), named_by="--output") as temporary:
        shutil.copyfile(file, temporary)
