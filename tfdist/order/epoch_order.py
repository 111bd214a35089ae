"""The order of an epoch's samples, and which of them each replica reads in a step.

Global batch `t` of an epoch is `order[t * batch_size : (t + 1) * batch_size]`. The order depends on the number of
samples, the seed and the epoch alone, so it is the same for any number of workers and replicas. Nothing as large as an
epoch is ever made: a step in its middle costs as much as the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfdist.order.batch_split import bounds
from tfdist.order.permutation import MAX_SAMPLES, mixed, numbers, permuted


@dataclass(frozen=True)
class EpochOrder:
    """The order of the samples in every epoch.

    Attributes:
        num_samples: From 1 to `MAX_SAMPLES`.
        seed: Any integer of at least 0.
        shuffle: Whether each epoch has a random order of its own; else it is `0, 1, ...` in all of them.

    Raises:
        ValueError: `num_samples` is out of its range.
    """

    num_samples: int
    seed: int = 0
    shuffle: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.num_samples <= MAX_SAMPLES:
            raise ValueError(f"Expected from 1 to {MAX_SAMPLES} samples. Received: {self.num_samples}")

    def at(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples at some places of an epoch.

        Args:
            epoch: Counted from 0.
            places: Each in `range(num_samples)`.

        Returns:
            Their numbers, int64 of the same shape.
        """
        return permuted(places, self.num_samples, f"seed {self.seed}, epoch {epoch}") if self.shuffle else places

    def of(self, epoch: int) -> NDArray[np.int64]:
        """The whole of an epoch: a permutation of `range(num_samples)`, int64, for what is small enough."""
        return self.at(epoch, np.arange(self.num_samples, dtype=np.int64))

    def sample_seeds(self, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.int32]:
        """The random seeds of samples in an epoch, wherever and whenever they are read.

        Args:
            epoch: Counted from 0.
            samples: Their numbers, [k].

        Returns:
            A seed for each of them as `tf.random.stateless_uniform` and its kin take it, int32 [k, 2].
        """
        return sample_seeds(self.seed, epoch, samples)


def sample_seeds(seed: int, epoch: int, samples: NDArray[np.int64]) -> NDArray[np.int32]:
    """See `EpochOrder.sample_seeds`; the same for a sample in whichever order it is read."""
    (key,) = numbers(f"samples, seed {seed}, epoch {epoch}", 1)
    return mixed(samples.astype(np.uint64), key).astype("<u8").view("<i4").astype(np.int32).reshape(-1, 2)


@dataclass(frozen=True)
class EpochSteps:
    """The distribution of the samples of an epoch to steps and replicas.

    Attributes:
        num_samples: At least 0.
        batch_size: Samples of a global batch, at least 1; the last of an epoch may be smaller.
        num_replicas: Replicas of all workers, at least 1.
    """

    num_samples: int
    batch_size: int
    num_replicas: int = 1

    def __len__(self) -> int:
        """The number of steps."""
        return num_steps(self.num_samples, self.batch_size)

    @property
    def every_replica_has_samples(self) -> bool:
        """True if every replica has a sample of each global batch."""
        last = self.num_samples % self.batch_size or self.batch_size
        return min(last, self.batch_size) >= self.num_replicas

    def largest_piece(self, replica_ids: Sequence[int]) -> int:
        """The number of samples in the largest batch that one of these replicas gets."""
        full = min(self.batch_size, self.num_samples)
        return max(stop - start for start, stop in (bounds(full, self.num_replicas, k) for k in replica_ids))

    def pieces(self, first: int, last: int, replica_ids: Sequence[int]) -> NDArray[np.int64]:
        """Returns where in an epoch's order the batches of some replicas lie.

        Args:
            first: The first step asked for.
            last: The step after the last one, at most `len(self)`.
            replica_ids: The replicas asked for, each in `range(num_replicas)`.

        Returns:
            int64 of shape `[(last - first) * len(replica_ids), 2]`. Each row is the `(start, stop)` of a batch, which
            may be empty. Rows go step by step, and within a step in the order of `replica_ids`.
        """
        batch_size = min(self.batch_size, self.num_samples)
        starts = np.arange(first, last, dtype=np.int64) * batch_size
        pieces = starts[:, np.newaxis, np.newaxis] + self._cut(batch_size, replica_ids)
        left = self.num_samples - (last - 1) * batch_size
        if first < last and left < batch_size:
            pieces[-1] = starts[-1] + self._cut(left, replica_ids)
        return pieces.reshape(-1, 2)

    def _cut(self, samples: int, replica_ids: Sequence[int]) -> NDArray[np.int64]:
        return np.array([bounds(samples, self.num_replicas, k) for k in replica_ids], np.int64).reshape(-1, 2)


def num_steps(num_samples: int, batch_size: int) -> int:
    """Returns the number of global batches of an epoch; the last may be smaller than `batch_size`."""
    return -(-num_samples // batch_size)
