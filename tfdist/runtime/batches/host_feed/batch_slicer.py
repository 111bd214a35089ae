"""The slices of a worker's replicas, cut out of the arrays of a global batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.order import epoch_order


def share_rows(arrays: Sequence[NDArray], has_rows: Sequence[bool]) -> bool:
    """Returns whether those arrays that have rows of samples have as many."""
    return len({len(array) for array, has in zip(arrays, has_rows, strict=True) if has}) <= 1


@dataclass
class BatchSlicer:
    """Cuts batches of one kind as `ReplicaBatch`es are cut on the worker that has drawn the batch itself.

    Attributes:
        replicas: All replicas of the training.
        ids: Those of this worker, in order.
        has_rows: Of each array of a batch, whether its first dimension is the samples.
        counts_replicas: Whether the slices say how many replicas have a sample.
        shows_extent: Whether they have an extent.
        shares_rows: Whether the arrays of a batch have as many rows each; every replica gets whole batches otherwise.
            None: as those of the first batch.
        are_rows: Whether what comes are `MappedRows`, of which the last two arrays say where in the batch they belong.
    """

    replicas: int
    ids: Sequence[int]
    has_rows: tuple[bool, ...]
    counts_replicas: bool
    shows_extent: bool = False
    shares_rows: bool | None = True
    are_rows: bool = False

    def rows(self, arrays: Sequence[NDArray]) -> int:
        """The samples of a batch."""
        if self.are_rows:
            return int(arrays[-2])
        return next((len(array) for array, rows in zip(arrays, self.has_rows, strict=True) if rows), 1)

    def slices(
        self, arrays: Sequence[NDArray], largest: int, copy: Callable[[NDArray], NDArray]
    ) -> list[list[NDArray]]:
        """The parts of a `ReplicaBatch` for each of this worker's replicas, flat, in the order of its fields.

        Args:
            arrays: Those of a global batch.
            largest: Samples of the largest batch so far.
            copy: Makes copies of what is cut out.
        """
        total, before = self.rows(arrays), 0
        if self.are_rows:
            before, arrays = int(arrays[-1]), arrays[:-2]
        if self.shares_rows is None:
            self.shares_rows = share_rows(arrays, self.has_rows)
        counting = [min(total, self.replicas)] if self.counts_replicas else []
        extent = [np.zeros((total, 0), bool)] if self.shows_extent else []
        made = []
        for replica in self.ids:
            first, end = epoch_order.bounds(total, self.replicas, replica)
            # A replica without samples gets the first row that there is, which counts nowhere.
            start, stop = (0, 1) if first == end else (first - before, end - before)
            parts = zip(arrays, self.has_rows, strict=True)
            data = [copy(array[start:stop] if has and self.shares_rows else array) for array, has in parts]
            numbers = [end - first, first, total, *counting, largest]
            made.append([*data, *(np.array(number, np.int64) for number in numbers), *extent])
        return made
