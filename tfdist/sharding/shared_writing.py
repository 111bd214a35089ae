"""Shared writing: which elements of a tensor each worker writes, where groups of workers have the same parts."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.sharding.cut import Cut
from tfdist.sharding.file_parts import SharedValue


@dataclass(frozen=True)
class SharedWriting:
    """How the workers of a job write a tensor, each a range of the part that it has.

    Attributes:
        cut: How the workers of a group share the tensor.
        groups: How many groups there are, one after another: each writes as much of a part as the others.
    """

    cut: Cut
    groups: int = 1

    def span(self, worker: int) -> tuple[int, int]:
        """Where what a worker writes begins and ends in its part, in elements."""
        group, share = divmod(worker, self.cut.workers)
        size = self.cut.part_size(share)
        return size * group // self.groups, size * (group + 1) // self.groups

    def size(self, worker: int) -> int:
        """Elements that a worker writes."""
        start, stop = self.span(worker)
        return stop - start

    def values(self, begin: int, itemsize: int) -> list[SharedValue]:
        """The values of a file that the tensor is: itself, or one for each part, of which each group writes a range.

        Args:
            begin: The place of its first byte in the file.
            itemsize: Bytes of an element.
        """
        if self.groups == 1:
            return [SharedValue(begin, tuple(bound * itemsize for bound in self.cut.bounds))]
        return [self._of_part(share, begin, itemsize) for share in range(self.cut.workers) if self.cut.part_size(share)]

    def _of_part(self, share: int, begin: int, itemsize: int) -> SharedValue:
        bounds = [0]
        for worker in range(self.groups * self.cut.workers):
            written = self.size(worker) if worker % self.cut.workers == share else 0
            bounds.append(bounds[-1] + written * itemsize)
        return SharedValue(begin + self.cut.bounds[share] * itemsize, tuple(bounds))
