"""Random permutation of any number of samples, computed place by place and never stored.

A generalised Feistel network (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002) over a rectangle of at
least as many cells as there are samples: a cell's column is moved by a random number that depends on its row, then its
row by one that depends on its column, and so on, with a key for every round. Each round can be undone, so the whole is
a permutation (Luby and Rackoff, 1988). What lands on a cell that is not a sample is permuted again until it lands on a
sample ("cycle walking", in the same paper), which happens to fewer than one in sqrt(n).

The random numbers are those of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014), in integer arithmetic modulo 2**64, which is the same on every machine and with every version of NumPy. The keys
come from SHAKE-128.
"""

from __future__ import annotations

import hashlib
import math

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
