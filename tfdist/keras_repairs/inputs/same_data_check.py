"""Check that all workers are given the same data: each takes its rows of every batch."""

from __future__ import annotations

import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from tfdist.errors import DataError
from tfdist.runtime.collectives.decisions import gather_objects
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count

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
