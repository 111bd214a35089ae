"""Warnings about data of which every worker reads everything and keeps its rows of each global batch.

The numbers are exact, so nothing is refused; but where the data is large or slow to read, more workers do not help, and
`tfdist.data` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from tfdist.keras_repairs.base.warn_once import warn_once
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
    readers = f"{workers} workers"
    if once and feed is not None:
        if len(feed.workers) == workers:
            return
        readers = "hosts"
    if isinstance(adapter, ArrayDataAdapter):
        size = sum(int(getattr(array, "nbytes", 0)) for array in keras.tree.flatten(adapter._inputs))
        if size > MUCH:
            warn_once(
                f"Each of the {workers} workers holds all {format_bytes(size)} of the arrays in memory and takes "
                "its rows of them, which is exact. tfdist.data.arrays(numpy.load(file, mmap_mode='r'), ...) leaves "
                "them on the disk, where each worker reads its own rows alone."
            )
    elif not isinstance(adapter, TFDatasetAdapter):
        _warn(readers, "runs all of the Python code that makes the batches")
    elif isinstance(dataset, tf.data.Dataset):
        names = set(parts_of(dataset))
        if any(name.startswith(_FILES) for name in names):
            _warn(readers, "reads and parses all files of this tf.data.Dataset")
        elif any("PyFunc" in name for name in names):
            _warn(readers, "runs all of the Python code in this tf.data.Dataset")


def _warn(readers: str, what: str) -> None:
    warn_once(
        f"Each of the {readers} {what} and keeps its rows of every global batch: exact, but no faster than on "
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
