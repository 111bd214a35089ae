"""Shuffle within windows of a sequence, as a shuffle buffer does with data that is read from its beginning.

Each window is permuted by itself, by the network of `tfdist.order.permutation` with keys of its own, so the sample at
any place is computed and nothing is stored. A reader in this order holds no more than a window at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfdist.order.permutation import ROUNDS, mixed, moved, numbers

_BLOCK = 1 << 12
"""Positions that are permuted at a time: each has keys of its own."""


def permuted_in_windows(
    positions: NDArray[np.int64], windows: NDArray[np.int64], sizes: NDArray[np.int64], name: str
) -> NDArray[np.int64]:
    """Where the permutation of its window takes each position.

    Args:
        positions: In their windows, counted from 0, [k].
        windows: The number of each one's window, of 0 or more, [k]; another number gives another permutation.
        sizes: The size of each one's window, below 2**31, [k].
        name: The name of all of the permutations.

    Returns:
        int64 [k], each in `range` of its size.
    """
    names = numbers(name, ROUNDS)
    permuted = positions.astype(np.uint64)
    for start in range(0, len(permuted), _BLOCK):
        block = slice(start, start + _BLOCK)
        keys = mixed(windows[block].astype(np.uint64) + names[:, np.newaxis], np.uint64(0))
        permuted[block] = _permute(permuted[block], sizes[block].astype(np.uint64), keys)
    return permuted.view(np.int64)


def _permute(cells: NDArray[np.uint64], sizes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    cells = _pass(cells, sizes, keys)
    while len(outside := np.flatnonzero(cells >= sizes)):
        cells[outside] = _pass(cells[outside], sizes[outside], keys[:, outside])
    return cells


def _pass(cells: NDArray[np.uint64], sizes: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One pass through the network, with a rectangle of its own for each cell: uint64 [k]."""
    roots = np.floor(np.sqrt((sizes - np.uint64(1)).astype(np.float64))).astype(np.uint64)
    columns = np.uint64(2) * (roots // np.uint64(2) + np.uint64(1))
    rows = (sizes + columns - np.uint64(1)) // columns
    return moved(cells, columns, rows, keys)
