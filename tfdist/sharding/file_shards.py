"""File shards: who of several workers has which bytes of one file.

A file of weights is values with a structure around them. Workers share the larger values: each has one range of each,
and keeps its ranges one after another in a file of its own. All other bytes, the rest, are in one more file.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.sharding.cut import Cut

_MOST = 1 << 62


@dataclass(frozen=True)
class SharedValue:
    """A value of a file that workers share.

    Attributes:
        begin: The place of its first byte in the file.
        bounds: Where the workers' ranges begin in it, in bytes, and where the last one ends.
    """

    begin: int
    bounds: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.bounds[-1]

    def shard_size(self, worker: int) -> int:
        """Bytes of a worker's range."""
        return self.bounds[worker + 1] - self.bounds[worker]


class Writing(ABC):
    """The writing of a tensor by a job's workers: each writes a range of its shard, in the order of its elements."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The tensor's."""

    @abstractmethod
    def span(self, worker: int) -> tuple[int, int]:
        """Returns where what a worker writes begins and ends in its shard, in elements."""

    @abstractmethod
    def values(self, begin: int, itemsize: int) -> list[SharedValue]:
        """The values of a file that the tensor is, one after another.

        Args:
            begin: The place of its first byte in the file.
            itemsize: Bytes of an element.
        """

    def size(self, worker: int) -> int:
        """Elements that a worker writes."""
        start, stop = self.span(worker)
        return stop - start


@dataclass(frozen=True)
class SharedWriting(Writing):
    """The writing of a tensor of which each worker has a range of the elements.

    Attributes:
        cut: How the workers of a group share the tensor.
        groups: How many groups there are, one after another: each writes as much of a shard as the others.
    """

    cut: Cut
    groups: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.cut.shape

    def span(self, worker: int) -> tuple[int, int]:
        group, share = divmod(worker, self.cut.workers)
        size = self.cut.shard_size(share)
        return size * group // self.groups, size * (group + 1) // self.groups

    def values(self, begin: int, itemsize: int) -> list[SharedValue]:
        """The tensor itself, or one for each shard, of which each group writes a range."""
        if self.groups == 1:
            return [SharedValue(begin, tuple(bound * itemsize for bound in self.cut.bounds))]
        having = [share for share in range(self.cut.workers) if self.cut.shard_size(share)]
        return [self._of_shard(share, begin, itemsize) for share in having]

    def _of_shard(self, share: int, begin: int, itemsize: int) -> SharedValue:
        bounds = [0]
        for worker in range(self.groups * self.cut.workers):
            written = self.size(worker) if worker % self.cut.workers == share else 0
            bounds.append(bounds[-1] + written * itemsize)
        return SharedValue(begin + self.cut.bounds[share] * itemsize, tuple(bounds))


@dataclass(frozen=True)
class Segment:
    """Bytes of the file that are in one place.

    Attributes:
        begin: The place of the first one in the file.
        size: How many.
        worker: Whose they are; None for the rest.
        offset: Their place among those of the worker, or in the rest.
    """

    begin: int
    size: int
    worker: int | None
    offset: int


@dataclass(frozen=True)
class FileShards:
    """The shards of a file that workers share.

    Attributes:
        size: Bytes of the whole.
        workers: How many share it.
        values: What they share, in the order in which each worker has its ranges.

    Raises:
        ValueError: Values overlap, or lie outside of the file.
    """

    size: int
    workers: int
    values: tuple[SharedValue, ...]

    def __post_init__(self) -> None:
        if self.workers < 1 or not 0 <= self.size <= _MOST:
            raise ValueError(f"{self.size} bytes of {self.workers} workers")
        end = 0
        for value in sorted(self.values, key=lambda value: value.begin):
            bounds = value.bounds
            if len(bounds) != self.workers + 1 or bounds[0] != 0 or list(bounds) != sorted(bounds):
                raise ValueError(f"the value at byte {value.begin} is not shared by {self.workers} workers")
            if value.begin < end:
                raise ValueError(f"the value at byte {value.begin} overlaps another")
            end = value.begin + value.size
        if end > self.size:
            raise ValueError(f"a value ends at byte {end} of {self.size}")

    def shard_size(self, worker: int) -> int:
        """Bytes that a worker has."""
        return sum(value.shard_size(worker) for value in self.values)

    @property
    def rest_size(self) -> int:
        """Bytes that no worker has."""
        return self.size - sum(value.size for value in self.values)

    def segments(self) -> list[Segment]:
        """All bytes of the file, in their order; none is empty."""
        found = list(self._of_workers())
        found.sort(key=lambda segment: segment.begin)
        ends = [segment.begin + segment.size for segment in found]
        gaps = zip([0, *ends], [*(segment.begin for segment in found), self.size], strict=True)
        offset = 0
        for begin, end in list(gaps):
            if end > begin:
                found.append(Segment(begin, end - begin, None, offset))
                offset += end - begin
        return sorted(found, key=lambda segment: segment.begin)

    def _of_workers(self) -> list[Segment]:
        offsets, found = [0] * self.workers, []
        for value in self.values:
            for worker, (start, stop) in enumerate(itertools.pairwise(value.bounds)):
                if stop > start:
                    found.append(Segment(value.begin + start, stop - start, worker, offsets[worker]))
                offsets[worker] += stop - start
        return found

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types."""
        values = [[value.begin, *value.bounds] for value in self.values]
        return {"bytes": self.size, "workers": self.workers, "values": values}

    @classmethod
    def from_dict(cls, content: Any) -> FileShards:
        """Returns what `to_dict` returned.

        Raises:
            ValueError: It is something else.
        """
        if not isinstance(content, Mapping) or not isinstance(content.get("values"), list):
            raise ValueError("it is no table of parts")
        rows = content["values"]
        if not all(isinstance(row, list) and len(row) > 1 for row in rows):
            raise ValueError("a value has no bounds")
        numbers = [content.get("bytes"), content.get("workers"), *itertools.chain.from_iterable(rows)]
        if not all(type(number) is int and 0 <= number <= _MOST for number in numbers):
            raise ValueError("places and sizes are no integers")
        values = tuple(SharedValue(row[0], tuple(row[1:])) for row in rows)
        return cls(content["bytes"], content["workers"], values)
