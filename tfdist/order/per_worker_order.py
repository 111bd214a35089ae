"""The order of samples that are dealt to the workers before the run: each worker reads its own share alone.

A global batch takes samples of every worker in proportion to its share, so that all shares end in the same step. Each
worker computes the same numbers from the sizes of all shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tfdist.order.epoch_order import num_steps
from tfdist.order.interleaved_parts import taken_before


class SampleOrder(Protocol):
    """The order of the samples that a worker can read."""

    @property
    def seed(self) -> int:
        """The seed that the order depends on."""

    @property
    def shuffle(self) -> bool:
        """True if each epoch has an order of its own."""

    def at(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at some places of an epoch."""

    def sample_seeds(self, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.int32]:
        """The random seeds of samples in an epoch."""


@dataclass(frozen=True)
class WorkerShareOrder:
    """The order of one worker's own samples.

    Attributes:
        own: Of this worker's samples, numbered from 0.
        before: Samples of the workers before it.
    """

    own: SampleOrder
    before: int

    @property
    def seed(self) -> int:
        """See `SampleOrder`."""
        return self.own.seed

    @property
    def shuffle(self) -> bool:
        """See `SampleOrder`."""
        return self.own.shuffle

    def at(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `SampleOrder`."""
        return self.own.at(epoch, places)

    def sample_seeds(self, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.int32]:
        """See `SampleOrder`: no two samples of the job have the same."""
        return self.own.sample_seeds(epoch, samples + self.before)


@dataclass(frozen=True)
class WorkerShareSteps:
    """The split of the workers' own samples to steps and replicas; compare `tfdist.order.epoch_order.EpochSteps`.

    Attributes:
        sizes: The number of samples of each worker, not all 0.
        batch_size: Samples of a global batch, at least 1; the last of an epoch may be smaller.
        num_replicas: Replicas of all workers, equally many on each.
    """

    sizes: tuple[int, ...]
    batch_size: int
    num_replicas: int

    @property
    def num_samples(self) -> int:
        """Samples of all workers."""
        return sum(self.sizes)

    def __len__(self) -> int:
        """The number of steps, the same on every worker."""
        return num_steps(self.num_samples, self.batch_size)

    @property
    def every_replica_has_samples(self) -> bool:
        """True if every replica is known to have a sample of each global batch, which it is not here."""
        return False

    def largest_piece(self, replica_ids: Sequence[int]) -> int:
        """An upper bound of the samples that one of these replicas gets in a step."""
        most = 0
        for worker in {replica // self._per_worker for replica in replica_ids}:
            size = self.sizes[worker]
            # In a step those are taken that are due in a stretch of the epoch of about this length.
            stretch = (self.batch_size + len(self.sizes)) / self.num_samples
            most = max(most, min(size, self.batch_size, int(size * stretch) + 2))
        return -(-most // self._per_worker)

    def pieces(self, first: int, last: int, replica_ids: Sequence[int]) -> NDArray[np.int64]:
        """Returns where among its worker's samples the batches of some replicas lie; see `EpochSteps.pieces`."""
        bounds = np.minimum(np.arange(first, last + 1, dtype=np.int64) * self.batch_size, self.num_samples)
        workers, places = np.divmod(np.array(replica_ids, np.int64), self._per_worker)
        taken = taken_before(np.array(self.sizes, np.int64), bounds)[:, workers]
        starts, sizes = taken[:-1], np.diff(taken, axis=0)
        cuts = [starts - (-(place * sizes) // self._per_worker) for place in (places, places + 1)]
        return np.stack(cuts, axis=-1).reshape(-1, 2)

    @property
    def _per_worker(self) -> int:
        return self.num_replicas // len(self.sizes)
