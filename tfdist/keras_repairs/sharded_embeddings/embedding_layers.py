"""Repairs of `keras.layers.Embedding`: which layers are sharded, and how these are built and called."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.sharded_embeddings.row_lookup import look_up, no_vectors
from tfdist.keras_repairs.sharded_embeddings.row_penalties import penalty_of
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.cut import rows_evenly

_log = logging.getLogger("tfdist")

Function = Callable[..., Any]

_NORMS = (keras.constraints.MaxNorm, keras.constraints.MinMaxNorm, keras.constraints.UnitNorm)


def build(original: Function) -> Function:
    """Repairs `Embedding.build`: of a sharded one this worker's rows are made, and never the full table."""

    def repaired(self: Any, input_shape: Any = None) -> None:
        if self.built or not _is_to_be_sharded(self):
            original(self, input_shape)
            return
        _check(self)
        self._embeddings = _table_for(self)
        self.built = True

    return repaired


def call(original: Function) -> Function:
    """Repairs `Embedding.call`."""

    def repaired(self: Any, inputs: Any) -> Any:
        table = self._embeddings
        if not isinstance(table, TableVariable) or isinstance(table.rows, tf.Tensor):
            return original(self, inputs)
        if table.rows is None:
            # Keras builds a model by its shapes alone, before any variable has a value.
            return keras.ops.cast(no_vectors(inputs, self.output_dim), self.compute_dtype)
        return keras.ops.cast(look_up(table, inputs), self.compute_dtype)

    return repaired


def is_sharded_by(layer: keras.layers.Embedding, most: int | None) -> bool:
    """Returns whether several workers share an embedding's rows.

    Args:
        layer: The embedding.
        most: The most rows of one that stays whole; None where all do but those that are always shared.
    """
    if getattr(layer, "is_always_sharded", False):
        return True
    return most is not None and layer.input_dim > most and type(layer) is keras.layers.Embedding


def check_constraint(constraint: Any, owner: str) -> None:
    """Refuses a constraint that needs other rows.

    Args:
        constraint: Of a layer, or None.
        owner: The layer's name.

    Raises:
        UnsupportedError: It may need all rows at once.
    """
    if constraint is None or type(constraint) is keras.constraints.NonNeg:
        return
    if type(constraint) in _NORMS and _axes(constraint) in ([1], [-1]):
        return
    axis = f"(axis={constraint.axis})" if type(constraint) in _NORMS else ""
    raise UnsupportedError(
        f"The embedding {owner!r} is sharded, and its constraint {type(constraint).__name__}{axis} may need all rows "
        "at once. Expected NonNeg, or MaxNorm, MinMaxNorm or UnitNorm with axis=1, the norm of each row. Train it "
        "whole, by --shard-embeddings with more rows than it has, or keras.layers.Embedding."
    )


def _is_to_be_sharded(layer: Any) -> bool:
    strategy = tf.distribute.get_strategy()
    if worker_count(strategy) == 1:
        return False
    most = settings_of(strategy).shard_embeddings
    if is_sharded_by(layer, most):
        return True
    if most is None or layer.input_dim <= most:
        return False
    warn_once(
        f"--shard-embeddings {most}: the layer {layer.name!r} of {layer.input_dim} rows stays whole on every worker. "
        f"It is a {type(layer).__qualname__}, which may use its table in ways of its own; keras.layers.Embedding and "
        "tfdist.layers.ShardedEmbedding are sharded."
    )
    return False


def _check(layer: Any) -> None:
    strategy = tf.distribute.get_strategy()
    workers = worker_count(strategy)
    if strategy.num_replicas_in_sync != workers:
        raise UnsupportedError(
            f"The embedding {layer.name!r} is sharded between workers of one device each: --nproc N gives a GPU to "
            f"each. Received: {strategy.num_replicas_in_sync} devices on {workers} workers."
        )
    shard = settings_of(strategy).shard
    if shard is not None and shard.mode != "none" and shard.shares != workers:
        raise UnsupportedError(
            f"The embedding {layer.name!r} is sharded by rows over all {workers} workers, and --shard-over has groups "
            f"of {shard.shares} workers hold a copy each of what is cut. Train with --shard-over all, or with "
            "keras.layers.Embedding, and without --shard-embeddings."
        )
    if layer.input_dim < workers:
        raise UsageError(
            f"The embedding {layer.name!r} is sharded by rows, and each worker has one at least. Received: "
            f"{layer.input_dim} rows for {workers} workers. Use keras.layers.Embedding, which stays whole, with "
            "--shard-embeddings left out or larger."
        )
    if layer.lora_rank or layer.quantization_mode:
        raise UnsupportedError(
            f"The embedding {layer.name!r} is sharded, and cannot have LoRA or be quantized while it is. Train it "
            "whole, by --shard-embeddings with more rows than it has, or without lora_rank and quantization."
        )
    check_constraint(layer.embeddings_constraint, layer.name)


def _table_for(layer: Any) -> TableVariable:
    strategy = tf.distribute.get_strategy()
    cut = rows_evenly((layer.input_dim, layer.output_dim), worker_count(strategy))
    settings_of(strategy).has_tables = True
    with backend.name_scope(layer.name, caller=layer):
        table = TableVariable(
            layer.embeddings_initializer,
            cut,
            worker_rank(strategy),
            layer.name,
            dtype=layer.variable_dtype,
            trainable=True,
            name="embeddings",
        )
    table.regularizer = penalty_of(layer.embeddings_regularizer, layer.name)
    table.constraint = layer.embeddings_constraint
    layer._track_variable(table)
    _log.info(
        "embedding %s: sharded by rows; this worker has %d of %d",
        layer.name,
        cut.shard_shape(table.worker)[0],
        layer.input_dim,
    )
    return table


def _axes(constraint: Any) -> list[int]:
    axis = constraint.axis
    return list(axis) if isinstance(axis, list | tuple) else [axis]
