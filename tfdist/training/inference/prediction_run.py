"""A prediction: all samples once, in the order of the data, over all workers, and one file of them at the end."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdist.data.pipeline import OpenedDataset
from tfdist.errors import UsageError
from tfdist.keras_repairs.loop.predictions import taking_predictions
from tfdist.order.position import Position
from tfdist.rundir import State, atomic_files
from tfdist.rundir.directory_exchange import making_directory
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.training.announcements import Announce
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptOutputs, identity
from tfdist.training.inference.outputs.output_formats import output_format
from tfdist.training.inference.outputs.sharded_output import shard_count, write_shards
from tfdist.training.inference.part_store import PartStore, parts_folder
from tfdist.training.inference.prediction_sink import PredictionSink
from tfdist.training.inference.throughput import Throughput
from tfdist.training.model_outputs.output_activations import gives
from tfdist.training.model_outputs.step_outputs import names_of
from tfdist.training.requests.inference_request import InferenceRequest, PredictionRequest
from tfdist.training.session.session import LaunchedSession
from tfdist.training.weights_file import digest_of


def predict(
    session: LaunchedSession,
    request: InferenceRequest,
    opened: OpenedDataset,
    load: Callable[[], keras.Model],
    announce: Announce,
) -> dict[str, Any]:
    """Predicts what an earlier start has not, and makes the file. All workers call it together.

    Args:
        session: The session.
        request: What is asked for.
        opened: The data.
        load: Returns the model, on all workers together; not called where all is predicted already.
        announce: Says a line.

    Returns:
        What came of it, on the chief, in JSON's types; elsewhere nothing.

    Raises:
        UsageError: Parts of something else are in the way, the data has no order, or the outputs cannot be kept.
    """
    prediction = request.prediction
    assert prediction is not None, "a prediction is asked for"
    check_order(opened, request.key)
    with _store(session, request, prediction, opened) as store:
        done = int(broadcast(np.int64(0 if store is None else store.done), strategy=session.strategy))
        if store is not None and done:
            announce(f"{done:,} of {opened.samples:,} samples are predicted already, and stay")
        progress = Throughput(opened.samples, done, announce)
        if done < opened.samples:
            model = load()
            if store is not None:
                store.note({"gives": _gives_of(model)})
            _predict(request, opened, model, done, store, progress)
        if store is None:
            return {}
        session.activity.enter(State.SAVING)
        return _finish(request, prediction, opened, store, progress)


def check_order(opened: OpenedDataset, key: str) -> None:
    """Checks that the batches have the samples in the order of the data.

    Raises:
        UsageError: They have not.
    """
    if "shares" in opened.order:
        raise UsageError(
            f"{key}.sharding is none: each worker has samples of its own, and there is no order of all of them. "
            "Expected data that all workers see alike. Predict each share by itself, with one worker."
        )
    lanes = opened.order.get("lanes", 1)
    if lanes > 1:
        raise UsageError(
            f"{key} has {lanes} lanes, whose samples are mixed. Expected data with one order. Leave the key lanes out."
        )


def _predict(
    request: InferenceRequest,
    opened: OpenedDataset,
    model: keras.Model,
    done: int,
    store: PartStore | None,
    progress: Throughput,
) -> None:
    """Predicts the samples after those that are done; `store` keeps them, on the chief."""
    assert request.prediction is not None, "a prediction is asked for"
    batch_size = min(request.batch_size, opened.samples)
    batches = opened.begin(Position(0, done // batch_size))
    fitting = naming_misfits(model, None, {request.key: batches})
    if store is None:
        with fitting, taking_predictions(lambda outputs: None):
            model.predict(batches, verbose=0)
        return
    at_once = batch_size * model.steps_per_execution
    sink = PredictionSink(
        store,
        names_of(model),
        lambda before: min(at_once, opened.samples - before),
        request.prediction.part_samples,
        progress.reach,
        output_format("tfrecord" if request.prediction.format == "shards" else request.prediction.format).check,
    )
    with fitting, taking_predictions(sink.take):
        model.predict(batches, verbose=0)
    sink.flush()


def _gives_of(model: keras.Model) -> dict[str, str | None]:
    """What each output of a model is, by the name of its column."""
    names = names_of(model)
    return {name: gives(model, name) for name in (names if len(names) > 1 else ("output",))}


@contextlib.contextmanager
def _store(
    session: LaunchedSession, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset
) -> Iterator[PartStore | None]:
    """The parts of the prediction, on the chief; None elsewhere."""
    if not session.is_chief:
        yield None
        return
    work = {
        "model": f"{request.shown_model}, SHA-256 {digest_of(request.model)}",
        "data": dict(request.section),
        "samples": opened.samples,
        "data's checksum": dataclasses.asdict(opened.source.fingerprint())["checksum"],
        "batch size": request.batch_size,
    }
    store = PartStore(parts_folder(Path(prediction.path)), work, overwrite=prediction.overwrite)
    with contextlib.closing(store):
        yield store


def _finish(
    request: InferenceRequest,
    prediction: PredictionRequest,
    opened: OpenedDataset,
    store: PartStore,
    progress: Throughput,
) -> dict[str, Any]:
    """Makes the file, or the folder, of the parts, and removes these."""
    seconds, predicted = progress.seconds, progress.predicted
    path = Path(prediction.path)
    make = _make_folder if prediction.format == "shards" else _make_file
    size, notes = make(path, request, prediction, opened, store)
    store.remove()
    return {
        "samples": opened.samples,
        "predicted": predicted,
        "seconds": seconds,
        "bytes": size,
        "outputs": [str(column) for column in store.columns],
        "notes": notes,
    }


def _make_file(
    path: Path, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset, store: PartStore
) -> tuple[int, list[str]]:
    chosen = output_format(prediction.format)
    with atomic_files.replacing(path, named_by="--output") as temporary:
        chosen.write(temporary, store.columns, opened.samples, store.blocks)
    return path.stat().st_size, chosen.notes(path, store.columns)


def _make_folder(
    path: Path, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset, store: PartStore
) -> tuple[int, list[str]]:
    shards = min(prediction.shards or shard_count(store.columns, opened.samples), opened.samples)
    with making_directory(path, named_by="--output") as temporary:
        files = write_shards(temporary, store.columns, opened.samples, store.blocks, shards)
        kept = KeptOutputs(
            opened.samples,
            store.columns,
            files,
            {name: said for name, said in store.facts.get("gives", {}).items() if said is not None},
            request.shown_model,
            opened.source.fingerprint().checksum,
            identity(request.section),
        )
        atomic_files.write_json(temporary / MANIFEST_FILE, kept.to_json(), named_by="--output")
    lossy = ", ".join(column.name for column in store.columns if column.dtype == "float64")
    return sum(file.size for file in files), [f"float64 is float32 in a TFRecord file: {lossy}"] if lossy else []
