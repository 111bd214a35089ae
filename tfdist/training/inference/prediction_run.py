"""A prediction: all samples once, in the order of the data, over all workers, and one file of them at the end.

Throughput of predictions: a line now and then that says how far they are, and how fast.

Sink of predictions: takes the outputs of each step, and keeps them on the disk part by part.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.data.pipeline import OpenedDataset
from tfdist.errors import UsageError
from tfdist.keras_repairs.loop.predictions import taking_predictions
from tfdist.order.epoch_span import Position
from tfdist.rundir import State, atomic_files
from tfdist.rundir.directory_exchange import making_directory
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.text import format_count, format_countdown
from tfdist.training.config_objects.sample_shapes import naming_misfits
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptOutputs, identity
from tfdist.training.inference.outputs.output_formats import OutputColumn, column_of, output_format
from tfdist.training.inference.outputs.step_outputs import arrays_of, gives, names_of
from tfdist.training.inference.outputs.tfrecord_output import shard_count, write_shards
from tfdist.training.inference.prediction_store import PredictionStore, parts_folder
from tfdist.training.inference_request import InferenceRequest, PredictionRequest
from tfdist.training.session.session import LaunchedSession
from tfdist.training.session.session_description import Announce
from tfdist.training.weights_file import digest_of

LINE_SECONDS = 10.0
"""Between two lines."""
PART_BYTES = 32 << 20
"""Bytes that are kept in memory until a part is written, about."""

PART_SECONDS = 30.0
"""Seconds for which predictions are kept in memory alone: what a kill may cost, besides a step."""

_TEXT_BYTES = 64
"""Memory of a text, about."""


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
    store: PredictionStore | None,
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
    """Returns what each output of a model is, by the name of its column."""
    names = names_of(model)
    return {name: gives(model, name) for name in (names if len(names) > 1 else ("output",))}


@contextlib.contextmanager
def _store(
    session: LaunchedSession, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset
) -> Iterator[PredictionStore | None]:
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
    store = PredictionStore(parts_folder(Path(prediction.path)), work, overwrite=prediction.overwrite)
    with contextlib.closing(store):
        yield store


def _finish(
    request: InferenceRequest,
    prediction: PredictionRequest,
    opened: OpenedDataset,
    store: PredictionStore,
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
    path: Path, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset, store: PredictionStore
) -> tuple[int, list[str]]:
    chosen = output_format(prediction.format)
    with atomic_files.replacing(path, named_by="--output") as temporary:
        chosen.write(temporary, store.columns, opened.samples, store.blocks)
    return path.stat().st_size, chosen.notes(path, store.columns)


def _make_folder(
    path: Path, request: InferenceRequest, prediction: PredictionRequest, opened: OpenedDataset, store: PredictionStore
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


class Throughput:
    """Says how far predictions are.

    Args:
        samples: All samples.
        done: Those that an earlier start has predicted.
        announce: Says a line.
        clock: Seconds, never going back.
    """

    def __init__(
        self, samples: int, done: int, announce: Announce, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._samples, self._before, self._announce, self._clock = samples, done, announce, clock
        self._begun = self._said = clock()
        self._done = done

    def reach(self, done: int) -> None:
        """So many samples have been predicted, from the first one on."""
        self._done, now = done, self._clock()
        if now - self._said >= LINE_SECONDS and done < self._samples:
            self._said = now
            left = format_countdown((self._samples - done) / max(self.rate, 1e-9))
            share = f"{done:,} of {format_count(self._samples, 'sample')} ({done / self._samples:.0%})"
            self._announce(f"{share}, {self.rate:,.0f} samples/s, {left} left")

    @property
    def predicted(self) -> int:
        """The samples that this start has predicted."""
        return self._done - self._before

    @property
    def rate(self) -> float:
        """Samples a second, of this start."""
        return self.predicted / max(self.seconds, 1e-9)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of this start."""
        return self._clock() - self._begun


def _bytes_of(array: NDArray) -> int:
    return array.size * _TEXT_BYTES if array.dtype.hasobject else array.nbytes


class PredictionSink:
    """Takes predictions in the order of the samples.

    Args:
        store: Where they are kept; those of the samples before are there.
        names: The names of the outputs; see `arrays_of`.
        sizes: The samples of the next execution, by the samples before it.
        part_samples: After how many samples a part is complete; None for as many as take `PART_BYTES`.
        taken: Called after each step with the samples that have been predicted, from the first one on.
        check: Called with the outputs before any are kept; what it raises refuses them.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        store: PredictionStore,
        names: Sequence[str],
        sizes: Callable[[int], int],
        part_samples: int | None,
        taken: Callable[[int], None],
        check: Callable[[Sequence[OutputColumn]], None] = lambda columns: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._names, self._sizes, self._part_samples = store, names, sizes, part_samples
        self._taken, self._check, self._clock = taken, check, clock
        self._steps: list[Mapping[str, NDArray]] = []
        self._done = store.done
        self._bytes, self._begun = 0, clock()

    def take(self, outputs: Any) -> None:
        """Takes the outputs of the next execution.

        Raises:
            TfdistError: They cannot be kept: see `arrays_of` and `PredictionStore.add`.
        """
        samples = self._sizes(self._done)
        if not self._steps:
            self._begun = self._clock()
        arrays = arrays_of(outputs, self._names, samples)
        if self._done == self._store.done:
            self._check([column_of(name, array) for name, array in arrays.items()])
        self._steps.append(arrays)
        self._done += samples
        self._bytes += sum(map(_bytes_of, arrays.values()))
        if self._is_complete():
            self.flush()
        self._taken(self._done)

    def flush(self) -> None:
        """Keeps what has been taken."""
        if self._steps:
            steps, self._steps, self._bytes = self._steps, [], 0
            self._store.add({name: np.concatenate([step[name] for step in steps]) for name in steps[0]})

    def _is_complete(self) -> bool:
        if self._part_samples is not None and self._done - self._store.done >= self._part_samples:
            return True
        is_large = self._part_samples is None and self._bytes >= PART_BYTES
        return is_large or self._clock() - self._begun >= PART_SECONDS
