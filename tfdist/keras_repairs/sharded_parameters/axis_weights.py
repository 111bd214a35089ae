"""Weights of which each worker stores a slice along an axis, or a block, as a `keras.distribution.LayoutMap` says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.gradient_sums import differentiated_once
from tfdist.keras_repairs.sharded_parameters.flat_weights import full_slices, summed_slices
from tfdist.keras_repairs.sharded_parameters.gathered_reads import read, shard_of_sum
from tfdist.keras_repairs.sharded_parameters.parameter_shard import Gradient, ParameterShard
from tfdist.keras_repairs.sharded_parameters.second_gathers import is_gradient_taken
from tfdist.keras_repairs.sharding_policies.shards import FullOnDemand, Shard
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import (
    SlicedWeight,
    computes_with_slices,
    standing_for,
)
from tfdist.runtime.collectives.array_all_gather import all_gather_array, as_array, as_tensor, empty_for_tensor
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import shard_collectives, shard_groups
from tfdist.sharding.axis_cut import AxisCut, BlockCut, BlockWriting
from tfdist.sharding.mesh import ShardGroup


@dataclass(eq=False)
class BlockShard(Shard):
    """A worker's block of a variable, which has that as its value.

    Attributes:
        variable: The Keras variable.
        cut: How a group of workers shares the full value.
        group: This worker's group.
        strategy: Whose workers these are, also in threads in which it is not in force.
    """

    variable: Any
    cut: BlockCut
    group: ShardGroup
    strategy: tf.distribute.Strategy

    @property
    def share(self) -> int:
        """This worker's place in its group."""
        return self.group.share

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
        return self._joined(as_array(self.stored))

    def of(self, full: Any) -> tf.Tensor:
        return tf.convert_to_tensor(full)[self.cut.index(self.share)]

    def read(self, source: Any) -> NDArray:
        return np.asarray(source[self.cut.index(self.share)])

    def writing(self, workers: int) -> BlockWriting:
        return BlockWriting(self.cut, self.group.first, workers)

    def _joined(self, own: NDArray) -> NDArray:
        flat = self.cut.flat
        blocks = all_gather_array(own, flat, self.strategy, self.group.first)
        if self.cut.axes == (0,):
            return blocks.reshape(self.cut.shape)
        full = empty_for_tensor(flat.size, own.dtype).reshape(self.cut.shape)
        for share in range(self.cut.shares):
            full[self.cut.index(share)] = blocks[slice(*flat.span(share))].reshape(self.cut.slice_shape(share))
        return full


@dataclass(eq=False)
class BlockParameterShard(BlockShard, ParameterShard):
    """A worker's block of a weight."""

    @property
    def description(self) -> str:
        return f"the weight {self.variable.path} is cut"

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return shard_collectives.SumOver(self.group)

    def like(self, variable: Any) -> BlockShard:
        return BlockShard(variable, self.cut, self.group, self.strategy)

    def of_sum(self, total: Gradient) -> Gradient:
        if not isinstance(total, tf.IndexedSlices):
            return self.of(total)
        (rows, *inner), shape = self.cut.index(self.share), self.cut.slice_shape(self.share)
        values, indices = total.values[(slice(None), *inner)], total.indices
        if 0 in self.cut.axes:
            is_mine = tf.logical_and(indices >= rows.start, indices < rows.stop)
            values, indices = tf.boolean_mask(values, is_mine), tf.boolean_mask(indices, is_mine) - rows.start
        return tf.IndexedSlices(values, indices, tf.constant(shape, tf.int64))

    def join(self, shard: tf.Tensor) -> tf.Tensor:
        """In a function an operation of the graph, outside of one in host memory."""
        if tf.executing_eagerly():
            return as_tensor(self._joined(as_array(shard)))
        cut, front = self.cut, tf.transpose(shard, self.cut.to_front)
        flat = shard_collectives.all_gather_one(front, cut.flat, self.group)
        shapes = [cut.slab_shape(slab) for slab in cut.slabs]
        parts = tf.split(flat, [int(np.prod(shape)) for shape in shapes]) if len(shapes) > 1 else [flat]
        slabs = [from_front(part, shape, cut) for part, shape in zip(parts, shapes, strict=True)]
        return tf.concat(slabs, cut.axes[0]) if len(slabs) > 1 else slabs[0]

    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.DeepCopy(x=self.of(full))

    def sum_of(self, gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return summed_slices(gradient, self.of_sum)
        cut = self.cut
        slabs = [tf.reshape(tf.transpose(gradient[slab], cut.to_front), [-1]) for slab in cut.slabs]
        flat = tf.concat(slabs, 0) if len(slabs) > 1 else slabs[0]
        (own,) = shard_collectives.reduce_scatter_gradients([flat], [cut.flat], self.group)
        return differentiated_once(from_front(own, cut.slice_shape(self.share), cut))

    def full_sum(self, total: Gradient) -> Gradient:
        return self.join(total) if isinstance(total, tf.Tensor) else full_slices(total, self.stored.name)


class AxisParameterShard(BlockParameterShard):
    """A worker's slice of a weight along an axis of it, and along the last axis of the mesh."""

    cut: AxisCut

    def in_slices(self, dtype: tf.DType) -> tf.Tensor | None:
        bounds = self.cut.bounds
        if not computes_with_slices() or any(start == stop for start, stop in zip(bounds, bounds[1:], strict=False)):
            return None
        # Read for each reader: between two of them a step may update the weight.
        stored = self.stored.read_value()
        own, join = self._slice(stored, dtype), functools.partial(read, self, dtype, stored)
        weight = SlicedWeight(own, self.cut.axis, bounds, self.group, join, stored, self._summed_gradient)
        return standing_for(weight, self.cut.shape)

    def _slice(self, stored: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """This worker's slice, whose gradient has come of the rows of all workers that share the weight."""

        @tf.custom_gradient
        def sliced(stored: tf.Tensor) -> tuple[tf.Tensor, Callable[[Gradient], Gradient | None]]:
            def gradient(upstream: Gradient) -> Gradient | None:
                if not is_gradient_taken(self.stored):
                    return None
                own = tf.cast(tf.convert_to_tensor(upstream), self.stored.dtype)
                return self.sum_between_groups(own)

            return tf.cast(stored, dtype), gradient

        return sliced(stored)

    def sum_between_groups(self, own: tf.Tensor) -> tf.Tensor:
        """The sum of gradients by the slice over the workers that have it."""
        settings = settings_of(self.strategy)
        # A gradient may not know its shape.
        (total,) = shard_groups.sum_between_groups([tf.reshape(own, [self.size])], settings, self.group)
        return differentiated_once(tf.reshape(total, self.cut.slice_shape(self.share)))

    def _summed_gradient(self, gradient: Gradient) -> Gradient | None:
        return shard_of_sum(gradient, self) if is_gradient_taken(self.stored) else None


def from_front(flat: tf.Tensor, shape: tuple[int, ...], cut: BlockCut) -> tf.Tensor:
    """A part of a weight of some shape, whose elements come in the order of `to_front`."""
    front = tf.reshape(flat, [shape[place] for place in cut.to_front])
    return tf.transpose(front, cut.from_front)
