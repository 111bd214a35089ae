"""Cut: which elements of one tensor each of several workers holds.

Shards follow one another in the order of the workers, so that a tensor is its shards, flattened, one after another. A
shard may be empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfdist.errors import UsageError

ROWS_PER_WORKER = 32
"""From so many rows a worker on a tensor is cut between rows: one row more is then a small part of what a worker has.

Rows of an embedding are what a sparse gradient names.
"""


@dataclass(frozen=True)
class Cut:
    """The cut of a tensor into shards.

    Attributes:
        shape: The tensor's.
        bounds: Where the shards begin among its elements in row-major order, and where the last one ends: one more than
            there are workers.
        keeps_rank: Whether a shard has the dimensions of the tensor, but fewer rows; otherwise a shard is flat.

    Raises:
        UsageError: The bounds are not those of all elements, or are between two rows nowhere.
    """

    shape: tuple[int, ...]
    bounds: tuple[int, ...]
    keeps_rank: bool

    def __post_init__(self) -> None:
        if len(self.bounds) < 2 or self.bounds[0] != 0 or self.bounds[-1] != self.size:
            raise UsageError(f"A cut begins at element 0 and ends at {self.size}. Received: {self.bounds}")
        if list(self.bounds) != sorted(self.bounds):
            raise UsageError(f"The parts of a cut follow one another. Received: {self.bounds}")
        if self.keeps_rank and self.shape and any(bound % max(1, self.row_size) for bound in self.bounds):
            raise UsageError(f"A cut of {self.shape} between rows is at multiples of {self.row_size}: {self.bounds}")

    @property
    def size(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)

    @property
    def row_size(self) -> int:
        """Elements of one row: of all but the first dimension."""
        return math.prod(self.shape[1:])

    @property
    def workers(self) -> int:
        """The number of share it."""
        return len(self.bounds) - 1

    def span(self, worker: int) -> tuple[int, int]:
        """Returns where the shard of a worker begins and ends, in elements."""
        return self.bounds[worker], self.bounds[worker + 1]

    def shard_size(self, worker: int) -> int:
        """Elements of a worker's shard."""
        start, stop = self.span(worker)
        return stop - start

    def shard_shape(self, worker: int) -> tuple[int, ...]:
        """The shape of a worker's shard."""
        size = self.shard_size(worker)
        if not self.keeps_rank:
            return (size,)
        if size == self.size:
            return self.shape
        return (size // max(1, self.row_size), *self.shape[1:])

    def among(self, workers: int, members: Sequence[int] | None = None) -> Cut:
        """The same shards with some of so many workers; the others have none.

        Args:
            workers: How many.
            members: Who has a shard, ascending; None for the first ones.
        """
        having = range(self.workers) if members is None else members
        bounds = [0]
        for worker in range(workers):
            bounds.append(self.bounds[having.index(worker) + 1] if worker in having else bounds[-1])
        return replace(self, bounds=tuple(bounds))

    @property
    def largest_shard(self) -> int:
        """Elements of the largest shard."""
        return max(self.shard_size(worker) for worker in range(self.workers))


def evenly(shape: Sequence[int], workers: int) -> Cut:
    """A cut into shards as even as they can be: between rows where there are many, else between any two elements."""
    shape = tuple(shape)
    rows = shape[0] if shape else 1
    if len(shape) > 1 and rows >= ROWS_PER_WORKER * workers:
        return rows_evenly(shape, workers)
    size = math.prod(shape)
    return Cut(shape, tuple(size * worker // workers for worker in range(workers + 1)), keeps_rank=False)


def rows_evenly(shape: Sequence[int], workers: int) -> Cut:
    """A cut of a table between rows, into shards as even as they can be."""
    rows, row = shape[0], math.prod(shape[1:])
    return Cut(tuple(shape), tuple(rows * worker // workers * row for worker in range(workers + 1)), keeps_rank=True)


def uncut(shape: Sequence[int], owner: int, workers: int) -> Cut:
    """A cut that leaves a tensor whole, with one worker."""
    size = math.prod(shape)
    bounds = tuple(size if worker > owner else 0 for worker in range(workers + 1))
    return Cut(tuple(shape), bounds, keeps_rank=True)


def owners(sizes: Sequence[int], workers: int) -> tuple[int, ...]:
    """Who has which of some tensors that stay whole, so that all have about as much.

    The largest come first, each to who has least by then (Graham, "Bounds on multiprocessing timing anomalies", 1969:
    nobody has more than 4/3 of what the best choice would give).

    Args:
        sizes: Elements of each.
        workers: Who shares them.

    Returns:
        The worker of each.
    """
    held = [0] * workers
    chosen = [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda number: (-sizes[number], number)):
        owner = min(range(workers), key=lambda worker: (held[worker], worker))
        held[owner] += sizes[number]
        chosen[number] = owner
    return tuple(chosen)
