"""Decides which data one worker of a host draws for all of its workers, and which each worker draws for itself.

The numbers are exact, so nothing is refused; but where the data is large or slow to read, more workers do not help, and
`tfdist.data` does.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tfdist.errors import DataError
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.runtime import random_state
from tfdist.runtime.batches.host_feed.batch_notes import MOST_ARRAYS
from tfdist.runtime.batches.host_feed.host_feed import HostFeed
from tfdist.runtime.batches.mapped_rows import maps_of_rows, replicas_drawn_for, sample_maps
from tfdist.runtime.collectives.decisions import gather_objects
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas, worker_count
from tfdist.text import format_bytes

MUCH = 256 << 20
"""Bytes of arrays in every worker's memory from which on it warns."""

_FILES = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "CsvDataset", "SqlDataset", "ReadFile")


def warn_of_whole_reading(adapter: Any, dataset: Any, strategy: tf.distribute.Strategy, *, once: bool = False) -> None:
    """Warns once, on the chief of several workers, where it is expensive that each of them reads everything.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: The strategy in force.
        once: Whether one worker of each host reads for all of it.
    """
    workers = worker_count(strategy)
    feed = settings_of(strategy).feed
    if local_replicas(strategy)[0] != 0 or workers == 1:
        return
    who = f"{workers} workers"
    if once and feed is not None:
        if len(feed.workers) == workers:
            return
        who = "hosts"
    if isinstance(adapter, ArrayDataAdapter):
        size = sum(int(getattr(array, "nbytes", 0)) for array in keras.tree.flatten(adapter._inputs))
        if size > MUCH:
            warn_once(
                f"Each of the {workers} workers holds all {format_bytes(size)} of the arrays in memory and takes "
                "its rows of them, which is exact. tfdist.data.arrays(numpy.load(file, mmap_mode='r'), ...) leaves "
                "them on the disk, where each worker reads its own rows alone."
            )
    elif not isinstance(adapter, TFDatasetAdapter):
        _warn(who, "runs all of the Python code that makes the batches")
    elif isinstance(dataset, tf.data.Dataset):
        maps = maps_of_rows(dataset, strategy, once=once)
        names = set(parts_of(dataset if maps is None else maps.source))
        if any(name.startswith(_FILES) for name in names):
            _warn(who, f"reads{' and parses' if maps is None else ''} all files of this tf.data.Dataset")
        elif any("PyFunc" in name for name in names):
            _warn(who, "runs all of the Python code in this tf.data.Dataset")


def _warn(who: str, what: str) -> None:
    warn_once(
        f"Each of the {who} {what} and keeps its rows of every global batch: exact, but no faster than on "
        "one worker. Where training waits for its data, use tfdist.data (tfrecords, csv, text, images, arrays), with "
        "which a worker reads its own samples alone."
    )


def parts_of(dataset: tf.data.Dataset) -> Iterator[str]:
    """The classes of a dataset's stages, and the operations of the functions in them."""
    todo = [dataset]
    while todo:
        stage = todo.pop()
        yield type(stage).__name__
        for function in stage._functions():
            graph = function.function.graph.as_graph_def()
            yield from (node.op for node in graph.node)
            yield from (node.op for inner in graph.library.function for node in inner.node_def)
        todo.extend(stage._inputs())


_ROWS = 64
"""Rows of each array that are compared, spread over its length: enough to see another order or another split."""


def check_same_data(adapter: Any, strategy: tf.distribute.Strategy, shared: str = "") -> bool:
    """Compares what the workers give to `fit`, `evaluate` or `predict`.

    Args:
        adapter: Keras's adapter of the data. Of arrays some rows are compared, of anything else its size.
        strategy: The strategy in force.
        shared: The batches, in words, where one worker of this host could draw them for all of it; else empty.

    Returns:
        Whether all workers of this host say the same of batches that one of them could draw.

    Raises:
        DataError: On every worker, when two differ.
    """
    if worker_count(strategy) == 1:
        return False
    everything = gather_objects({"data": _description(adapter), "shared": shared}, strategy)
    said = [each["data"] for each in everything]
    for index, description in enumerate(said):
        for what, value in description.items():
            if value != said[0].get(what):
                raise DataError(
                    f"The workers were given different data: {what} {value} on worker {index}, {said[0].get(what)} on "
                    "the chief. Expected the same data in the same order on every worker, which takes its rows of it. "
                    "Seed whatever the script draws its data or its order with, or share it with tfdist.broadcast()."
                )
    feed = settings_of(strategy).feed
    return bool(shared) and feed is not None and all(everything[each]["shared"] == shared for each in feed.workers)


def _description(adapter: Any) -> dict[str, Any]:
    description: dict[str, Any] = {"number of batches": adapter.num_batches}
    if isinstance(adapter, ArrayDataAdapter):
        arrays = [leaf for leaf in keras.tree.flatten(adapter._inputs) if hasattr(leaf, "shape")]
        description["shapes of the arrays"] = [list(map(str, array.shape)) for array in arrays]
        description["checksums of some rows"] = [_checksum(array) for array in arrays]
    return description


def _checksum(array: Any) -> int | None:
    if not isinstance(array, np.ndarray | tf.Tensor) or len(array.shape) == 0:
        return None
    sample = np.zeros(0)
    if len(array):
        rows = np.unique(np.linspace(0, len(array) - 1, _ROWS, dtype=np.int64))
        sample = np.stack([np.asarray(array[int(row)]) for row in rows])
    return zlib.crc32(repr(sample.tolist()).encode() if sample.dtype == object else sample.tobytes())


