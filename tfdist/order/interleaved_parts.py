"""Proportional split of an epoch's places among parts of unequal size, so that all parts end together.

Sample `i` of a part of `n` is due at `(i + 1/2) / n` of the way through the epoch, and samples are taken in the order
in which they are due; of those that are due at the same place, the one of the earlier part comes first. This is the
method of Webster and Sainte-Laguë (Balinski and Young, "Fair Representation", 1982): as more is taken, no share gets
smaller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def taken_before(sizes: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many samples of each part come before some places of an epoch.

    Only a few samples around each place are looked at, however long the epoch is.

    Args:
        sizes: Samples of each part, [parts], each of 0 or more and at least one of them positive.
        places: Each from 0 to the sum of `sizes`, [m].

    Returns:
        int64 [m, parts]. Each row adds up to its place, and none is smaller anywhere than that of a lower place.
    """
    taken = np.empty((len(places), len(sizes)), np.int64)
    total = float(sizes.sum())
    # Samples that are due nearer to the place than this may be on either side of it; one more for rounding.
    slack = sizes * (len(sizes) / 2 / total) + 1
    for row, place in enumerate(places.tolist()):
        share = sizes * (place / total)
        surely = np.clip(np.floor(share - slack), 0, sizes).astype(np.int64)
        perhaps = np.clip(np.ceil(share + slack), 0, sizes).astype(np.int64) - surely
        parts = np.repeat(np.arange(len(sizes)), perhaps)
        numbers = np.arange(len(parts)) + (surely - np.cumsum(perhaps) + perhaps)[parts]
        nearest = np.argsort((2 * numbers + 1) / (2 * sizes[parts]), kind="stable")[: place - int(surely.sum())]
        taken[row] = surely + np.bincount(parts[nearest], minlength=len(sizes))
    return taken
