"""The initial values of a worker's rows of a table: the numbers that one device gives them.

Numbers of Keras's random initializers are made for these rows alone: each number of a draw is a function of the seed
and of its place (see `philox_rows`). Any other initializer makes the whole table, on each worker for a moment.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.keras_repairs.random_numbers.draw_slice import DrawSlice
from tfdist.keras_repairs.random_numbers.stateless_draws import drawing_rows
from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES, array_from_chief
from tfdist.runtime.collectives.decisions import all_gather
from tfdist.sharding.cut import Cut

_log = logging.getLogger("tfdist")

_initializers = keras.initializers

_BY_PLACE = frozenset(
    getattr(_initializers, name)
    for name in (
        "RandomUniform",
        "RandomNormal",
        "TruncatedNormal",
        "VarianceScaling",
        "GlorotUniform",
        "GlorotNormal",
        "HeUniform",
        "HeNormal",
        "LecunUniform",
        "LecunNormal",
    )
)
"""They draw once, in the shape of the variable, and change each number by itself."""

_ALIKE = frozenset((_initializers.Zeros, _initializers.Ones))

_NO_SEED = -1


def initial_rows(initializer: Any, cut: Cut, worker: int, dtype: str, name: str) -> tf.Tensor:
    """The first values of a worker's rows; all workers call it together, outside of functions.

    Args:
        initializer: Of Keras, or a callable that takes a shape and a dtype.
        cut: Between rows; how the workers share the table.
        worker: This one.
        dtype: Of the table.
        name: Of the table, for messages.

    Returns:
        `[rows of the worker, dim]`. The seed is the chief's, and so are values that are made whole.

    Raises:
        UsageError: The workers make tables of different sizes.
    """
    seed = getattr(initializer, "seed", None)
    is_by_place = type(initializer) in _BY_PLACE and isinstance(seed, int)
    chiefs_seed = _agreed_seed(cut, seed if isinstance(seed, int) else _NO_SEED, name)
    if type(initializer) in _ALIKE:
        return initializer(cut.shard_shape(worker), dtype=dtype)
    if is_by_place:
        own = copy.copy(initializer)
        own.seed = chiefs_seed
        return _drawn(own, cut, worker, dtype)
    _log.info("%s: %s makes the whole table on each worker, which then keeps its rows", name, initializer)
    whole = tf.convert_to_tensor(initializer(cut.shape, dtype=dtype))
    return tf.concat([_rows_of_chief(whole, start, stop, cut, worker) for start, stop in _pieces(cut, whole)], 0)


def _drawn(initializer: Any, cut: Cut, worker: int, dtype: str) -> tf.Tensor:
    first = cut.span(worker)[0] // cut.row_size
    begin, total = (tf.constant(rows, tf.int64) for rows in (first, cut.shape[0]))
    with drawing_rows(DrawSlice(cut.shard_shape(worker), 0, begin, total)):
        return tf.convert_to_tensor(initializer(cut.shape, dtype=dtype))


def _agreed_seed(cut: Cut, seed: int, name: str) -> int:
    said = all_gather(np.array([*cut.shape, seed], np.int64)).tolist()
    if any(row[:-1] != said[0][:-1] for row in said):
        sizes = ", ".join(f"{tuple(row[:-1])} on worker {worker}" for worker, row in enumerate(said))
        raise UsageError(
            f"All workers make the same tables of embeddings in the same order. Received: {name}, as this worker names "
            f"it, of {sizes}. Look for sizes that depend on the worker, such as the vocabulary of its part of the data."
        )
    return int(said[0][-1])


def _pieces(cut: Cut, whole: tf.Tensor) -> Iterator[tuple[int, int]]:
    """First and last rows of pieces, of a size that a collective takes."""
    rows = max(1, PIECE_BYTES // max(1, cut.row_size * whole.dtype.size))
    return ((start, min(cut.shape[0], start + rows)) for start in range(0, cut.shape[0], rows))


def _rows_of_chief(whole: tf.Tensor, start: int, stop: int, cut: Cut, worker: int) -> tf.Tensor:
    """A worker's rows among those of a piece of the chief's table."""
    first, last = (bound // cut.row_size for bound in cut.span(worker))
    piece = tf.constant(array_from_chief(whole[start:stop].numpy(), tf.distribute.get_strategy()))
    return piece[max(first - start, 0) : max(last - start, 0)]