_CHEAP = frozenset(
    {
        "AssertCardinality",
        "Batch",
        "Cache",
        "Concatenate",
        "Options",
        "ParallelBatch",
        "Prefetch",
        "Range",
        "Repeat",
        "Shard",
        "Shuffle",
        "Skip",
        "Take",
        "Tensor",
        "TensorSlice",
        "Zip",
    }
)
"""Stages that only order and join what lies in memory, by TensorFlow's classes. In some versions their names begin with
an underscore."""


def is_drawn_once(adapter: Any, dataset: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether one worker of each host draws the data; checks that all workers were given the same.

    All workers call it together, and those of a host get the same answer: one of them alone would wait for batches that
    nobody draws for it.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: The strategy in force.

    Raises:
        DataError: On every worker, when the data of two differs.
    """
    why_not = why_not_once(adapter, dataset, strategy)
    several = worker_count(strategy) > 1
    is_mapped = several and isinstance(dataset, tf.data.Dataset) and sample_maps(dataset) is not None
    kind = "" if why_not else f"{dataset.element_spec!r}{' of mapped samples' * is_mapped}"
    once = check_same_data(adapter, strategy, kind)
    feed = settings_of(strategy).feed
    if feed is not None:
        say_once(_who_draws(feed, "" if once else why_not or "the workers describe its batches differently"))
        if once and not feed.draws and isinstance(adapter, PyDatasetAdapter):
            # Its threads or processes would make batches that nobody takes.
            adapter.enqueuer = None
        feed.runs_python |= once and _runs_python(adapter, dataset)
    if is_mapped and len(replicas_drawn_for(strategy, once=once)) < strategy.num_replicas_in_sync:
        say_once(
            f"{'Each host' if once else 'Each worker'} maps only the samples that its replicas need: what comes of a "
            "sample in the maps before batch() depends on that sample alone."
        )
    return once


@contextlib.contextmanager
def handing_batches(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Around a call of `fit`, `evaluate` or `predict`: at the end of the outermost one nothing is drawn any more.

    Python code that makes batches may draw from the random generators of Python and NumPy, on the worker alone that
    runs it. Their states are then handed to the other workers of its host, for what the script draws next.
    """
    feed = settings_of(strategy).feed
    if feed is None:
        yield
        return
    with feed.calling():
        yield
    if feed.runs_python and not feed.is_in_call:
        feed.runs_python = False
        states = feed.from_drawer(random_state.read_own(strategy).tobytes())
        if not feed.draws:
            random_state.write_own(np.frombuffer(states, np.uint32))


def why_not_once(adapter: Any, dataset: Any, strategy: tf.distribute.Strategy) -> str:
    """Returns why each worker is to draw the batches itself; empty where one of its host should.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: The strategy in force.
    """
    if settings_of(strategy).feed is None:
        return "no other worker of this host shares batches with this one"
    if not isinstance(dataset, tf.data.Dataset):
        return "the data is distributed already"
    if isinstance(adapter, ArrayDataAdapter):
        return "to cut rows of arrays costs less than to hand them over"
    leaves = tf.nest.flatten(dataset.element_spec)
    if len(leaves) > MOST_ARRAYS:
        return f"its batches have {len(leaves)} tensors, more than {MOST_ARRAYS}"
    if not all(map(_is_dense_number, leaves)):
        return "only dense tensors of numbers are handed over, and these batches have others (text, ragged, sparse)"
    if isinstance(adapter, TFDatasetAdapter) and _is_cheap(dataset):
        return "its stages only order and join what lies in memory, or change whole batches a little"
    return ""


_NUMBERS = frozenset(
    {
        *(tf.bool, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
        *(tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128),
    }
)

_MAPS = frozenset({"Map", "ParallelMap"})
_BATCHES = frozenset({"Batch", "ParallelBatch"})

_LIGHT = frozenset(
    {
        *("Placeholder", "Const", "Identity", "NoOp", "Cast", "Reshape", "ExpandDims", "Squeeze", "OneHot", "Shape"),
        *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Neg", "Equal", "Less", "Greater", "StridedSlice", "Pack"),
    }
)
"""Operations that take about as long as to copy what they are given."""


def _who_draws(feed: HostFeed, why_not: str) -> str:
    workers = ", ".join(map(str, feed.workers))
    if why_not:
        return f"Each of the workers {workers} of this host draws its batches itself: {why_not}."
    return f"Worker {feed.drawer} draws each batch once for the workers {workers} of this host."


def _is_dense_number(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and spec.dtype in _NUMBERS


def _is_cheap(dataset: tf.data.Dataset) -> bool:
    """Returns whether to make a batch costs about as little as to hand it over: there is nothing to do for each
    sample."""
    todo = [(dataset, True)]
    while todo:
        stage, is_of_batches = todo.pop()
        name = type(stage).__name__.removeprefix("_").removesuffix("Dataset")
        if name in _MAPS and is_of_batches:
            if not all(_is_light(function.function.graph) for function in stage._functions()):
                return False
        elif name not in _CHEAP:
            return False
        todo.extend((source, is_of_batches and name not in _BATCHES) for source in stage._inputs())
    return True


def _is_light(graph: tf.Graph) -> bool:
    definition = graph.as_graph_def()
    return not definition.library.function and all(node.op in _LIGHT for node in definition.node)


def _runs_python(adapter: Any, dataset: tf.data.Dataset) -> bool:
    return not isinstance(adapter, TFDatasetAdapter) or any("PyFunc" in part for part in parts_of(dataset))
