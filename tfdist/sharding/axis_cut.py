"""Axis cut: the slices along one axis of a tensor that several workers have, and who writes which bytes of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tfdist.sharding.cut import Cut
from tfdist.sharding.file_shards import SharedValue, Writing


@dataclass(frozen=True)
class AxisCut:
    """The cut of a tensor into slices along one axis, as even as they can be. A slice may be empty.

    Attributes:
        shape: The tensor's.
        axis: The axis that is cut, from 0 on.
        shares: The number of workers that have a slice each.
    """

    shape: tuple[int, ...]
    axis: int
    shares: int

    @property
    def bounds(self) -> tuple[int, ...]:
        """The places along the axis where the slices begin, and where the last one ends."""
        size = self.shape[self.axis]
        return tuple(size * share // self.shares for share in range(self.shares + 1))

    def index(self, share: int) -> tuple[slice, ...]:
        """The index that takes a slice of the tensor."""
        own = slice(*self.bounds[share : share + 2])
        return tuple(own if place == self.axis else slice(None) for place in range(len(self.shape)))

    def slice_shape(self, share: int) -> tuple[int, ...]:
        """The shape of a slice."""
        start, stop = self.bounds[share : share + 2]
        return (*self.shape[: self.axis], stop - start, *self.shape[self.axis + 1 :])

    @property
    def to_front(self) -> tuple[int, ...]:
        """The permutation of the axes that puts the one that is cut first, so that slices are ranges of elements."""
        return (self.axis, *(place for place in range(len(self.shape)) if place != self.axis))

    @property
    def from_front(self) -> tuple[int, ...]:
        """The inverse of `to_front`."""
        return tuple(sorted(range(len(self.shape)), key=self.to_front.__getitem__))

    @property
    def of_front(self) -> Cut:
        """The same cut of the tensor whose axes are permuted by `to_front`."""
        shape = tuple(self.shape[place] for place in self.to_front)
        return Cut(shape, tuple(bound * math.prod(shape[1:]) for bound in self.bounds), keeps_rank=True)


@dataclass(frozen=True)
class AxisWriting(Writing):
    """The writing of a tensor of which each worker of a group has a slice: those of the first group write theirs.

    Attributes:
        cut: How the workers of a group share the tensor.
        workers: Those of all groups.
    """

    cut: AxisCut
    workers: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cut.shape

    def span(self, worker: int) -> tuple[int, int]:
        return 0, math.prod(self.cut.slice_shape(worker)) if worker < self.cut.shares else 0

    def values(self, begin: int, itemsize: int) -> list[SharedValue]:
        """One for each index before the axis: the elements of a slice follow one another no longer than that."""
        shape, axis = self.cut.shape, self.cut.axis
        inner = math.prod(shape[axis + 1 :]) * itemsize
        ends = [bound * inner for bound in self.cut.bounds]
        bounds = (*ends, *[ends[-1]] * (self.workers - self.cut.shares))
        size = shape[axis] * inner
        return [SharedValue(begin + place * size, bounds) for place in range(math.prod(shape[:axis]))]
