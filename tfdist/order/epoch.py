"""The order of an epoch's samples and the pieces of it that one worker reads.

Global batch `t` of an epoch is `order[t * batch_size : (t + 1) * batch_size]`. The order depends on the number of
samples, the seed and the epoch alone, so it is the same for any number of workers and replicas.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfdist.order.pieces import bounds


def epoch_order(num_samples: int, seed: int, epoch: int, shuffle: bool) -> NDArray[np.int64]:
    """Returns the samples' indices in the order in which `epoch` visits them.

    Without `shuffle` that is `0, 1, ...` in every epoch. With it, the indices are sorted by random keys. Keys come
    from Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), whose stream numpy promises to
    keep, unlike that of `Generator.permutation`: workers with different versions of numpy agree.

    Args:
        num_samples: Number of samples, at least 0.
        seed: Any integer of at least 0.
        epoch: Counted from 0.
        shuffle: Whether each epoch has a random order of its own.

    Returns:
        A permutation of `range(num_samples)`, int64 of shape `[num_samples]`.
    """
    indices = np.arange(num_samples, dtype=np.int64)
    if not shuffle or num_samples < 2:
        return indices
    index_bits = np.uint64((num_samples - 1).bit_length())
    keys = np.random.Philox(np.random.SeedSequence((seed, epoch))).random_raw(num_samples)
    # A key's low bits give way to the index: keys are distinct, so every sort algorithm gives the same order.
    keys = (keys >> index_bits << index_bits) | indices.view(np.uint64)
    keys.sort()
    return (keys & ((np.uint64(1) << index_bits) - np.uint64(1))).view(np.int64)


def num_steps(num_samples: int, batch_size: int) -> int:
    """Returns the number of global batches of an epoch; the last may be smaller than `batch_size`."""
    return -(-num_samples // batch_size)


def epoch_pieces(num_samples: int, batch_size: int, num_replicas: int, replica_ids: Sequence[int]) -> NDArray[np.int64]:
    """Returns where in an epoch's order the batches of some replicas lie.

    Args:
        num_samples: Number of samples, at least 0.
        batch_size: Samples of a global batch, at least 1.
        num_replicas: Replicas of all workers.
        replica_ids: The replicas asked for, each in `range(num_replicas)`.

    Returns:
        int64 of shape `[num_steps * len(replica_ids), 2]`. Each row is the `(start, stop)` of a batch, which may be
        empty. Rows go step by step, and within a step in the order of `replica_ids`.
    """
    batch_size = min(batch_size, max(num_samples, 1))
    steps = num_steps(num_samples, batch_size)
    full = [bounds(batch_size, num_replicas, k) for k in replica_ids]
    starts = np.arange(steps, dtype=np.int64) * batch_size
    pieces = starts[:, np.newaxis, np.newaxis] + np.array(full, dtype=np.int64).reshape(1, -1, 2)
    if steps and num_samples % batch_size:
        last = [bounds(num_samples % batch_size, num_replicas, k) for k in replica_ids]
        pieces[-1] = starts[-1] + np.array(last, dtype=np.int64)
    return pieces.reshape(-1, 2)
