"""Weights stored in slices of which several workers have the same, which share its gradient and its state out.

With `--shard zero1` or more beside layouts, each of them sums and updates a part of the slice, along another axis than
the layout cuts, and hands it over to the others. Of the full weight such a part is a block: the state of a weight with
the layout `(None, "model")` is stored as that of one with `("batch", "model")`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.gradient_sums import differentiated_once
from tfdist.keras_repairs.sharded_parameters.axis_weights import (
    AxisParameterShard,
    BlockParameterShard,
    BlockShard,
    from_front,
)
from tfdist.keras_repairs.sharded_parameters.parameter_shard import Gradient
from tfdist.runtime.transport import shard_collectives
from tfdist.sharding.axis_cut import AxisCut, further_axis
from tfdist.sharding.mesh import AxisName, Mesh, ShardGroup


@dataclass(eq=False)
class SharedBlock(BlockParameterShard):
    """A worker's block of a weight, which others have, too.

    Attributes:
        part: What this worker updates of the weight: a block of this one.
    """

    part: BlockParameterShard

    @functools.cached_property
    def among(self) -> ShardGroup:
        """The workers with the same block, each of which has a part of it."""
        worker = self.group.workers[self.share]
        return ShardGroup(self.group.alike, self.group.alike.index(worker), (worker,), self.group.alike)

    @functools.cached_property
    def parts(self) -> AxisCut:
        """The cut of the block into these parts."""
        (axis,) = set(self.part.cut.axes) - set(self.cut.axes)
        return AxisCut(self.cut.slice_shape(self.share), axis, len(self.group.alike))

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return self.part.sum_over_shards

    def like(self, variable: Any) -> BlockShard:
        return self.part.like(variable)

    def of_sum(self, total: Gradient) -> Gradient:
        return self.part.of_sum(total)

    def sum_of(self, gradient: Gradient) -> Gradient:
        return self.part.sum_of(gradient)

    def full_sum(self, total: Gradient) -> Gradient:
        return self.part.full_sum(total)

    def own_part(self, block: tf.Tensor) -> tf.Tensor:
        """This worker's part of its block."""
        return block[self.parts.index(self.among.share)]

    def flat_part(self, part: tf.Tensor) -> tf.Tensor:
        """A part, flat, for an exchange by `parts.flat`."""
        return tf.reshape(tf.transpose(part, self.parts.to_front), [-1])

    def block_of(self, flat: tf.Tensor) -> tf.Tensor:
        """The block of what all parts are one after another, flat."""
        return from_front(flat, self.parts.shape, self.parts)


@dataclass(eq=False)
class SharedAxisSlice(SharedBlock, AxisParameterShard):
    """A worker's slice of a weight along an axis, with which it computes, and which others have, too."""

    def sum_between_groups(self, own: tf.Tensor) -> tf.Tensor:
        """See `AxisParameterShard`; of the sum this worker has its part."""
        summed = shard_collectives.reduce_scatter_in_group(self.flat_part(own), self.parts.flat, self.among)
        return differentiated_once(from_front(summed, self.parts.slice_shape(self.among.share), self.parts))


def with_state_axis(axes: Mapping[AxisName, int], shape: tuple[int, ...], mesh: Mesh) -> dict[AxisName, int]:
    """The axes along which the state of a weight is cut, by the mesh's axis that each is along, in their order.

    Args:
        axes: Those along which the weight is.
        shape: The weight's.
        mesh: Of the workers.

    Returns:
        One more where the mesh has another axis, and the weight an axis for it: the longest that it does not cut yet.
    """
    for name in ("data", "shard"):
        place = None if name in axes or mesh.size(name) == 1 else further_axis(shape, [*axes.values()], mesh.size(name))
        if place is not None:
            found = {**axes, name: place}
            return {each: found[each] for each in ("data", "shard")}
    return dict(axes)
