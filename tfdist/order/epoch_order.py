"""The order of an epoch's samples, and which of them each replica reads in a step.

Global batch `t` of an epoch is `order[t * batch_size : (t + 1) * batch_size]`. The order depends on the number of
samples, the seed and the epoch alone, so it is the same for any number of workers and replicas. Nothing as large as an
epoch is ever made: a step in its middle costs as much as the first.

The permutation is a generalised Feistel network (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002) over
a rectangle of at least as many cells as there are samples: a cell's column is moved by a random number that depends on
its row, then its row by one that depends on its column, and so on, with a key for every round. Each round can be
undone, so the whole is a permutation (Luby and Rackoff, 1988). What lands on a cell that is not a sample is permuted
again until it lands on a sample ("cycle walking", in the same paper), which happens to fewer than one in sqrt(n).

The random numbers are those of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014), in integer arithmetic modulo 2**64, which is the same on every machine and with every version of NumPy. The keys
come from SHAKE-128.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_SAMPLES = 2**60
ROUNDS = 24
"""Four make large permutations random (Luby and Rackoff); those of fewer than ten samples need many times more."""

_BLOCK = 1 << 14
"""Positions that are permuted at a time, so that intermediate results stay in the processor's cache."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def permuted(positions: NDArray[np.int64], num_samples: int, name: str) -> NDArray[np.int64]:
    """Returns where a permutation of `range(num_samples)` takes some positions.

    Args:
        positions: Each in `range(num_samples)`, of any shape.
        num_samples: From 1 to `MAX_SAMPLES`.
        name: The name of the permutation. Another name or number of samples gives an unrelated permutation.

    Returns:
        int64 of the same shape.

    Raises:
        ValueError: `num_samples` is out of its range.
    """
    if not 1 <= num_samples <= MAX_SAMPLES:
        raise ValueError(f"Expected from 1 to {MAX_SAMPLES} samples. Received: {num_samples}")
    keys = numbers(f"{num_samples} samples, {name}", ROUNDS)
    cells = positions.astype(np.uint64).reshape(-1)
    for start in range(0, len(cells), _BLOCK):
        block = cells[start : start + _BLOCK]
        block[:] = _permute_cells(block, num_samples, keys)
        while len(outside := np.flatnonzero(block >= np.uint64(num_samples))):
            block[outside] = _permute_cells(block[outside], num_samples, keys)
    return cells.view(np.int64).reshape(positions.shape)


def numbers(name: str, count: int) -> NDArray[np.uint64]:
    """Returns random numbers that depend on a name alone, uint64 [count]."""
    data = hashlib.shake_128(f"tfdist order: {name}".encode()).digest(8 * count)
    return np.frombuffer(data, "<u8").astype(np.uint64)


def mixed(values: NDArray[np.uint64], key: np.uint64 | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Random numbers, each of which depends on a value and the key alone: uint64 of the same shape."""
    mixed = values + key
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _permute_cells(cells: NDArray[np.uint64], num_samples: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One pass through the network: cells of the rectangle to cells of it, uint64 [k]."""
    # An even number of columns: of the moves of such a row half are odd. Else odd permutations would never be drawn.
    columns = np.uint64(2 * (math.isqrt(num_samples - 1) // 2 + 1))
    rows = np.uint64(-(-num_samples // int(columns)))
    return moved(cells, columns, rows, keys)


def moved(
    cells: NDArray[np.uint64],
    columns: np.uint64 | NDArray[np.uint64],
    rows: np.uint64 | NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """Moves cells along their rows and columns in turn, uint64 [k]; see `move` for sizes and keys."""
    row = cells // columns
    column = cells - row * columns
    for first, second in zip(keys[::2], keys[1::2], strict=True):
        move(column, row, first, columns)
        move(row, column, second, rows)
    return row * columns + column


def move(
    places: NDArray[np.uint64],
    by: NDArray[np.uint64],
    key: np.uint64 | NDArray[np.uint64],
    size: np.uint64 | NDArray[np.uint64],
) -> None:
    """Moves each place, in a circle of `size` places, by a random number that depends on `by` and `key`.

    There is one key and size for all places, or one for each.
    """
    moves = mixed(by, key)
    moves >>= np.uint64(32)
    moves *= size
    moves >>= np.uint64(32)  # from 32 random bits to a number below size (Lemire, 2019)
    places += moves
    # Past the end of the circle; where it is not past, the difference wraps around and is the larger of the two.
    np.minimum(places, places - size, out=places)


def bounds(n: int, parts: int, k: int) -> tuple[int, int]:
    """Returns `(start, stop)` of piece `k` when `n` samples are cut into `parts` contiguous pieces.

    Piece `k` starts at `ceil(k * n / parts)`. The pieces cover `range(n)` in order, their sizes differ by at most one,
    and piece 0 is never smaller than another, so it is empty only when `n` is 0. When there are fewer samples than
    pieces, some pieces are empty.

    The cut nests: pieces `k*m ... k*m + m - 1` of `parts*m` together are piece `k` of `parts`. So a worker with `m`
    replicas reads the same samples as it would with one.

    Args:
        n: Number of samples, at least 0.
        parts: Number of pieces, at least 1.
        k: Which piece, `0 <= k < parts`.

    Raises:
        ValueError: An argument is out of its range.
    """
    if n < 0 or parts < 1 or not 0 <= k < parts:
        raise ValueError(f"Expected n >= 0, parts >= 1 and 0 <= k < parts. Received: n={n}, parts={parts}, k={k}")
    return _start(n, parts, k), _start(n, parts, k + 1)


def _start(n: int, parts: int, k: int) -> int:
    return -(-k * n // parts)


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
