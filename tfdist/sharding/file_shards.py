"""File shards: who of several workers has which bytes of one file.

A file of weights is values with a structure around them. Workers share the larger values: each has one range of each,
and keeps its ranges one after another in a file of its own. All other bytes, the rest, are in one more file.
"""

from __future__ import annotations

import bisect
import functools
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
        repeats: How many follow one another that are shared so, such as the rows of a matrix of which workers have
            some columns each; a worker has its ranges of them one after another.
    """

    begin: int
    bounds: tuple[int, ...]
    repeats: int = 1

    @property
    def size(self) -> int:
        """Its bytes, with the repeats."""
        return self.bounds[-1] * self.repeats

    @property
    def end(self) -> int:
        """The place behind its last byte in the file."""
        return self.begin + self.size

    def shard_size(self, worker: int) -> int:
        """Bytes of a worker's ranges."""
        return (self.bounds[worker + 1] - self.bounds[worker]) * self.repeats


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
        for value in self._in_file:
            bounds = value.bounds
            if len(bounds) != self.workers + 1 or bounds[0] != 0 or list(bounds) != sorted(bounds) or not value.repeats:
                raise ValueError(f"the value at byte {value.begin} is not shared by {self.workers} workers")
            if value.begin < end:
                raise ValueError(f"the value at byte {value.begin} overlaps another")
            end = value.end
        if end > self.size:
            raise ValueError(f"a value ends at byte {end} of {self.size}")

    def shard_size(self, worker: int) -> int:
        """Bytes that a worker has."""
        return sum(value.shard_size(worker) for value in self.values)

    @property
    def rest_size(self) -> int:
        """Bytes that no worker has."""
        return self.size - sum(value.size for value in self.values)

    @functools.cached_property
    def gaps(self) -> list[Segment]:
        """The bytes that no worker has, in their order."""
        found, offset, ends = [], 0, [0, *(value.end for value in self._in_file)]
        for end, begin in zip(ends, [*(value.begin for value in self._in_file), self.size], strict=True):
            if begin > end:
                found.append(Segment(end, begin - end, None, offset))
                offset += begin - end
        return found

    def at(self, place: int) -> Segment:
        """The bytes around a place of the file that lie in one place."""
        number = bisect.bisect_right(self._begins, place) - 1
        value = self._in_file[number] if number >= 0 else None
        if value is None or place >= value.end:
            return self.gaps[bisect.bisect_right(self.gaps, place, key=lambda gap: gap.begin) - 1]
        repeat, inside = divmod(place - value.begin, value.bounds[-1])
        worker = bisect.bisect_right(value.bounds, inside) - 1
        start, stop = value.bounds[worker : worker + 2]
        offset = self._offsets[value][worker] + repeat * (stop - start)
        return Segment(value.begin + repeat * value.bounds[-1] + start, stop - start, worker, offset)

    @functools.cached_property
    def _in_file(self) -> list[SharedValue]:
        """The values in the order of the file; one without a byte comes before what begins there."""
        return sorted(self.values, key=lambda value: (value.begin, value.size))

    @functools.cached_property
    def _begins(self) -> list[int]:
        return [value.begin for value in self._in_file]

    @functools.cached_property
    def _offsets(self) -> dict[SharedValue, list[int]]:
        """Where the workers' ranges of each value begin among the bytes that they have."""
        offsets, found = [0] * self.workers, {}
        for value in self.values:
            found[value] = list(offsets)
            for worker in range(self.workers):
                offsets[worker] += value.shard_size(worker)
        return found

    def to_dict(self) -> dict[str, Any]:
        """In JSON's types."""
        values = [[value.begin, *value.bounds] for value in self.values]
        repeats = [value.repeats for value in self.values]
        repeated = {"repeats": repeats} if any(count > 1 for count in repeats) else {}
        return {"bytes": self.size, "workers": self.workers, "values": values, **repeated}

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
        repeats = content.get("repeats", [1] * len(rows))
        if not isinstance(repeats, list) or len(repeats) != len(rows):
            raise ValueError("it does not say how often each value is repeated")
        numbers = [content.get("bytes"), content.get("workers"), *itertools.chain.from_iterable(rows), *repeats]
        if not all(type(number) is int and 0 <= number <= _MOST for number in numbers):
            raise ValueError("places and sizes are no integers")
        pairs = zip(rows, repeats, strict=True)
        values = tuple(SharedValue(row[0], tuple(row[1:]), count) for row, count in pairs)
        return cls(content["bytes"], content["workers"], values)
