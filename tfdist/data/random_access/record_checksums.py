"""The checksums of many TFRecord records at once.

To compute the CRC of a small record takes less time than to call Python for it. Any data that is followed by its own
CRC has the same CRC, the residue, and a CRC is linear: so records that lie one behind another can be made into one
piece of data whose CRC is the residue if all of them are whole, and else but for one chance in 2**32 is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.crc32c import library_value, masked_crc32c_of_each, unmasked
from tfdist.data.random_access.tfrecord_scan import FOOTER_BYTES

_WORD = np.arange(4)


def all_whole(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Returns whether records are what their checksums say; False also where the library for it is missing.

    Args:
        data: Holds the records, each followed by its footer. It is written over.
        starts: Where each begins, [k]; two may be the same, and else none reaches into another.
        sizes: In bytes, without the footers, [k].
    """
    value = library_value()
    if value is None or not len(starts):
        return value is not None
    starts, kept = np.unique(starts, return_index=True)
    ends = starts + sizes[kept]
    data[ends[:, np.newaxis] + _WORD] = unmasked(_words(data, ends)).astype("<u4").view(np.uint8).reshape(-1, 4)
    gaps = starts[1:] - ends[:-1] - FOOTER_BYTES
    for gap in np.unique(gaps).tolist():
        after = starts[1:][gaps == gap, np.newaxis]
        data[after - np.arange(gap, 0, -1)] = 0
        # Takes the register from where the residue and the gap leave it back to where every CRC begins.
        back = value(np.zeros(FOOTER_BYTES + gap, np.uint8))
        data[after + _WORD] ^= np.frombuffer(back.to_bytes(4, "little"), np.uint8)
    return value(data[starts[0] : ends[-1] + FOOTER_BYTES]) == value(np.zeros(FOOTER_BYTES, np.uint8))


def first_corrupt(data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> int | None:
    """Computes the checksum of each record; see `all_whole`.

    Returns:
        The place in `starts` of the first that is not what its checksum says, or None where all are whole.
    """
    if not len(starts):
        return None
    wrong = masked_crc32c_of_each(data, starts, sizes) != _words(np.frombuffer(data, np.uint8), starts + sizes)
    return int(wrong.argmax()) if wrong.any() else None


def _words(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The little-endian numbers of four bytes at some places, uint32 [k]."""
    return data[places[:, np.newaxis] + _WORD].view("<u4").reshape(-1)
