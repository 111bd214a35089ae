"""Axis cut: the slices along an axis of a tensor that workers have, or blocks along two, and who writes which bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tfdist.sharding.cut import Cut
from tfdist.sharding.file_shards import SharedValue, Writing


def even_bounds(size: int, parts: int) -> tuple[int, ...]:
    """Where the parts of so many places begin, as even as they can be, and where the last one ends."""
    return tuple(size * part // parts for part in range(parts + 1))


@dataclass(frozen=True)
class BlockCut:
    """The cut of a tensor into blocks along some of its axes, as even as they can be. A block may be empty.

    Attributes:
        shape: The tensor's.
        axes: The axes that are cut, from 0 on. Blocks that follow one another differ along the last of these first.
        parts: How many parts there are along each.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    parts: tuple[int, ...]

    @property
    def shares(self) -> int:
        """The number of blocks: each worker of a group has one."""
        return math.prod(self.parts)

    def places(self, share: int) -> tuple[int, ...]:
        """Where a block stands along each of the axes that are cut, from 0 on."""
        found = []
        for parts in reversed(self.parts):
            share, place = divmod(share, parts)
            found.append(place)
        return tuple(reversed(found))

    def bounds_along(self, axis: int) -> tuple[int, ...]:
        """The places along an axis that is cut where the parts begin, and where the last one ends."""
        size, parts = self.shape[axis], self.parts[self.axes.index(axis)]
        return even_bounds(size, parts)

    def index(self, share: int) -> tuple[slice, ...]:
        """The index that takes a block of the tensor."""
        return self._index(self.axes, self.places(share))

    def slice_shape(self, share: int) -> tuple[int, ...]:
        """The shape of a block."""
        return self._shape_of(self.index(share))

    @property
    def flat(self) -> Cut:
        """The same cut of the blocks' elements, one block after another."""
        ends = itertools.accumulate((math.prod(self.slice_shape(share)) for share in range(self.shares)), initial=0)
        return Cut((math.prod(self.shape),), tuple(ends), keeps_rank=False)

    @property
    def slabs(self) -> list[tuple[slice, ...]]:
        """The indices that take the tensor apart along all axes that are cut but the last, in the order of the blocks.

        The blocks of a slab are ranges of its elements where `to_front` permutes its axes.
        """
        places = itertools.product(*map(range, self.parts[:-1]))
        return [self._index(self.axes[:-1], place) for place in places]

    def slab_shape(self, slab: tuple[slice, ...]) -> tuple[int, ...]:
        """The shape of one of `slabs`."""
        return self._shape_of(slab)

    @property
    def to_front(self) -> tuple[int, ...]:
        """The permutation of the axes that puts the last one that is cut first."""
        first = self.axes[-1]
        return (first, *(place for place in range(len(self.shape)) if place != first))

    @property
    def from_front(self) -> tuple[int, ...]:
        """The inverse of `to_front`."""
        return tuple(sorted(range(len(self.shape)), key=self.to_front.__getitem__))

    def _index(self, axes: tuple[int, ...], places: tuple[int, ...]) -> tuple[slice, ...]:
        found = [slice(0, size) for size in self.shape]
        for axis, place in zip(axes, places, strict=True):
            found[axis] = slice(*self.bounds_along(axis)[place : place + 2])
        return tuple(found)

    def _shape_of(self, index: tuple[slice, ...]) -> tuple[int, ...]:
        return tuple(part.stop - part.start for part in index)


def further_axis(shape: Sequence[int], cut: Collection[int], parts: int) -> int | None:
    """The axis along which what is cut along others is cut into further parts: the longest with an element for each.

    Args:
        shape: The tensor's.
        cut: The axes that are cut already.
        parts: How many more there are to be.
    """
    free = [place for place, size in enumerate(shape) if place not in cut and size >= parts]
    return max(free, key=lambda place: shape[place], default=None)


class AxisCut(BlockCut):
    """The cut of a tensor into slices along one axis.

    Args:
        shape: The tensor's.
        axis: The axis that is cut, from 0 on.
        shares: The number of workers that have a slice each.
    """

    def __init__(self, shape: tuple[int, ...], axis: int, shares: int) -> None:
        super().__init__(shape, (axis,), (shares,))

    @property
    def axis(self) -> int:
        """As given."""
        return self.axes[0]

    @property
    def bounds(self) -> tuple[int, ...]:
        """The places along the axis where the slices begin, and where the last one ends."""
        return self.bounds_along(self.axis)


@dataclass(frozen=True)
class BlockWriting(Writing):
    """The writing of a tensor of which each worker of a group has a block: those of one group write theirs.

    Attributes:
        cut: How the workers of a group share the tensor.
        writers: The workers of the group that writes, in their order.
        workers: How many there are in all groups.
    """

    cut: BlockCut
    writers: tuple[int, ...]
    workers: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cut.shape

    def span(self, worker: int) -> tuple[int, int]:
        if worker not in self.writers:
            return 0, 0
        return 0, math.prod(self.cut.slice_shape(self.writers.index(worker)))

    def values(self, begin: int, itemsize: int) -> list[SharedValue]:
        """One for each part of the tensor that all blocks cut alike, row by row along the last axis that is cut."""
        last = max(self.cut.axes)
        inner = math.prod(self.cut.shape[last + 1 :]) * itemsize
        found = []
        for outer, rows in self._runs(last):
            if rows:
                found.append(SharedValue(begin, self._bounds(outer, last, inner), rows))
                begin += found[-1].size
        return found

    def _runs(self, last: int) -> Iterator[tuple[int | None, int]]:
        """The rows that follow one another in one part along the other axis that is cut: that part, and how many."""
        shape = self.cut.shape
        outer = next((axis for axis in self.cut.axes if axis != last), None)
        if outer is None:
            yield None, math.prod(shape[:last])
            return
        ends, between = self.cut.bounds_along(outer), math.prod(shape[outer + 1 : last])
        for _ in range(math.prod(shape[:outer])):
            for part, (start, stop) in enumerate(itertools.pairwise(ends)):
                yield part, (stop - start) * between

    def _bounds(self, outer: int | None, last: int, inner: int) -> tuple[int, ...]:
        """Where the workers' ranges of a row end that is in a part along the other axis that is cut."""
        cut, found = self.cut, [0]
        ends = cut.bounds_along(last)
        for worker in range(self.workers):
            if worker not in self.writers:
                found.append(found[-1])
                continue
            places = dict(zip(cut.axes, cut.places(self.writers.index(worker)), strict=True))
            other = next((place for axis, place in places.items() if axis != last), None)
            found.append(ends[places[last] + 1] * inner if other == outer else found[-1])
        return tuple(found)
