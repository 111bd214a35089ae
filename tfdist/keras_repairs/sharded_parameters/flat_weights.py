"""Weights of which each worker stores a range of the elements: ZeRO-3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.gradient_sums import differentiated_once, reduce_gradients
from tfdist.keras_repairs.sharded_parameters.parameter_shard import Gradient, ParameterShard
from tfdist.keras_repairs.sharding_policies.shards import FlatShard
from tfdist.runtime.collectives.array_all_gather import all_gather_array, as_array, as_tensor
from tfdist.runtime.transport import shard_collectives

_TOTAL: AttachedValue[tf.IndexedSlices] = AttachedValue("total_of_slices")


@dataclass(eq=False)
class FlatParameterShard(ParameterShard, FlatShard):
    """A worker's range of the elements of a weight.

    Attributes:
        strategy: Whose workers share it, also in threads in which it is not in force.
    """

    strategy: tf.distribute.Strategy

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return shard_collectives.sum_small

    def like(self, variable: Any) -> FlatShard:
        return FlatShard(variable, self.cut, self.worker)

    def of_sum(self, total: Gradient) -> Gradient:
        is_sparse = isinstance(total, tf.IndexedSlices)
        cut_out = shard_collectives.rows_of_shard if is_sparse else shard_collectives.cut_shard
        return cut_out(total, self.cut, self.worker)

    def full(self) -> NDArray:
        return all_gather_array(as_array(self.stored), self.cut, self.strategy)

    def join(self, shard: tf.Tensor) -> tf.Tensor:
        """In a function an operation of the graph, outside of one in host memory."""
        if tf.executing_eagerly():
            return as_tensor(all_gather_array(as_array(shard), self.cut, self.strategy))
        return shard_collectives.all_gather_one(shard, self.cut)

    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        return shard_collectives.cut_shard_copy(full, self.cut, self.worker)

    def sum_of(self, gradient: Gradient) -> Gradient:
        if isinstance(gradient, tf.IndexedSlices):
            return summed_slices(gradient, self.of_sum)
        (own,) = shard_collectives.reduce_scatter_gradients([gradient], [self.cut])
        return differentiated_once(tf.reshape(own, self.cut.shard_shape(self.worker)))

    def full_sum(self, total: Gradient) -> Gradient:
        if isinstance(total, tf.Tensor):
            return shard_collectives.all_gather_one(total, self.cut)
        return full_slices(total, self.stored.name)


def summed_slices(gradient: tf.IndexedSlices, own: Callable[[Gradient], Gradient]) -> tf.IndexedSlices:
    """Returns this worker's shard of a sum of sparse gradients, which `own` takes from the sum."""
    (total,) = reduce_gradients([gradient])
    assert isinstance(total, tf.IndexedSlices), "sparse ones stay sparse"
    total = tf.IndexedSlices(differentiated_once(total.values), total.indices, total.dense_shape)
    rows = own(total)
    assert isinstance(rows, tf.IndexedSlices), "of sparse ones as well"
    _TOTAL.set(rows.values, total)
    return rows


def full_slices(rows: tf.IndexedSlices, name: str) -> tf.IndexedSlices:
    """The full sum of sparse gradients, of which `summed_slices` has returned a shard.

    Raises:
        UnsupportedError: It is one of several sums of the variable of this name.
    """
    found = _TOTAL.get(rows.values)
    if found is None:
        raise UnsupportedError(
            f"--shard zero3 cannot put together sparse gradients of {name}, which is looked up several times in a "
            "step, for an optimizer that updates whole variables. Train with --shard zero2."
        )
    return found
