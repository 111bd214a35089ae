"""Regularizers of a table, of which each worker computes the part of its rows.

The gradient of a penalty by a row is the same on all workers but for a weight, which depends on the loss: a step of
Keras counts the penalty once over all workers, one of the user's weights it by samples, and loss scaling scales it. So
what travels as the gradient is that weight alone, in a slice beside those of lookups; the owner of a row does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import is_tried_out
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.runtime.transport.shard_collectives import sum_over_workers

_WEIGHT = -(1 << 62)
"""The number of the slice that has the weight; no row has it."""

_OF_ROWS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)
"""They are sums over all numbers."""


class RowPenalty(keras.regularizers.Regularizer):
    """A regularizer of a table, for Keras to call with it.

    Args:
        regularizer: Of Keras; a sum over rows.
    """

    def __init__(self, regularizer: keras.regularizers.Regularizer) -> None:
        self._regularizer = regularizer

    def __call__(self, x: TableVariable | tf.Variable) -> tf.Tensor:
        """The penalty of the full table; all workers call it. Where code is tried out, that of some rows."""
        if not isinstance(x, TableVariable):
            return tf.convert_to_tensor(self._regularizer(x))
        if x.rows is None:
            # Keras builds a model by its shapes alone, before any variable has a value.
            return tf.zeros([], x.dtype)
        if is_tried_out():
            return tf.convert_to_tensor(self._regularizer(x.rows))
        total = sum_over_workers(tf.stop_gradient(tf.convert_to_tensor(self._regularizer(x.rows))))

        @tf.custom_gradient
        def forward(handle: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.IndexedSlices]]:
            def gradient(upstream: tf.Tensor) -> tf.IndexedSlices:
                weight = tf.pad(tf.reshape(upstream, [1, 1]), [[0, 0], [0, x.cut.row_size - 1]])
                return tf.IndexedSlices(weight, tf.constant([_WEIGHT], tf.int64), tf.constant(x.cut.shape, tf.int64))

            return tf.stop_gradient(total), gradient

        # A read of no rows, by which tapes learn of a variable.
        tf.gather(x.rows, tf.zeros([0], tf.int64))
        return forward(x.handle)

    def get_config(self) -> dict[str, Any]:
        """See `keras.regularizers.Regularizer`."""
        config: dict[str, Any] = self._regularizer.get_config()
        return config

    def gradient(self, table: TableVariable) -> tf.Tensor:
        """By this worker's rows, `[rows of this worker, dim]`."""
        rows = tf.identity(table.rows)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            penalty = tf.convert_to_tensor(self._regularizer(rows))
        return tape.gradient(penalty, rows)


def penalty_of(regularizer: Any, owner: str) -> RowPenalty | None:
    """Returns what a table has for the regularizer of its layer.

    Args:
        regularizer: Of the layer, or None.
        owner: The layer's name.

    Raises:
        UnsupportedError: It may need all rows at once.
    """
    if regularizer is None:
        return None
    if type(regularizer) not in _OF_ROWS:
        raise UnsupportedError(
            f"The embedding {owner!r} is sharded, and its regularizer {type(regularizer).__name__} may need all rows "
            "at once. Expected L1, L2 or L1L2 of keras.regularizers. Train it whole, by --shard-embeddings with "
            "more rows than it has, or keras.layers.Embedding."
        )
    return RowPenalty(regularizer)


def weight_of_penalty(values: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The weight that this worker gives the penalty, and the slices without those that have it."""
    is_weight = tf.equal(ids, _WEIGHT)
    own = tf.reduce_sum(tf.boolean_mask(values, is_weight)[:, 0])
    rest = tf.logical_not(is_weight)
    return own, tf.boolean_mask(values, rest), tf.boolean_mask(ids, rest)
