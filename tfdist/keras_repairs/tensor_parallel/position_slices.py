"""Sequences that `--context` cuts over workers: each has a slice of the positions, of the samples of all of its group.

What comes into a layer is cut along its second axis, the positions, and stays so through all that computes position by
position. Attention needs the positions of all: its queries, keys and values change places for slices of the heads, and
its result changes back (Jacobs et al., 2023, arXiv:2309.14509). Where there are fewer heads than workers, queries stay
as they are, and keys and values of all positions are gathered (section 3.3.2 of Dubey et al., 2024, arXiv:2407.21783).
What mixes positions in another way finds a worker's own samples whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend as keras_backend

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.tensor_attributes import ACTIVATIONS
from tfdist.keras_repairs.tensor_parallel.row_exchanges import slices_of_all
from tfdist.keras_repairs.tensor_parallel.rule_results import has_rows
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    SlicedRows,
    actual_of,
    computes_with_slices,
    exchanged_once,
    sliced_of,
    standing_for,
)
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.axis_cut import even_bounds
from tfdist.sharding.mesh import Mesh, ShardGroup

_POSITIONS = 1
"""The axis of the positions in what layers are called with, `[samples, positions, ..., features]`."""


def group_of_context() -> ShardGroup | None:
    """The workers that share this one's sequences; None without `--context`."""
    strategy = tf.distribute.get_strategy()
    size = settings_of(strategy).context
    if size == 1:
        return None
    mesh = Mesh.of(data=worker_count(strategy) // size, shard=size)
    return mesh.shard_group(["shard"], worker_rank(strategy))


def call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `Layer.__call__`: sequences of features that come into a layer are cut along their positions."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        group = group_of_context() if computes_with_slices() else None
        step = current_step()
        if group is None or (step is not None and step.share.static_rows is not None):
            return original(self, *args, **kwargs)
        args, kwargs = keras.tree.map_structure(lambda value: _cut(value, group), (args, kwargs))
        return original(self, *args, **kwargs)

    return repaired


def _cut(value: Any, group: ShardGroup) -> Any:
    """What stands for a sequence of features whose positions are cut; anything else as it is."""
    value = actual_of(value)
    if not isinstance(value, tf.Tensor) or not value.dtype.is_floating or not _is_sequence(value, group):
        return value

    def made() -> tf.Tensor:
        bounds = even_bounds(value.shape[_POSITIONS], len(group.workers))
        own, counts = slices_of_all(value, _POSITIONS, bounds, group)
        sliced = SlicedRows(own, _POSITIONS, bounds, group, counts, value, [value])
        stand_in = standing_for(sliced, value.shape)
        mask = keras_backend.get_keras_mask(value)
        if mask is not None:
            keras_backend.set_keras_mask(stand_in, mask)
        return stand_in

    return exchanged_once(value, ("cut", group), made)


def _is_sequence(value: tf.Tensor, group: ShardGroup) -> bool:
    rank = value.shape.rank
    if rank is None or rank < 3 or sliced_of(value) is not None or not has_rows(value):
        return False
    # Losses look for the logits behind probabilities.
    if getattr(value, "_keras_logits", None) is not None or value.op.type in ACTIVATIONS:
        return False
    positions = value.shape[_POSITIONS]
    return positions is not None and positions >= len(group.workers) and value.graph is tf.compat.v1.get_default_graph()
