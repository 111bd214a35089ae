"""Weights of which each worker stores a slice along an axis, as a `keras.distribution.LayoutMap` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.gradients.gradient_sums import differentiated_once
from tfdist.keras_repairs.sharded_parameters.flat_weights import full_slices, summed_slices
from tfdist.keras_repairs.sharded_parameters.gathered_reads import read, shard_of_sum
from tfdist.keras_repairs.sharded_parameters.parameter_shard import Gradient, ParameterShard
from tfdist.keras_repairs.sharded_parameters.second_gathers import is_gradient_taken
from tfdist.keras_repairs.sharding.shards import FullOnDemand, Shard
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedWeight, computes_with_slices, standing_for
from tfdist.runtime.collectives.array_all_gather import all_gather_array
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import shard_collectives, shard_groups
from tfdist.sharding.axis_cut import AxisCut, AxisWriting

_SLICED: AttachedValue[dict[tuple[ParameterShard, tf.DType], tf.Tensor]] = AttachedValue("weights_in_slices")
"""Of a graph: what stands for each weight that it has read in a dtype."""


@dataclass(eq=False)
class AxisShard(Shard):
    """A worker's slice along an axis of a variable, which has that as its value.

    Attributes:
        variable: The Keras variable.
        cut: How the workers share the full value.
        share: This one's place among them.
        strategy: Whose workers these are, also in threads in which it is not in force.
    """

    variable: Any
    cut: AxisCut
    share: int
    strategy: tf.distribute.Strategy

    @property
    def stored(self) -> Any:
        value = self.variable._value
        return value.stored if isinstance(value, FullOnDemand) else value

    @property
    def full_shape(self) -> tuple[int, ...]:
        return self.cut.shape

    @property
    def size(self) -> int:
        return int(np.prod(self.cut.slice_shape(self.share)))

    @property
    def description(self) -> str:
        return f"the state {self.variable.path} is cut"

    def full(self) -> NDArray:
        return self._joined(self.stored.numpy())

    def of(self, full: Any) -> tf.Tensor:
        return tf.convert_to_tensor(full)[self.cut.index(self.share)]

    def read(self, source: Any) -> NDArray:
        return np.asarray(source[self.cut.index(self.share)])

    def writing(self, workers: int) -> AxisWriting:
        return AxisWriting(self.cut, workers)

    def _joined(self, own: NDArray) -> NDArray:
        front = all_gather_array(own.transpose(self.cut.to_front), self.cut.of_front, self.strategy)
        return np.ascontiguousarray(front.transpose(self.cut.from_front))


@dataclass(eq=False)
class AxisParameterShard(AxisShard, ParameterShard):
    """A worker's slice along an axis of a weight."""

    @property
    def description(self) -> str:
        return f"the weight {self.variable.path} is cut"

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return shard_collectives.sum_small

    def like(self, variable: Any) -> AxisShard:
        return AxisShard(variable, self.cut, self.share, self.strategy)

    def of_sum(self, total: Gradient) -> Gradient:
        if not isinstance(total, tf.IndexedSlices):
            return self.of(total)
        if self.cut.axis == 0:
            return shard_collectives.rows_of_shard(total, self.cut.of_front, self.share)
        shape = tf.constant(self.cut.slice_shape(self.share), tf.int64)
        return tf.IndexedSlices(total.values[self.cut.index(self.share)], total.indices, shape)

    def join(self, shard: tf.Tensor) -> tf.Tensor:
        """In a function an operation of the graph, outside of one in host memory."""
        if tf.executing_eagerly():
            return tf.constant(self._joined(shard.numpy()))
        front = shard_collectives.all_gather_one(tf.transpose(shard, self.cut.to_front), self.cut.of_front)
        return tf.transpose(front, self.cut.from_front)

    def in_slices(self, dtype: tf.DType) -> tf.Tensor | None:
        bounds = self.cut.bounds
        if not computes_with_slices() or any(start == stop for start, stop in zip(bounds, bounds[1:], strict=False)):
            return None
        made = _SLICED.get_or_make(tf.compat.v1.get_default_graph(), dict)
        if (self, dtype) not in made:
            stored = self.stored.read_value()
            own = self._slice(stored, dtype)
            weight = SlicedWeight(own, self.cut.axis, bounds, lambda: read(self, dtype), stored, self._summed_gradient)
            made[self, dtype] = standing_for(weight, self.cut.shape)
        return made[self, dtype]

    def _slice(self, stored: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """This worker's slice, whose gradient has come of the rows of all workers that share the weight."""

        @tf.custom_gradient
        def sliced(stored: tf.Tensor) -> tuple[tf.Tensor, Callable[[Gradient], Gradient | None]]:
            def gradient(upstream: Gradient) -> Gradient | None:
                if not is_gradient_taken(self.stored):
                    return None
                own = tf.cast(tf.convert_to_tensor(upstream), self.stored.dtype)
                (total,) = shard_groups.sum_between_groups([tf.reshape(own, [-1])], settings_of(self.strategy))
                return differentiated_once(tf.reshape(total, self.cut.slice_shape(self.share)))

            return tf.cast(stored, dtype), gradient

        return sliced(stored)

    def _summed_gradient(self, gradient: Gradient) -> Gradient | None:
        return shard_of_sum(gradient, self) if is_gradient_taken(self.stored) else None

    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        return tf.identity(self.of(full))

    def sum_of(self, gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return summed_slices(gradient, self.of_sum)
        front = self.cut.of_front
        (own,) = shard_collectives.reduce_scatter_gradients([tf.transpose(gradient, self.cut.to_front)], [front])
        rows = self.cut.slice_shape(self.share)[self.cut.axis]
        own = tf.reshape(own, (rows, *front.shape[1:]))
        return differentiated_once(tf.transpose(own, self.cut.from_front))

    def full_sum(self, total: Gradient) -> Gradient:
        return self.join(total) if isinstance(total, tf.Tensor) else full_slices(total, self.stored.name)
